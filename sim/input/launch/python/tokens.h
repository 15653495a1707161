// tokens.h — splits Python source into tokens, with the indentation of blocks as tokens of their
// own.
//
// syntax.cpp calls it once for a file. Each token keeps its byte offset, so that messages can name
// a line and a column. Text in brackets has no line ends and no indentation, as in Python.
//
// Source of the grammar: docs.python.org/3/reference/lexical_analysis.html.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sim::python {

struct Token {
  enum class Kind : std::uint8_t {
    name,
    number,
    string,   // text: the content, its escapes replaced
    pattern,  // an f-string: only the run knows its content
    symbol,   // an operator or a bracket
    line_end,
    indent,
    dedent,
    end,
  };
  Kind kind = Kind::end;
  std::string text;
  std::size_t at = 0;    // byte offset of the first character
  std::size_t stop = 0;  // one past the last character
};

// A syntax error and its place.
struct SyntaxProblem {
  std::string message;  // "": none
  std::size_t at = 0;
};

// The tokens of the text; the last one is `end`. With a problem they end before it.
std::vector<Token> tokens_of(std::string_view text, SyntaxProblem& problem);

}  // namespace sim::python
