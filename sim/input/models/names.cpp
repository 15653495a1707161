#include "sim/input/models/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/ascii.h"
#include "sim/input/models/huggingface.h"
#include "sim/input/schema/model_names.pb.h"
#include "sim/input/text/locate.h"
#include "sim/input/text/textproto.h"

namespace sim::input {

namespace v1 = rehearse::v1;

namespace {

bool is_letter(char c) {
  return c >= 'a' && c <= 'z';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// True if the letters and digits of `name` from `at` on are `word`, and no letter follows. Other
// characters of the name are skipped.
bool has_word_at(std::string_view name, std::size_t at, std::string_view word) {
  for (const char wanted : word) {
    while (at < name.size() && !is_letter(name[at]) && !is_digit(name[at])) ++at;
    if (at == name.size() || name[at] != wanted) return false;
    ++at;
  }
  return at == name.size() || !is_letter(name[at]);
}

bool has_word(std::string_view name, std::string_view word) {
  for (std::size_t at = 0; at < name.size(); ++at)
    if (name[at] == word.front() && (at == 0 || !is_letter(name[at - 1])) &&
        has_word_at(name, at, word))
      return true;
  return false;
}

}  // namespace

std::string model_type_called(std::string_view name) {
  static const v1::ModelNames table = [] {
    v1::ModelNames read;
    Source source(repository_root() + "/models/names.textproto");
    if (!load(source, read).empty()) read.Clear();  // `rehearse check` reports it
    return read;
  }();
  const std::string text = lower(name);
  std::string type;
  std::size_t longest = 0;
  for (const v1::ModelName& one : table.network())
    for (const std::string& word : one.called()) {
      if (word.size() <= longest || !has_word(text, word)) continue;
      type = one.type();
      longest = word.size();
    }
  return type;
}

Result<model::Architecture> network_like(std::string_view type, const NetworkSizes& sizes) {
  // The keys of all types: a reader takes those that its type has.
  nlohmann::json config{{"model_type", type},
                        {"vocab_size", std::max<std::int64_t>(sizes.vocab, 1)}};
  const auto give = [&](std::initializer_list<const char*> keys, std::int64_t value) {
    for (const char* key : keys) config[key] = value;
  };
  give({"num_hidden_layers", "n_layer", "n_layers"}, sizes.layers);
  give({"hidden_size", "n_embed", "n_embd", "d_model"}, sizes.hidden);
  give({"num_attention_heads", "n_head", "n_heads"}, sizes.heads);
  give({"num_key_value_heads"}, sizes.kv_heads > 0 ? sizes.kv_heads : sizes.heads);
  if (sizes.ffn > 0)
    give({"intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size"}, sizes.ffn);
  return parse_huggingface(config.dump(), fmt::format("a model of type {}", type));
}

Diagnostics model_name_problems(const std::string& path) {
  v1::ModelNames table;
  Source source(path);
  return load(source, table);
}

}  // namespace sim::input
