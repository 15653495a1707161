// family_fields.h — the fields of an Architecture that a family file may name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/model/architecture.h"

namespace sim::input {

struct FamilyValue {
  enum class Kind : std::uint8_t { count, share, boolean, word };
  std::int64_t count = 0;
  double share = 0;
  bool boolean = false;
  std::string word;
};

// A field, the kind of its value, the bounds of a count, the words that it takes, and its setter.
// `set` returns false for a word that it does not know.
struct FamilySetter {
  std::string_view name;
  FamilyValue::Kind kind;
  std::int64_t most = 0;
  bool (*set)(model::Architecture& a, const FamilyValue& value) = nullptr;
};

std::span<const FamilySetter> family_setters();
const FamilySetter* family_setter(std::string_view name);  // null: there is no such field

}  // namespace sim::input
