// pickle.h — reads the data of a Python pickle and runs none of its code.
//
// DESCRIPTION. A pickle is a program for a small stack machine. This reader executes only the
// opcodes that build plain data (dict, list, tuple, str, bytes, int, float, bool, None) in
// protocols 2 to 5, and refuses every other one by name and offset: those that import or call
// (GLOBAL, STACK_GLOBAL, REDUCE, BUILD, NEWOBJ, INST, OBJ, EXT, PERSID) above all.
//
// Values live in one array and refer to each other by index, so a value that is shared a million
// times is stored once. Strings point into the input, which must outlive the result.
//
// Invariants
//  (1) Memory is at most a fixed multiple of the input's length: an opcode of n bytes makes at
//      most one value and moves at most what is on the stack; lengths are checked against the
//      bytes that are there before anything is set aside.
//  (2) Values may form cycles: walk them to a fixed depth only.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/result.h"

namespace sim::allocator {

enum class PickleId : std::int32_t {};
inline constexpr PickleId no_value{-1};

enum class PickleKind : std::uint8_t {
  none,
  boolean,
  integer,
  real,
  text,
  bytes,
  list,
  tuple,
  dict,
};
const char* name(PickleKind kind);

class Pickle {
 public:
  PickleId root() const { return root_; }
  PickleKind kind(PickleId id) const { return at(id).kind; }
  // REQUIRES: the value is of that kind; boolean counts as integer.
  std::int64_t integer(PickleId id) const { return at(id).integer; }
  double real(PickleId id) const { return at(id).real; }
  std::string_view text(PickleId id) const { return at(id).text; }
  const std::vector<PickleId>& items(PickleId id) const;  // of a list or tuple
  // Keys and values alternate; a later pair with the same key wins.
  const std::vector<PickleId>& pairs(PickleId id) const;
  // The value of a text key, or no_value.
  PickleId find(PickleId dict, std::string_view key) const;

 private:
  friend class PickleReader;

  struct Value {
    PickleKind kind = PickleKind::none;
    std::int32_t children = -1;  // index into children_
    union {
      std::int64_t integer = 0;
      double real;
    };
    std::string_view text;
  };

  const Value& at(PickleId id) const { return values_[static_cast<std::size_t>(id)]; }

  std::vector<Value> values_;
  std::vector<std::vector<PickleId>> children_;
  PickleId root_ = no_value;
};

// `name` opens the diagnostic, as "name:offset".
Result<Pickle> read_pickle(std::string_view bytes, std::string_view name);

}  // namespace sim::allocator
