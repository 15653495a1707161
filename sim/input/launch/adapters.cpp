#include "sim/input/launch/adapters.h"

#include <array>
#include <string_view>

#include "sim/base/ascii.h"

namespace sim::input {
namespace {

struct Named {
  std::string_view module;
  std::string_view names;  // separated by blanks
};
constexpr std::array<Named, 4> products{{
    {"linear_qkv",
     " linear_qkv q_proj k_proj v_proj qkv_proj q k v query key value query_key_value wqkv c_attn "
     "w_pack attention_qkv attn_qkv q_a_proj q_b_proj kv_a_proj_with_mqa kv_b_proj wq wk wv "},
    {"linear_proj",
     " linear_proj o_proj out_proj output_proj attention_dense dense attn_out c_proj o wo "},
    {"linear_fc1",
     " linear_fc1 gate_proj up_proj up gate gate_up_proj w1 w3 fc1 fc_in c_fc dense_h_to_4h "
     "ff_proj "},
    {"linear_fc2", " linear_fc2 down_proj down w2 fc2 fc_out dense_4h_to_h ff_out "},
}};

// "model.layers.*.self_attn.q_proj" names the module q_proj.
std::string last_name(std::string_view name) {
  name = name.substr(name.find_last_of('.') == std::string_view::npos ? 0
                                                                      : name.find_last_of('.') + 1);
  return lower(name);
}

void add(std::string_view name, AdapterModules& to) {
  const std::string small = last_name(name);
  if (small == "all" || small == "all-linear" || small == "all_linear" || small == "*_proj" ||
      small == "*" || small == "linear") {
    for (const Named& product : products) to.modules.emplace(product.module);
    return;
  }
  for (const Named& product : products)
    if (product.names.find(" " + small + " ") != std::string_view::npos) {
      to.modules.emplace(product.module);
      return;
    }
  to.others.emplace_back(name);
}

// The alternatives of a pattern that end a name: "(mlp|self_attn).(up|down|q|k|v)_proj". Parts that
// name no module are parents.
void add_alternatives(std::string_view pattern, AdapterModules& to) {
  std::string name;
  for (const char c : std::string(pattern) + "|") {
    const bool letter =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9');
    if (letter) {
      name += c;
    } else if (!name.empty()) {
      AdapterModules one;
      add(name, one);
      to.modules.insert(one.modules.begin(), one.modules.end());
      name.clear();
    }
  }
}

}  // namespace

AdapterModules adapter_modules(const std::vector<std::string>& words) {
  AdapterModules found;
  for (const std::string& word : words) {
    if (word.find('|') != std::string::npos) {
      add_alternatives(word, found);
      continue;
    }
    std::string name;
    for (const char c : word + ",") {
      const bool separates = c == ',' || c == ' ' || c == '[' || c == ']' || c == '\'' || c == '"';
      if (!separates) {
        name += c;
      } else if (!name.empty()) {
        add(name, found);
        name.clear();
      }
    }
  }
  return found;
}

}  // namespace sim::input
