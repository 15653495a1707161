#include "sim/allocator/recorded/pickle.h"

#include <cassert>

namespace sim::allocator {

const char* name(PickleKind kind) {
  switch (kind) {
    case PickleKind::none:
      return "None";
    case PickleKind::boolean:
      return "bool";
    case PickleKind::integer:
      return "int";
    case PickleKind::real:
      return "float";
    case PickleKind::text:
      return "str";
    case PickleKind::bytes:
      return "bytes";
    case PickleKind::list:
      return "list";
    case PickleKind::tuple:
      return "tuple";
    case PickleKind::dict:
      return "dict";
  }
  return "";
}

const std::vector<PickleId>& Pickle::items(PickleId id) const {
  assert(kind(id) == PickleKind::list || kind(id) == PickleKind::tuple);
  return children_[static_cast<std::size_t>(at(id).children)];
}

const std::vector<PickleId>& Pickle::pairs(PickleId id) const {
  assert(kind(id) == PickleKind::dict);
  return children_[static_cast<std::size_t>(at(id).children)];
}

PickleId Pickle::find(PickleId dict, std::string_view key) const {
  const std::vector<PickleId>& all = pairs(dict);
  for (std::size_t i = all.size(); i >= 2; i -= 2) {
    const Value& candidate = at(all[i - 2]);
    if (candidate.kind == PickleKind::text && candidate.text == key) return all[i - 1];
  }
  return no_value;
}

}  // namespace sim::allocator
