#include "sim/input/models/family.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include "sim/input/models/family_fields.h"
#include "sim/input/schema/family.pb.h"
#include "sim/input/text/locate.h"

namespace sim::input {
namespace {

namespace fs = std::filesystem;
namespace v1 = rehearse::v1;
using model::Architecture;

// All family files by file name, and the family of each model_type.
struct Catalog {
  std::map<std::string, v1::ModelFamily, std::less<>> files;
  std::map<std::string, std::string, std::less<>> file_of_type;
  std::vector<std::string> types, read_types;
};

Catalog load_catalog() {
  Catalog catalog;
  for (const fs::path& file : files_in(fs::path(repository_root()) / "models" / "families")) {
    Source source(file.string());
    v1::ModelFamily family;
    if (!load(source, family).empty()) continue;  // `rehearse check` reports it
    const std::string name = file.stem().string();
    for (const std::string& type : family.type()) {
      catalog.file_of_type.emplace(type, name);
      catalog.types.push_back(type);
      if (!family.has_refuse()) catalog.read_types.push_back(type);
    }
    catalog.files.emplace(name, std::move(family));
  }
  std::ranges::sort(catalog.types);
  std::ranges::sort(catalog.read_types);
  return catalog;
}

const Catalog& catalog() {
  static const Catalog all = load_catalog();
  return all;
}

// The files of a family, the one that it is based on first.
std::vector<const v1::ModelFamily*> files_of(std::string_view type) {
  std::vector<const v1::ModelFamily*> files;
  const auto named = catalog().file_of_type.find(type);
  if (named == catalog().file_of_type.end()) return files;
  constexpr std::size_t most = 4;
  for (std::string name = named->second; files.size() < most;) {
    const auto file = catalog().files.find(name);
    if (file == catalog().files.end()) break;
    files.insert(files.begin(), &file->second);
    name = file->second.based_on();
  }
  return files;
}

// The names of the keys of sizes. They refer to texts of the catalog.
LayerKeys layer_keys(std::string_view type) {
  LayerKeys names;
  const auto take = [](const std::string& from, std::string_view& to) {
    if (!from.empty()) to = from;
  };
  for (const v1::ModelFamily* file : files_of(type)) {
    if (!file->has_keys()) continue;
    const v1::SizeKeys& keys = file->keys();
    take(keys.layers(), names.layers);
    take(keys.hidden(), names.hidden);
    take(keys.heads(), names.heads);
    take(keys.positions(), names.positions);
    take(keys.ffn(), names.width);
    if (keys.has_ffn_times_hidden()) names.wider = keys.ffn_times_hidden();
    if (keys.has_two_products()) names.two_products = keys.two_products();
    if (keys.activation_size() > 0)
      names.activations.assign(keys.activation().begin(), keys.activation().end());
  }
  return names;
}

// A value that a family file states: "8", "true", "rms".
bool stated(const FamilySetter& setter, const std::string& text, FamilyValue& value) {
  using Kind = FamilyValue::Kind;
  const char* const last = text.data() + text.size();
  if (setter.kind == Kind::count) {
    const auto [end, error] = std::from_chars(text.data(), last, value.count);
    return error == std::errc{} && end == last && value.count >= 0 && value.count <= setter.most;
  }
  if (setter.kind == Kind::share) {
    const auto [end, error] = std::from_chars(text.data(), last, value.share);
    return error == std::errc{} && end == last && value.share >= 0 && value.share < 1;
  }
  value.boolean = text == "true";
  value.word = text;
  return setter.kind == Kind::word || text == "true" || text == "false";
}

// "LLLG": every fourth layer is global. 0: another pattern.
std::int64_t length_of_pattern(const std::string& text) {
  const bool regular =
      text.size() > 1 && text.size() < 64 && text.back() == 'G' &&
      std::count(text.begin(), text.end(), 'L') + 1 == static_cast<std::ptrdiff_t>(text.size());
  return regular ? static_cast<std::int64_t>(text.size()) : 0;
}

// The value of a key in a config.json.
FamilyValue given_value(Keys& keys, const FamilySetter& setter, std::string_view key,
                        const v1::FamilyField& field) {
  using Kind = FamilyValue::Kind;
  FamilyValue value;
  const JsonValue* json = keys.given(key);
  switch (setter.kind) {
    case Kind::count:
      if (const std::int64_t n =
              json->kind == JsonValue::Kind::text ? length_of_pattern(json->text) : 0;
          n > 0)
        value.count = n;
      else
        value.count = keys.counted(key, 0, setter.most);
      if (field.divide() > 1) value.count /= field.divide();
      if (field.has_times()) value.count *= keys.required(field.times(), setter.most, "1024");
      if (value.count > setter.most) value.count = 0;
      break;
    case Kind::share:
      value.share = keys.probability(key, 0);
      break;
    case Kind::boolean:
      value.boolean = keys.boolean(key, false) != field.negated();
      break;
    case Kind::word:
      if (json->kind == JsonValue::Kind::text) value.word = json->text;
      break;
  }
  return value;
}

// Sets a field from a key; false if the key is not given.
bool set_from(const FamilySetter& setter, std::string_view key, const v1::FamilyField& field,
              Keys& keys, Architecture& a) {
  if (const std::size_t dot = key.find('.'); dot != std::string_view::npos) {
    const std::optional<JsonObject> inner = keys.inside(key.substr(0, dot));
    if (!inner) return false;
    Keys nested(*inner, keys);
    return set_from(setter, key.substr(dot + 1), field, nested, a);
  }
  const JsonValue* json = keys.given(key);
  if (!json) return false;
  if (!setter.set(a, given_value(keys, setter, key, field)))
    keys.problem(json, fmt::format("{} is {}, which is not modelled", key, keys.spelled(*json)));
  return true;
}

void apply(const v1::FamilyField& field, Keys& keys, Architecture& a) {
  const FamilySetter* setter = family_setter(field.name());
  if (!setter) return;
  for (const std::string& key : field.key())
    if (set_from(*setter, key, field, keys, a)) return;
  FamilyValue value;
  if (field.has_otherwise()) {
    if (stated(*setter, field.otherwise(), value)) setter->set(a, value);
  } else if (field.key_size() > 0) {
    keys.required(field.key(0), setter->most, "8");
  }
}

// The layers with experts in Megatron-LM's notation: "([0]*3+[1]*58)".
std::string expert_pattern(const std::vector<std::uint8_t>& layers) {
  std::string text = "(";
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t end = i;
    while (end < layers.size() && layers[end] == layers[i]) ++end;
    text += fmt::format("{}[{}]*{}", i == 0 ? "" : "+", layers[i], end - i);
    i = end;
  }
  return text + ")";
}

// The number of a key; `otherwise` if the key is missing or -1.
std::int64_t number_of_key(Keys& keys, const std::string& key, std::int64_t otherwise) {
  const JsonValue* value = key.empty() ? nullptr : keys.given(key);
  if (!value || (value->kind == JsonValue::Kind::integer && value->integer == -1)) return otherwise;
  return keys.counted(key, otherwise, max_layers);
}

void read_expert_layers(const v1::ExpertLayers& from, Keys& keys, Architecture& a) {
  if (a.layers < 1 || a.layers > max_layers) return;
  const std::int64_t first = number_of_key(keys, from.first(), from.first_otherwise());
  const std::int64_t last = number_of_key(keys, from.last(), a.layers - 1);
  const std::int64_t step = std::max<std::int64_t>(number_of_key(keys, from.step(), 1), 1);
  std::vector<std::uint8_t> layers;
  for (std::int64_t i = 0; i < a.layers; ++i)
    layers.push_back(i >= first && i <= last && (i + from.counts_from_one()) % step == 0);
  if (const JsonValue* list = from.without().empty() ? nullptr : keys.given(from.without()))
    for (const JsonValue& layer : list->items)
      if (layer.kind == JsonValue::Kind::integer && layer.integer >= 0 && layer.integer < a.layers)
        layers[static_cast<std::size_t>(layer.integer)] = 0;
  if (std::ranges::count(layers, 1) == 0) a.experts = {};
  if (a.is_mixture() && std::ranges::count(layers, 0) > 0)
    a.experts.layers = expert_pattern(layers);
}

// The values of an entry: of a list all, of a scalar itself.
void check_limit(const v1::FamilyLimit& limit, Keys& keys) {
  const JsonValue* value = keys.given(limit.key());
  if (!value) return;
  const auto accepted = [&](const JsonValue& one) {
    const std::string spelled = one.kind == JsonValue::Kind::text ? one.text : keys.spelled(one);
    return std::ranges::count(limit.is(), spelled) > 0;
  };
  if (value->kind != JsonValue::Kind::array && value->kind != JsonValue::Kind::object) {
    if (!accepted(*value))
      keys.problem(value,
                   fmt::format("{} is {}: {}", limit.key(), keys.spelled(*value), limit.why()));
    return;
  }
  for (const JsonValue& one : value->items)
    if (!accepted(one))
      return keys.problem(
          &one, fmt::format("{} has {}: {}", limit.key(), keys.spelled(one), limit.why()));
}

// `layer_types` decides which layers have a window. Modelled: a window in no layer, in all, or in
// all but every n-th layer.
void read_windows(Keys& keys, Architecture& a) {
  if (a.sliding_window == 0) a.whole_attention = 0;
  const JsonValue* types = keys.given("layer_types");
  if (!types || types->kind != JsonValue::Kind::array || types->items.empty()) return;
  std::vector<std::uint8_t> whole;
  for (const JsonValue& type : types->items) {
    if (type.text != "full_attention" && type.text != "sliding_attention")
      return keys.problem(&type, fmt::format("layer_types has {}: only full_attention and "
                                             "sliding_attention are simulated",
                                             keys.spelled(type)));
    whole.push_back(type.text == "full_attention");
  }
  const auto first = std::ranges::find(whole, 1) - whole.begin();
  a.whole_attention = 0;
  if (std::ranges::count(whole, 0) == 0) a.sliding_window = 0;
  if (std::ranges::count(whole, 0) == 0 || std::ranges::count(whole, 1) == 0) return;
  for (std::size_t i = 0; i < whole.size(); ++i)
    if (whole[i] != ((i + 1) % static_cast<std::size_t>(first + 1) == 0))
      return keys.problem(&types->items[i],
                          "layer_types: layers with a window in another order than all but every "
                          "n-th layer are not simulated");
  a.whole_attention = first + 1;
}

}  // namespace

