// huggingface_keys.h — the keys of a config.json, by type; and the readers of mixtures of experts.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/text.h"
#include "sim/input/models/huggingface_json.h"
#include "sim/input/text/textproto.h"
#include "sim/model/architecture.h"

namespace sim::input {

// Limits far above any network, low enough that no product of them overflows 64 bits.
inline constexpr std::int64_t max_layers = 10'000;
inline constexpr std::int64_t max_hidden = 1 << 20;
inline constexpr std::int64_t max_width = 1 << 24;  // ffn, vocabulary, heads x head_dim
inline constexpr std::int64_t max_heads = 1 << 16;
inline constexpr std::int64_t max_positions = std::int64_t{1} << 31;
inline constexpr std::int64_t max_experts = 1 << 14;
inline constexpr std::int64_t max_parameters = 1'000'000'000'000'000;

// Typed access to the keys; what is wrong is collected. A number that is wrong reads as 0.
class Keys {
 public:
  Keys(const JsonObject& object, Diagnostics& problems) : object_(object), problems_(problems) {}
  // Of an object inside of another's values.
  Keys(const JsonObject& object, Keys& outer) : Keys(object, outer.problems_) {}

  void problem(const JsonValue* at, std::string message) {
    add(at ? at->start : object_.start(), std::move(message));
  }

  std::string spelled(const JsonValue& value) const { return object_.spelled(value); }

  // Of the names in a text with blanks between: the first that is given, else the first.
  std::string_view first_of(std::string_view names) const {
    for (std::string_view rest = names; !rest.empty();) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      if (given(rest.substr(0, end))) return rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return names.substr(0, names.find(' '));
  }

  // An object among the values; none where it is left out or no object.
  std::optional<JsonObject> inside(std::string_view key) {
    const JsonValue* value = given(key);
    if (!value || value->kind != JsonValue::Kind::object) return std::nullopt;
    return object_.part(*value);
  }

  // Null when the key is left out or null, which means the same in a config.json.
  const JsonValue* given(std::string_view key) const {
    const JsonValue* value = object_.find(key);
    return value && value->kind != JsonValue::Kind::null ? value : nullptr;
  }

  std::int64_t required(std::string_view key, std::int64_t most, std::string_view example) {
    if (given(key)) return optional(key, 0, most);
    problem(object_.find(key),
            fmt::format("key \"{}\" is missing; write \"{}\": {}, say", key, key, example));
    return 0;
  }

  std::int64_t optional(std::string_view key, std::int64_t otherwise, std::int64_t most) {
    const JsonValue* value = given(key);
    if (!value) return otherwise;
    if (value->kind != JsonValue::Kind::integer &&
        !(value->kind == JsonValue::Kind::real && beyond(value->real))) {
      problem(value, fmt::format("{} is {}; it must be a whole number, 1 to {}, without quotes or "
                                 "a point",
                                 key, object_.spelled(*value), most));
      return 0;
    }
    if (value->kind == JsonValue::Kind::integer && value->integer >= 1 && value->integer <= most)
      return value->integer;
    problem(value, fmt::format("{} is {}; it must be 1 to {}", key, object_.spelled(*value), most));
    return 0;
  }

  // From 0 on.
  std::int64_t counted(std::string_view key, std::int64_t otherwise, std::int64_t most) {
    const JsonValue* value = given(key);
    const bool zero = value && value->kind == JsonValue::Kind::integer && value->integer == 0;
    return zero ? 0 : optional(key, otherwise, most);
  }

  bool boolean(std::string_view key, bool otherwise) {
    const JsonValue* value = given(key);
    if (!value) return otherwise;
    if (value->kind == JsonValue::Kind::boolean) return value->boolean;
    problem(value, fmt::format("{} is {}; it must be true or false", key, object_.spelled(*value)));
    return otherwise;
  }

  double probability(std::string_view key, double otherwise) {
    const JsonValue* value = given(key);
    if (!value) return otherwise;
    const bool number =
        value->kind == JsonValue::Kind::real || value->kind == JsonValue::Kind::integer;
    if (number && value->real >= 0 && value->real < 1) return value->real;
    problem(value, fmt::format("{} is {}; it must be a number from 0 to less than 1", key,
                               object_.spelled(*value)));
    return otherwise;
  }

  // The value must be one of `accepted`; left out is fine.
  void choice(std::string_view key, std::span<const std::string> accepted) {
    const JsonValue* value = given(key);
    if (!value) return;
    for (const std::string& name : accepted)
      if (value->kind == JsonValue::Kind::text && value->text == name) return;
    problem(value, fmt::format("{} is {}; only {} are modelled", key, object_.spelled(*value),
                               fmt::join(accepted, ", ")));
  }

  // A key that is almost one that is read would be ignored in silence.
  void misspelt(std::span<const char* const> known) {
    std::vector<std::string> absent;
    for (const char* key : known)
      if (!object_.find(key)) absent.emplace_back(key);
    for (const auto& [key, value] : object_.values()) {
      constexpr std::size_t shortest_key = 6;
      if (key.size() < shortest_key || key == "v_head_dim") continue;  // latent attention's own
      for (const std::string& name : absent)
        if (key.size() + 2 >= name.size() && key.size() <= name.size() + 2 &&
            edit_distance(key, name) <= 2)
          add(value.key, fmt::format("unknown key \"{}\"; did you mean \"{}\"?", key, name));
    }
  }

 private:
  void add(std::size_t offset, std::string message) {
    if (problems_.size() < max_problems)
      problems_.push_back({object_.where(offset), std::move(message)});
  }
  static bool beyond(double x) { return x > 9e18 || x < -9e18; }  // whole, but not in 64 bits

  const JsonObject& object_;
  Diagnostics& problems_;
};

// The network that all types share, with what dense types have of their own; mixtures begin as it.
model::Architecture read_layers(Keys& keys, std::string_view type);
// How a type calls its heads and its hidden size.
std::pair<std::string_view, std::string_view> heads_and_hidden(Keys& keys, std::string_view type);
// The dense types that it knows.
std::vector<std::string_view> dense_types();

// Sets the experts, latent attention and what else the types of mixtures have; `type` is the
// model_type. Dense models of the type keep what read_layers read.
void read_mixture(Keys& keys, std::string_view type, model::Architecture& a);
// The types that it reads.
std::span<const std::string_view> mixture_types();

}  // namespace sim::input
