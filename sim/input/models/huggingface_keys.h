// huggingface_keys.h — typed access to the keys of a config.json, and the readers of model
// families.
//
// huggingface.cpp and the two files of model families share it. A value of wrong type or range adds
// a problem and reads as 0, so that reading continues and reports all problems.
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

// Limits above any real network. They are small enough that no product of them overflows 64 bits.
inline constexpr std::int64_t max_layers = 10'000;
inline constexpr std::int64_t max_hidden = 1 << 20;
inline constexpr std::int64_t max_width = 1 << 24;  // ffn, vocabulary, heads x head_dim
inline constexpr std::int64_t max_heads = 1 << 16;
inline constexpr std::int64_t max_positions = std::int64_t{1} << 31;
inline constexpr std::int64_t max_experts = 1 << 14;
inline constexpr std::int64_t max_parameters = 1'000'000'000'000'000;

// Typed access to the keys of an object. Problems are collected; a wrong number reads as 0.
class Keys {
 public:
  Keys(const JsonObject& object, Diagnostics& problems) : object_(object), problems_(problems) {}
  // The keys of a nested object.
  Keys(const JsonObject& object, Keys& outer) : Keys(object, outer.problems_) {}

  void problem(const JsonValue* at, std::string message) {
    add(at ? at->start : object_.start(), std::move(message));
  }

  std::string spelled(const JsonValue& value) const { return object_.spelled(value); }

  // The first key of a blank-separated list that is given; the first name if none is given.
  std::string_view first_of(std::string_view names) const {
    for (std::string_view rest = names; !rest.empty();) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      if (given(rest.substr(0, end))) return rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return names.substr(0, names.find(' '));
  }

  // A nested object; nothing if the key is missing or holds no object.
  std::optional<JsonObject> inside(std::string_view key) {
    const JsonValue* value = given(key);
    if (!value || value->kind != JsonValue::Kind::object) return std::nullopt;
    return object_.part(*value);
  }

  // The value of a key; null if the key is missing or its value is null. Both mean the same in a
  // config.json.
  const JsonValue* given(std::string_view key) const {
    const JsonValue* value = object_.find(key);
    return value && value->kind != JsonValue::Kind::null ? value : nullptr;
  }

  // A whole number from 1 to `most`; a problem if the key is missing.
  std::int64_t required(std::string_view key, std::int64_t most, std::string_view example) {
    if (given(key)) return optional(key, 0, most);
    problem(object_.find(key),
            fmt::format("key \"{}\" is missing; write \"{}\": {}, say", key, key, example));
    return 0;
  }

  // A whole number from 1 to `most`; `otherwise` if the key is missing.
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

  // A whole number from 0 to `most`; `otherwise` if the key is missing.
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

  // A number from 0 to less than 1; `otherwise` if the key is missing.
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

  // Adds a problem if the value is none of `accepted`. A missing key is accepted.
  void choice(std::string_view key, std::span<const std::string> accepted) {
    const JsonValue* value = given(key);
    if (!value) return;
    for (const std::string& name : accepted)
      if (value->kind == JsonValue::Kind::text && value->text == name) return;
    problem(value, fmt::format("{} is {}; only {} are modelled", key, object_.spelled(*value),
                               fmt::join(accepted, ", ")));
  }

  // Adds a problem for each key that differs from a known key by at most two letters. Without it, a
  // misspelt key would be ignored.
  void misspelt(std::span<const char* const> known) {
    std::vector<std::string> absent;
    for (const char* key : known)
      if (!object_.find(key)) absent.emplace_back(key);
    for (const auto& [key, value] : object_.values()) {
      constexpr std::size_t shortest_key = 6;
      if (key.size() < shortest_key || key == "v_head_dim") continue;  // a key of latent attention
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
  static bool beyond(double x) { return x > 9e18 || x < -9e18; }  // whole, but above 64 bits

  const JsonObject& object_;
  Diagnostics& problems_;
};

// Names of the keys that all types share. Several names in one text: the first given one counts.
struct LayerKeys {
  std::string_view layers = "num_hidden_layers", hidden = "hidden_size",
                   heads = "num_attention_heads", positions = "max_position_embeddings",
                   width = "intermediate_size";
  std::int64_t wider = 0;                // default of MLP width / hidden; 0: the width is required
  bool two_products = false;             // the MLP has no gate
  std::vector<std::string> activations;  // accepted names; none: those of the kind of MLP
};
// The network that most types share, under these names.
model::Architecture read_common_layers(Keys& keys, const LayerKeys& names);

// Reads the keys that all types share and those of dense types. Mixtures start with it.
model::Architecture read_layers(Keys& keys, std::string_view type);
// The names of the keys for heads and for the hidden size in a type.
std::pair<std::string_view, std::string_view> heads_and_hidden(Keys& keys, std::string_view type);
// All supported dense types.
std::vector<std::string_view> dense_types();

// Reads experts, latent attention and the other keys of mixture types. `type`: the model_type. A
// dense model of such a type keeps the values of read_layers.
void read_mixture(Keys& keys, std::string_view type, model::Architecture& a);
// All supported mixture types.
std::span<const std::string_view> mixture_types();

}  // namespace sim::input
