// syntax.h — parses Python source into the statements and expressions that describe a training run.
//
// run.cpp calls `parse` once for a script. Assignments, calls with keywords, literals, functions,
// conditions and blocks become a tree. Any other expression, such as a comparison or a
// comprehension, becomes one node with its text: its value is unknown.
//
// Invariant: nested at most max_depth deep. Deeper text is a problem, and not a long recursion.
//
// Source of the grammar: docs.python.org/3/reference/grammar.html.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/input/launch/python/tokens.h"

namespace sim::python {

constexpr int max_depth = 64;

struct Expression {
  enum class Kind : std::uint8_t {
    nothing,  // None
    truth,    // True, False
    number,
    string,
    list,  // a list or a tuple; parts: its elements
    dict,  // parts: the values, names: the keys ("" for one that is no string)
    name,
    member,    // parts[0].text
    item,      // parts[0][parts[1]]
    call,      // parts[0](parts[1], ..., names = the others); "*", "**" for unpacked ones
    negative,  // -parts[0]
    product,   // parts[0] `text` parts[1], of + - * / // % **
    other,     // text: as it is written
  };
  Kind kind = Kind::nothing;
  std::string text;
  std::size_t at = 0;
  std::vector<Expression> parts;
  std::vector<std::string> names;  // of a call: one for each argument, "" for one by position
};

struct Statement {
  enum class Kind : std::uint8_t {
    expression,
    assign,     // targets = value; text: the operator of an augmented one
    import,     // names, each with the path that it stands for
    define,     // a function: text its name, targets its parameters, values their defaults
    condition,  // value decides between body and otherwise
    block,      // with, try: the body runs
    loop,       // for, while: the body runs an unknown number of times
    type,       // a class: text its name
    give,       // return value
    none,
  };
  Kind kind = Kind::none;
  std::size_t at = 0;
  std::string text;
  std::vector<Expression> targets;
  std::vector<Expression> values;
  std::vector<std::pair<std::string, std::string>> names;
  std::vector<Statement> body, otherwise;
};

// The statements of a file. With a problem they end before it.
std::vector<Statement> parse(std::string_view text, SyntaxProblem& problem);

}  // namespace sim::python
