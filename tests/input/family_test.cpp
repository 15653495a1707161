// family_test.cpp — model families as data: exact parameters, layers, windows and refusals.
#include "sim/input/models/family.h"

#include <catch2/catch.hpp>

#include "sim/input/models/huggingface.h"
#include "support.h"

namespace {

using sim::model::Architecture;

Architecture read(const std::string& text) {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  const auto a = sim::input::parse_huggingface(text, "m.json");
  INFO(support::problems(a));
  REQUIRE(a);
  return *a;
}

std::string refused(const std::string& text) {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  return support::problems(sim::input::parse_huggingface(text, "m.json"));
}

// A small network of a type, with more keys.
std::string small(const std::string& type, const std::string& more) {
  return R"({"model_type": ")" + type +
         R"(", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 8,
 "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 1000)" +
         more + "}";
}

}  // namespace

// Kimi K2 has DeepSeek-V3's network: the count is that of the type deepseek_v3 with these numbers.
TEST_CASE("family: Kimi K2 counts as DeepSeek-V3 with its numbers") {
  const std::string rest = R"(, "hidden_size": 7168, "intermediate_size": 18432,
 "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads": 64,
 "n_routed_experts": 384, "n_shared_experts": 1, "num_experts_per_tok": 8,
 "first_k_dense_replace": 1, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
 "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 163840, "scoring_func": "sigmoid"})";
  const Architecture kimi = read(R"({"model_type": "kimi_k2")" + rest);
  CHECK(sim::model::parameters(kimi) == 1'026'408'209'408);
  CHECK(sim::model::parameters(kimi) ==
        sim::model::parameters(read(R"({"model_type": "deepseek_v3")" + rest)));
}

TEST_CASE("family: GLM-4.5-Air and Seed-OSS count exactly") {
  CHECK(sim::model::parameters(read(R"({"model_type": "glm4_moe", "attention_bias": true,
 "first_k_dense_replace": 1, "head_dim": 128, "hidden_size": 4096, "intermediate_size": 10944,
 "moe_intermediate_size": 1408, "n_routed_experts": 128, "n_shared_experts": 1,
 "num_attention_heads": 96, "num_experts_per_tok": 8, "num_hidden_layers": 46,
 "num_key_value_heads": 8, "num_nextn_predict_layers": 1, "vocab_size": 151552})")) ==
        106'852'245'504);
  CHECK(sim::model::parameters(read(R"({"model_type": "seed_oss", "attention_bias": true,
 "attention_out_bias": false, "head_dim": 128, "hidden_size": 5120, "intermediate_size": 27648,
 "num_attention_heads": 80, "num_hidden_layers": 64, "num_key_value_heads": 8,
 "vocab_size": 155136})")) == 36'151'104'512);
}

// Ling-mini-2.0: 16.26 billion parameters (inclusionAI/Ling-V2 README.md: 16B). By hand: 20 layers
// of attention and norms, 1 dense MLP, 19 x 257 experts of 3 x 2048 x 512, two tables.
TEST_CASE("family: Ling-mini-2.0 counts as published") {
  CHECK(sim::model::parameters(read(R"({"model_type": "bailing_moe_v2", "hidden_size": 2048,
 "intermediate_size": 5120, "moe_intermediate_size": 512, "num_hidden_layers": 20,
 "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 256,
 "num_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 1,
 "use_qk_norm": true, "vocab_size": 157184})")) == 16'255'638'528);
}

TEST_CASE("family: layers with experts are where the keys say") {
  const std::string experts = R"(, "moe_intermediate_size": 32, "moe_num_experts": 4, "moe_k": 2)";
  const auto count = [&](const std::string& more) {
    return sim::model::mixture_count(read(small("ernie4_5_moe", experts + more)));
  };
  CHECK(count("") == 7);  // all but the first
  CHECK(count(R"(, "moe_layer_start_index": 2, "moe_layer_end_index": 5)") == 4);
  CHECK(count(R"(, "moe_layer_interval": 2)") == 4);
}

TEST_CASE("family: windows by layer") {
  const auto window = [](const std::string& more) { return read(small("olmo3", more)); };
  CHECK(window("").sliding_window == 4096);
  CHECK(window("").whole_attention == 4);
  CHECK(window(R"(, "layer_types": ["full_attention", "full_attention"])").sliding_window == 0);
  CHECK(window(R"(, "layer_types": ["sliding_attention", "full_attention"])").whole_attention == 2);
  CHECK(support::contains(
      refused(small("olmo3", R"(, "layer_types": ["full_attention", "sliding_attention"])")),
      "another order"));
  CHECK(read(small("exaone4", R"(, "sliding_window": 128, "sliding_window_pattern": "LLLG")"))
            .whole_attention == 4);
  CHECK(read(small("exaone4", R"(, "sliding_window": null)")).sliding_window == 0);
}

TEST_CASE("family: networks that are not simulated are refused by name") {
  CHECK(support::contains(refused(small("qwen3_next", "")), "Gated DeltaNet"));
  CHECK(support::contains(refused(small("nemotron_h", "")), "state space"));
  CHECK(support::contains(refused(small("t5", "")), "an encoder is not simulated"));
  CHECK(support::contains(
      refused(small("minimax_m2", R"(, "num_local_experts": 4, "num_experts_per_tok": 2,
 "attn_type_list": [1, 0])")),
      "lightning attention"));
  // A hint never names a family that only shares some letters.
  CHECK_FALSE(support::contains(refused(small("seed_osx2", "")), "did you mean 'gpt_oss'"));
}

TEST_CASE("family: the files of models/families have no problems") {
  const std::string folder = support::in_repository("models/families");
  for (const auto& file : std::filesystem::directory_iterator(folder))
    CHECK(support::text(sim::input::family_problems(file.path().string())) == "");
}