const std::vector<std::string>& family_types(bool refused_too) {
  return refused_too ? catalog().types : catalog().read_types;
}

std::pair<std::string_view, std::string_view> family_heads_and_hidden(Keys& keys,
                                                                      std::string_view type) {
  const LayerKeys names = layer_keys(type);
  return {keys.first_of(names.heads), keys.first_of(names.hidden)};
}

std::string family_refusal(std::string_view type) {
  for (const v1::ModelFamily* file : files_of(type))
    if (file->has_refuse()) return fmt::format("{}: {}", type, file->refuse());
  return "";
}

Architecture read_family(Keys& keys, std::string_view type) {
  const std::vector<const v1::ModelFamily*> files = files_of(type);
  if (std::string why = family_refusal(type); !why.empty()) {
    keys.problem(keys.given("model_type"), std::move(why));
    return {};
  }
  Architecture a = read_common_layers(keys, layer_keys(type));
  for (const v1::ModelFamily* file : files)
    for (const v1::FamilyField& field : file->field()) apply(field, keys, a);
  for (const v1::ModelFamily* file : files) {
    if (file->has_expert_layers()) read_expert_layers(file->expert_layers(), keys, a);
    for (const v1::FamilyLimit& limit : file->limit()) check_limit(limit, keys);
  }
  if (a.is_latent()) {
    a.head_dim = a.latent.content + a.latent.rotated;
    a.kv_heads = a.heads;
  }
  read_windows(keys, a);
  if (a.experts.top_k > a.experts.count)
    keys.problem(nullptr,
                 fmt::format("a token chooses {} experts of {}", a.experts.top_k, a.experts.count));
  return a;
}

Diagnostics family_problems(const std::string& path) {
  Source source(path);
  v1::ModelFamily family;
  Diagnostics problems = load(source, family);
  for (const v1::FamilyField& field : family.field()) {
    const FamilySetter* setter = family_setter(field.name());
    FamilyValue value;
    Architecture scratch;
    std::vector<std::string> known;
    for (const FamilySetter& one : family_setters()) known.emplace_back(one.name);
    if (!setter)
      problems.push_back(
          {source.where(field, "name"), fmt::format("a network has no field '{}'{}", field.name(),
                                                    did_you_mean(field.name(), known))});
    else if (field.has_otherwise() &&
             !(stated(*setter, field.otherwise(), value) && setter->set(scratch, value)))
      problems.push_back({source.where(field, "otherwise"),
                          fmt::format("'{}' is no value of {}", field.otherwise(), field.name())});
    if (field.key_size() == 0 && !field.has_otherwise())
      problems.push_back({source.where(field), "an entry needs `key` or `otherwise`"});
  }
  if (family.has_based_on() && !catalog().files.contains(family.based_on()))
    problems.push_back({source.where(family, "based_on"),
                        fmt::format("there is no family '{}'", family.based_on())});
  return problems;
}

}  // namespace sim::input
