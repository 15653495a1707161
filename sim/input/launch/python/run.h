// run.h — follows a Python script that builds objects with keywords, without running Python.
//
// nemo_script.cpp calls `follow` for a script of NeMo 2. A call of a library is not executed: it
// becomes an Object with its path and its keywords, to which later assignments add fields.
// Functions of the script are followed with their arguments. Values that only the run knows stay
// unknown.
//
// Invariants: no program is started. Steps and elements of lists are bounded. Text that is not
// followed is in `unread`; a condition that only the run decides is taken as false.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/input/launch/python/syntax.h"

namespace sim::python {

constexpr int max_steps = 200'000;
constexpr std::size_t max_elements = 1 << 16;  // of all lists together
constexpr std::size_t max_string = 2048;       // the rest of a longer one is left out

struct Object;

struct Value {
  enum class Kind : std::uint8_t {
    missing,  // no such value
    unknown,  // text: as the script writes it
    nothing,  // None
    truth,    // text: "True", "False"
    number,
    string,
    path,  // a name of a library: "torch.bfloat16"
    list,
    object,
  };
  Kind kind = Kind::missing;
  std::string text;
  std::size_t at = 0;
  std::vector<Value>* items = nullptr;  // of a list; owned by Followed, as the object
  Object* object = nullptr;

  bool is(Kind other) const { return kind == other; }
  // The last part of a path: "bfloat16".
  std::string name() const { return text.substr(text.find_last_of('.') + 1); }
};

struct Object {
  std::string path;  // of what was called: "nemo.lightning.MegatronStrategy"; "": of a field's own
  std::size_t at = 0;
  std::vector<Value> positional;
  std::map<std::string, Value, std::less<>> fields;
  const Object* of = nullptr;  // whose method it is: trainer.fit(...)

  std::string name() const { return path.substr(path.find_last_of('.') + 1); }
  Value field(std::string_view key) const {
    const auto found = fields.find(key);
    return found == fields.end() ? Value{} : found->second;
  }
};

struct Unread {
  enum class Kind : std::uint8_t {
    condition,   // taken as false
    loop,        // its body is not followed
    assignment,  // to a field of an unknown value
    keywords,    // ** of an unknown value
  };
  Kind kind = Kind::condition;
  std::string text;
  std::size_t at = 0;
};

struct Followed {
  std::deque<Object> objects;  // in the order of their calls
  std::deque<std::vector<Value>> lists;
  std::map<std::string, Value, std::less<>> environment;  // os.environ
  std::vector<Unread> unread;
  SyntaxProblem problem;
  bool too_long = false;
};

// `is_goal` tells the calls that the caller looks for. Functions that the script does not call are
// followed too, with the defaults of their parameters, until one makes such a call.
Followed follow(std::string_view text, bool (*is_goal)(const Object&));

}  // namespace sim::python
