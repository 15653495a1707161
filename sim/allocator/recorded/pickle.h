// pickle.h — reads the data of a Python pickle without running any of its code.
//
// The reader of memory snapshots (snapshot.h) calls it. A pickle is a program for a small stack
// machine. This reader executes only the opcodes that build plain data (dict, list, tuple, str,
// bytes, int, float, bool, None) in protocols 2 to 5. It refuses every other opcode by name and
// offset, above all those that import or call: GLOBAL, STACK_GLOBAL, REDUCE, BUILD, NEWOBJ, INST,
// OBJ, EXT, PERSID.
//
// Values lie in one array and refer to each other by index. A value that is shared a million times
// is stored once. Strings point into the input, which must outlive the result.
//
// Invariants
//  (1) Memory is at most a fixed multiple of the input's length. An opcode of n bytes makes at most
//      one value, and moves at most the values on the stack. Each length is checked against the
//      remaining bytes before memory is reserved.
//  (2) Values may form cycles: walk them only to a fixed depth.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/result.h"

namespace sim::allocator {

// Index of a value in its Pickle.
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

// The values of one pickle. Accessors assert the kind of the value.
class Pickle {
 public:
  PickleId root() const { return root_; }
  PickleKind kind(PickleId id) const { return at(id).kind; }
  // REQUIRES: the value has the kind of the function's name; a boolean counts as an integer.
  std::int64_t integer(PickleId id) const { return at(id).integer; }
  double real(PickleId id) const { return at(id).real; }
  std::string_view text(PickleId id) const { return at(id).text; }
  const std::vector<PickleId>& items(PickleId id) const;  // of a list or tuple
  // The keys and values of a dict, alternating. A later pair with the same key wins.
  const std::vector<PickleId>& pairs(PickleId id) const;
  // The value of a text key of a dict, or no_value.
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

// Reads a whole pickle. Diagnostics start with "name:offset" (bytes).
Result<Pickle> read_pickle(std::string_view bytes, std::string_view name);

}  // namespace sim::allocator
