#include "sim/input/models/huggingface.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <vector>

#include "tests/input/mixture_counts.h"
#include "tests/input/support.h"
#include "tests/picture.h"

namespace sim::input {
namespace {

// Every member of a dense network in one line.
std::string members(const sim::model::Architecture& a) {
  std::ostringstream text;
  text << a.name << " layers " << a.layers << " hidden " << a.hidden << " ffn " << a.ffn
       << " heads " << a.heads << "/" << a.kv_heads << " of " << a.head_dim << " vocab " << a.vocab
       << " positions " << a.max_positions << " norm " << static_cast<int>(a.norm) << " position "
       << static_cast<int>(a.position) << " activation " << static_cast<int>(a.activation)
       << " tied " << a.tied_embeddings << " biases " << a.qkv_bias << a.linear_bias
       << a.projection_bias << a.mlp_bias << a.head_bias << " dropout " << a.attention_dropout
       << " " << a.hidden_dropout << " window " << a.sliding_window << "/" << a.whole_attention
       << " norms " << a.query_key_norm << a.norms_by_head << a.sinks << a.output_norms
       << static_cast<int>(a.input_norms) << a.embedding_norm << "\n";
  return text.str();
}

const std::string models = REHEARSE_SOURCE_DIR "/models/";

std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

const char* const small = R"({
  "model_type": "llama",
  "num_hidden_layers": 2,
  "hidden_size": 64,
  "intermediate_size": 128,
  "num_attention_heads": 4,
  "vocab_size": 1000
})";

// `small` with one piece of text replaced.
std::string with(const std::string& piece, const std::string& other) {
  std::string text = small;
  const std::size_t at = text.find(piece);
  REQUIRE(at != std::string::npos);
  return text.replace(at, piece.size(), other);
}

// The problems as lines "place: message".
std::string problems(const std::string& text) {
  const auto result = parse_huggingface(text, "m.json");
  std::string out;
  if (result) return "none";
  for (const Diagnostic& d : result.errors()) out += d.where + ": " + d.message + "\n";
  return out;
}

}  // namespace

TEST_CASE("huggingface: every model of the repository has its published parameter count") {
  // The published counts; models/README.md names their sources.
  std::map<std::string, std::int64_t> published{
      {"llama-2-7b", 6'738'415'616},     {"llama-2-13b", 13'015'864'320},
      {"llama-2-70b", 68'976'648'192},   {"llama-3.1-8b", 8'030'261'248},
      {"llama-3.1-70b", 70'553'706'496}, {"llama-3.1-405b", 405'853'388'800},
      {"mistral-7b", 7'241'732'096},     {"qwen2.5-72b", 72'706'203'648},
      {"gpt3-1.3b", 1'317'654'528},      {"gpt3-6.7b", 6'662'266'880},
      {"gpt3-22b", 22'074'273'792},      {"gpt3-175b", 174'615'846'912},
      {"gpt3-530b", 529'600'819'200},    {"gpt3-1t", 1'008'038'758'400},
  };
  for (const sample::MixtureCount& mixture : sample::mixture_counts)
    published[mixture.name] = mixture.all;
  std::size_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(models)) {
    if (entry.path().extension() != ".json") continue;
    ++found;
    const std::string name = entry.path().stem().string();
    CAPTURE(name);
    const auto model = load_huggingface(entry.path().string());
    REQUIRE(model);
    REQUIRE(published.count(name) == 1);
    CHECK(model::parameters(*model) == published.at(name));
    CHECK(model->name == name);
    // The table of the README names every model with its computed count.
    std::string digits = std::to_string(published.at(name));
    for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
      digits.insert(static_cast<std::size_t>(at), ",");
    const std::string readme = contents(models + "README.md");
    CHECK(readme.find("`" + name + "`") != std::string::npos);
    CHECK(readme.find(digits) != std::string::npos);
  }
  CHECK(found == published.size());
}

TEST_CASE("huggingface: llama-3.1-8b is read as its authors describe it") {
  const auto a = load_huggingface(models + "llama-3.1-8b.json");
  REQUIRE(a);
  CHECK(a->layers == 32);
  CHECK(a->hidden == 4096);
  CHECK(a->ffn == 14336);
  CHECK(a->heads == 32);
  CHECK(a->kv_heads == 8);
  CHECK(a->head_dim == 128);
  CHECK(a->vocab == 128256);
  CHECK(a->max_positions == 131072);
  CHECK(a->norm == model::Norm::rms);
  CHECK(a->position == model::Position::rope);
  CHECK(a->activation == model::Activation::swiglu);
  CHECK_FALSE(a->tied_embeddings);
  CHECK_FALSE(a->qkv_bias);
  CHECK_FALSE(a->linear_bias);
  CHECK(a->hidden_dropout == 0.0);
  CHECK(a->sliding_window == 0);
}

TEST_CASE("huggingface: of a mixture a token meets the published share") {
  for (const sample::MixtureCount& mixture : sample::mixture_counts) {
    const std::string name = mixture.name;
    CAPTURE(name);
    const auto model = load_huggingface(models + name + ".json");
    REQUIRE(model);
    CHECK(model::active_parameters(*model) == mixture.active);
    std::string digits = std::to_string(mixture.active);
    for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
      digits.insert(static_cast<std::size_t>(at), ",");
    CHECK(contents(models + "README.md").find(digits) != std::string::npos);
  }
  // The weight files of DeepSeek-V3's MTP module have 11.5 B parameters of their own, including the
  // bias of its 256 experts.
  const auto deepseek = load_huggingface(models + "deepseek-v3.json");
  REQUIRE(deepseek);
  CHECK(model::prediction_parameters(*deepseek) + 256 == 11'610'068'224);
}

TEST_CASE("huggingface: which layers have experts, and what else mixtures have") {
  const auto of = [](const std::string& name) {
    return *load_huggingface(models + name + ".json");
  };
  CHECK(model::mixture_count(of("mixtral-8x7b")) == 32);
  CHECK(model::mixture_count(of("deepseek-v2")) == 59);
  CHECK(of("deepseek-v3").experts.layers == "([0]*3+[1]*58)");
  CHECK(of("deepseek-v3").latent == model::Latent{512, 1536, 128, 64, 128});
  CHECK(of("deepseek-v3").predicted_tokens == 1);
  CHECK(model::mixture_count(of("llama-4-maverick")) == 24);
  CHECK(model::mixture_layers(of("llama-4-maverick"))[0] == 0);
  CHECK(of("qwen3-30b-a3b").query_key_norm);
  CHECK(of("gpt-oss-120b").sliding_window == 128);
  CHECK(of("gpt-oss-120b").whole_attention == 2);
  CHECK(of("grok-1").output_norms);
}

TEST_CASE("huggingface: numbers of experts that cannot be are named") {
  const auto mixtral = [](const std::string& keys) {
    return problems(with("\"llama\"", "\"mixtral\", " + keys));
  };
  CHECK(mixtral("\"num_local_experts\": 4, \"num_experts_per_tok\": 8") ==
        "m.json:2:75: num_experts_per_tok (8) is more than num_local_experts (4)\n");
  CHECK(mixtral("\"num_local_experts\": 1000000, \"num_experts_per_tok\": 2") ==
        "m.json:2:49: num_local_experts is 1000000; it must be 1 to 16384\n");
  CHECK(problems(with("\"llama\"", "\"mixtral\"")) ==
        "m.json:1:1: key \"num_local_experts\" is missing; write \"num_local_experts\": 8, say\n"
        "m.json:1:1: key \"num_experts_per_tok\" is missing; write \"num_experts_per_tok\": 2, "
        "say\n");
}

TEST_CASE("huggingface: gpt3-175b has learned positions and biases and dropout and tied ends") {
  const auto a = load_huggingface(models + "gpt3-175b.json");
  REQUIRE(a);
  CHECK(a->layers == 96);
  CHECK(a->ffn == 4 * 12288);
  CHECK(a->kv_heads == 96);
  CHECK(a->head_dim == 128);
  CHECK(a->max_positions == 2048);
  CHECK(a->norm == model::Norm::layer);
  CHECK(a->position == model::Position::learned);
  CHECK(a->activation == model::Activation::gelu);
  CHECK(a->tied_embeddings);
  CHECK(a->qkv_bias);
  CHECK(a->linear_bias);
  CHECK(a->attention_dropout == 0.1);
  CHECK(a->hidden_dropout == 0.1);
}

TEST_CASE("huggingface: only qwen2 has biases on q k v and only mistral's window is on") {
  const auto qwen = load_huggingface(models + "qwen2.5-72b.json");
  const auto mistral = load_huggingface(models + "mistral-7b.json");
  REQUIRE(qwen);
  REQUIRE(mistral);
  CHECK(qwen->qkv_bias);
  CHECK_FALSE(qwen->linear_bias);
  CHECK(qwen->sliding_window == 0);  // use_sliding_window is false
  CHECK_FALSE(mistral->qkv_bias);
  CHECK(mistral->sliding_window == 4096);
}

TEST_CASE("huggingface: keys that are left out take the defaults of transformers") {
  const auto llama = parse_huggingface(small, "x/config.json");
  REQUIRE(llama);
  CHECK(llama->name == "x");  // a config.json is named after its folder
  CHECK(llama->kv_heads == 4);
  CHECK(llama->head_dim == 16);
  CHECK_FALSE(llama->tied_embeddings);
  const auto gpt = parse_huggingface(
      R"({"model_type":"gpt2","n_layer":2,"n_embd":64,"n_head":4,"vocab_size":100,
          "n_positions":32,"n_inner":null})",
      "g.json");
  REQUIRE(gpt);
  CHECK(gpt->ffn == 256);
  CHECK(gpt->tied_embeddings);
  CHECK(gpt->attention_dropout == 0.1);
}

TEST_CASE("huggingface: a head width of its own need not divide hidden") {
  const auto a = parse_huggingface(with("\"vocab_size\"", "\"head_dim\": 48, \"vocab_size\""), "m");
  REQUIRE(a);
  CHECK(a->query_width() == 192);
}

TEST_CASE("huggingface: all problems of a file are reported at once with their places") {
  CHECK(problems(R"({
  "model_type": "llama",
  "num_hiden_layers": 32,
  "hidden_size": 4096.0,
  "intermediate_size": "14336",
  "num_attention_heads": -4,
  "vocab_size": 1e30, "vocab_size": 5,
  "hidden_act": "relu",
  "tie_word_embeddings": 1,
  "attention_dropout": 1.5,
  "num_key_value_heads": 99999999999999999999
})") == "m.json:7:23: key \"vocab_size\" is given twice; keep one\n"
        "m.json:3:3: unknown key \"num_hiden_layers\"; did you mean \"num_hidden_layers\"?\n"
        "m.json:1:1: key \"num_hidden_layers\" is missing; write \"num_hidden_layers\": 32, say\n"
        "m.json:4:18: hidden_size is 4096.0; it must be a whole number, 1 to 1048576, without "
        "quotes or a point\n"
        "m.json:5:24: intermediate_size is \"14336\"; it must be a whole number, 1 to 16777216, "
        "without quotes or a point\n"
        "m.json:6:26: num_attention_heads is -4; it must be 1 to 65536\n"
        "m.json:7:17: vocab_size is 1e30; it must be 1 to 16777216\n"
        "m.json:11:26: num_key_value_heads is 99999999999999999999; it must be 1 to 65536\n"
        "m.json:8:17: hidden_act is \"relu\"; only silu, swish are modelled\n"
        "m.json:9:26: tie_word_embeddings is 1; it must be true or false\n"
        "m.json:10:24: attention_dropout is 1.5; it must be a number from 0 to less than 1\n");
}

TEST_CASE("huggingface: numbers that do not fit together are named") {
  CHECK(problems(with("\"num_attention_heads\": 4", "\"num_attention_heads\": 5")) ==
        "m.json:6:26: num_attention_heads (5) does not divide hidden_size (64); choose one that "
        "does, or give head_dim\n");
  CHECK(problems(with("\"vocab_size\"", "\"num_key_value_heads\": 3, \"vocab_size\"")) ==
        "m.json:7:26: num_key_value_heads (3) does not divide num_attention_heads (4)\n");
}

TEST_CASE("huggingface: sizes are checked before they are multiplied") {
  CHECK(problems(with("layers\": 2,", "layers\": 10001,")) ==
        "m.json:3:24: num_hidden_layers is 10001; it must be 1 to 10000\n");
  // The maximum of every field: 10^4 (7 x 2^44 + 2^21) + 2^45 + 2^20 parameters, below 2^63.
  CHECK(problems(R"({"model_type":"llama","num_hidden_layers":10000,"hidden_size":1048576,
"intermediate_size":16777216,"num_attention_heads":65536,"head_dim":256,"vocab_size":16777216})") ==
        "m.json:1:1: the model has 1231488228453777408 parameters; at most 1000000000000000 are "
        "modelled\n");
  CHECK(problems(R"({"model_type":"llama","num_hidden_layers":1,"hidden_size":64,
"intermediate_size":64,"num_attention_heads":65536,"head_dim":65536,"vocab_size":64})") ==
        "m.json:2:63: num_attention_heads x head_dim is 4294967296; it must be at most "
        "16777216\n");
}

TEST_CASE("huggingface: dense types of the transformers library have their published counts") {
  // The shapes as in each model's config.json, the counts as its source publishes them.
  const auto published =
      nlohmann::json::parse(contents(support::in_repository("tests/input/published_counts.json")));
  std::string all;
  std::set<std::string> dense{"llama", "mistral", "qwen2"}, mixtures;  // those of models/
  for (const auto& one : published) {
    const auto name = one["name"].get<std::string>();
    INFO(name);
    const auto model = parse_huggingface(one["config"].dump(), name + ".json");
    INFO((model ? std::string() : model.errors()[0].message));
    REQUIRE(model);
    const std::int64_t counted =
        model::parameters(*model) + one.value("uncounted", std::int64_t{0});
    CHECK(counted == one["parameters"].get<std::int64_t>());
    // A published number in billions, with the digits that its source prints.
    if (const std::string digits = one.value("published", ""); !digits.empty()) {
      const std::size_t point = digits.find('.');
      const int places =
          point == std::string::npos ? 0 : static_cast<int>(digits.size() - point - 1);
      CHECK(fmt::format("{:.{}f}", static_cast<double>(counted) / 1e9, places) == digits);
    }
    (model->is_mixture() ? mixtures : dense).insert(one["config"]["model_type"]);
    all += members(*model);
  }
  for (const sample::MixtureCount& mixture : sample::mixture_counts) {
    const auto file = nlohmann::json::parse(contents(models + mixture.name + ".json"));
    mixtures.insert(file.value("model_type", "text"));
  }
  CHECK(dense.size() >= 45);
  CHECK(mixtures.size() >= 25);
  picture::same("input/pictures/architectures.txt", all);
  // 9.4 billion in the embeddings, 331.6 billion beside them [arXiv:2406.11704, table 1].
  const auto nemotron = parse_huggingface(
      R"({"model_type": "nemotron", "num_hidden_layers": 96, "hidden_size": 18432,
          "intermediate_size": 73728, "num_attention_heads": 96, "num_key_value_heads": 8,
          "vocab_size": 256000, "hidden_act": "relu2"})",
      "nemotron-4-340b.json");
  REQUIRE(nemotron);
  const auto ends = static_cast<double>(2 * nemotron->vocab * nemotron->hidden);
  CHECK(ends / 1e9 == Approx(9.4).margin(0.05));
  CHECK((static_cast<double>(model::parameters(*nemotron)) - ends) / 1e9 ==
        Approx(331.6).margin(0.05));
}

TEST_CASE("huggingface: what few families have is read") {
  const auto of = [](const std::string& keys) {
    const auto model = parse_huggingface("{" + keys + "}", "m.json");
    INFO((model ? std::string() : model.errors()[0].message));
    REQUIRE(model);
    return *model;
  };
  const std::string shapes =
      R"("hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 1000)";
  const auto falcon = of(R"("model_type": "falcon", )" + shapes);
  CHECK(falcon.kv_heads == 1);
  CHECK(falcon.ffn == 256);
  CHECK(falcon.input_norms == model::InputNorms::shared);
  const auto larger = of(R"("model_type": "falcon", "new_decoder_architecture": true, )" + shapes);
  CHECK(larger.kv_heads == 4);
  CHECK(larger.input_norms == model::InputNorms::each);
  const auto one = of(R"("model_type": "falcon", "new_decoder_architecture": true, )"
                      R"("num_ln_in_parallel_attn": 1, )" +
                      shapes);
  CHECK(one.input_norms == model::InputNorms::shared);
  const auto mpt = of(
      R"("model_type": "mpt", "d_model": 64, "n_layers": 2, "n_heads": 4, "vocab_size": 1000,
         "attn_config": {"alibi": true, "kv_n_heads": 2})");
  CHECK(mpt.position == model::Position::none);
  CHECK(mpt.kv_heads == 2);
  CHECK(mpt.norm == model::Norm::layer_without_bias);
  const auto llama =
      of(R"("model_type": "llama", "intermediate_size": 128, "attention_bias": true, )" + shapes);
  CHECK(llama.qkv_bias);
  CHECK(llama.linear_bias);
  CHECK_FALSE(llama.mlp_bias);
  CHECK(problems(R"({"model_type": "mpt", "d_model": 64, "n_layers": 2, "n_heads": 4,
"vocab_size": 1000, "attn_config": {"alibi": 3}})") ==
        "m.json:2:46: alibi is 3; it must be true or false\n");
  CHECK(problems(R"({"model_type": "gptj", "n_embd": 64, "n_layer": 2, "n_head": 5,
"vocab_size": 1000})")
            .starts_with("m.json:1:62: n_head (5) does not divide n_embd (64)"));
}

TEST_CASE("huggingface: what a dense type does not have here is refused where a file asks for it") {
  struct Refused {
    const char *type, *key;
    bool is;
    const char* why;
  };
  for (const Refused& one : {
           Refused{"gpt_neox", "attention_bias", false, "a layer without them is not modelled"},
           {"phi", "qk_layernorm", true, "norms of heads are not modelled for this type"},
           {"mpt", "no_bias", false, "biases are not modelled for this type"},
           {"opt", "do_layer_norm_before", false, "a norm behind each half alone is not modelled"},
           {"opt", "enable_bias", false, "a layer without biases is not modelled"},
       }) {
    CAPTURE(one.type, one.key);
    const std::string shapes =
        one.type == std::string("mpt")
            ? R"("d_model": 64, "n_layers": 2, "n_heads": 4, "vocab_size": 1000})"
            : R"("hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
 "intermediate_size": 256, "ffn_dim": 256, "vocab_size": 1000})";
    const auto said = [&](bool value) {
      return problems(fmt::format("{{\"model_type\": \"{}\",\n\"{}\": {}, {}", one.type, one.key,
                                  value, shapes));
    };
    CHECK(said(!one.is) == "none");
    CHECK(said(one.is) == fmt::format("m.json:2:{}: {} is {}; {}\n", 5 + std::strlen(one.key),
                                      one.key, one.is, one.why));
  }
}

TEST_CASE("huggingface: models of other kinds are refused by name") {
  const std::string types =
      "gpt2, llama, mistral, qwen2, phi3, granite, smollm3, minicpm, baichuan, internlm, "
      "internlm2, gemma, gemma2, gemma3_text, starcoder2, nemotron, stablelm, gpt_neox, opt, "
      "gptj, phi, cohere, cohere2, falcon, bloom, mpt, olmo, olmo2, mixtral, qwen3, qwen3_moe, "
      "deepseek_v2, deepseek_v3, gpt_oss, "
      "grok-1, llama4_text, apertus, aria_text, bailing_moe, bailing_moe_v2, codegen, dbrx, "
      "deepseek, dots1, ernie4_5, ernie4_5_moe, exaone, exaone4, flex_olmo, glm, glm4, glm4_moe, "
      "gpt_bigcode, gpt_neo, granitemoe, hunyuan_v1_dense, hunyuan_v1_moe, internlm3, kimi_k2, "
      "minimax_m2, olmo3, olmoe, orion, phimoe, qwen, qwen2_moe, seed_oss, smallthinker, xglm, "
      "xverse";
  CHECK(problems(with("\"vocab_size\"", "\"num_local_experts\": 8, \"vocab_size\"")) ==
        "m.json:7:24: num_local_experts says that this model is a mixture of experts, but llama is "
        "read as a dense network\n");
  CHECK(problems(with("\"llama\"", "\"lama\"")) ==
        "m.json:2:17: model_type \"lama\" is not supported; did you mean 'llama'? (" + types +
            ")\n");
  CHECK(problems(with("\"llama\"", "[1]")) ==
        "m.json:2:17: model_type a list is not supported (" + types + ")\n");
  CHECK(problems("{}") ==
        "m.json:1:1: key \"model_type\" is missing; write one of " + types + "\n");
}

TEST_CASE("huggingface: text that is no JSON object is reported where it breaks") {
  CHECK(problems("") ==
        "m.json:1:1: not valid JSON: parsing value - unexpected end of input; expected '[', '{', "
        "or a literal\n");
  CHECK(problems("[1]").starts_with("m.json:1:1: a model is a JSON object"));
  CHECK(problems("12").starts_with("m.json:1:1: a model is a JSON object"));
  CHECK(problems("{\n \"a\": 1,\n}").starts_with("m.json:3:1: not valid JSON: parsing object key"));
  CHECK(problems("{\"a\": \"\xff\"}").starts_with("m.json:1:8: not valid JSON"));
  CHECK(problems(std::string(small) + "x").starts_with("m.json:8:2: not valid JSON"));
  CHECK(problems(std::string(100000, '[')).find("object") != std::string::npos);
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100000; ++i) deep += "[";
  CHECK(problems(deep) == "m.json:1:69: nested more than 64 deep\n");
  CHECK(problems(std::string((1 << 20) + 1, ' ')) ==
        "m.json: the file is larger than 1 MiB, the most that is read\n");
}

TEST_CASE("huggingface: columns count letters and escapes do not shift them") {
  CHECK(problems("{\"\\\"{,é\": \"ü:\\\\\", \"model_type\": 3}")
            .starts_with("m.json:1:33: model_type 3 is not supported (gpt2, llama,"));
}

TEST_CASE("huggingface: a key given twice in a nested object is found too") {
  CHECK(
      problems(with("\"vocab_size\"", "\"rope_scaling\": {\"a\": 1, \"a\": 2}, \"vocab_size\"")) ==
      "m.json:7:28: key \"a\" is given twice; keep one\n");
}

TEST_CASE("huggingface: what is wrong in the part that reads text is told once") {
  const std::string twice =
      with("\"vocab_size\": 1000", "\"vocab_size\": 1000, \"a\": 1, \"a\": 2");
  CHECK(problems("{\"text_config\": " + twice + "}") ==
        "m.json:7:31: key \"a\" is given twice; keep one\n");
}

TEST_CASE("huggingface: of parts given twice the first is read, to its own end") {
  const std::string model = with("\"vocab_size\": 1000", "\"vocab_size\": 0");
  const std::string again = ", \"text_config\": {\"b\": [2, {}]}";
  const std::string told = problems("{\"text_config\": " + model + again + "}");
  CHECK(told.find("key \"text_config\" is given twice; keep one\n") != std::string::npos);
  CHECK(told.find("vocab_size is 0; it must be 1 to ") != std::string::npos);
  CHECK(std::count(told.begin(), told.end(), '\n') == 2);
}

TEST_CASE("huggingface: behind as many problems as are told, a file without a type is no network") {
  std::string text = "{";
  for (int n = 0; n < 200; ++n) text += "\"a\": 1, ";
  for (const char* type : {"\"model_type\": null", "\"model_type\": \"lama\""}) {
    const std::string told = problems(text + type + "}");
    CAPTURE(type);
    CHECK(std::ranges::count(told, '\n') == 100);
    CHECK(told.starts_with("m.json:1:10: key \"a\" is given twice; keep one\n"));
  }
}

TEST_CASE("huggingface: a file that cannot be read says why") {
  const auto missing = load_huggingface("/nonexistent/config.json");
  REQUIRE_FALSE(missing);
  CHECK(missing.errors().front().fault == Fault::missing);
  CHECK_FALSE(load_huggingface(models));
}

TEST_CASE("huggingface: every truncation and every changed byte is survived") {
  const std::string whole = contents(models + "llama-3.1-8b.json");
  for (std::size_t n = 0; n + 2 < whole.size(); ++n) {
    const auto result = parse_huggingface(whole.substr(0, n), "m.json");
    CAPTURE(n);
    REQUIRE_FALSE(result);
  }
  for (std::size_t n = 0; n < whole.size(); ++n)
    for (const char c : {'\0', '"', '\\', '{', '}', ',', '9', '-', '\n', '\x80'}) {
      std::string text = whole;
      text[n] = c;
      const auto result = parse_huggingface(text, "m.json");
      if (!result)
        for (const Diagnostic& d : result.errors()) REQUIRE(d.where.starts_with("m.json:"));
    }
}

TEST_CASE("huggingface: a file full of near misses is answered in bounded time and size") {
  std::string text = "{\"model_type\": \"llama\"";
  for (int i = 0; i < 40000; ++i) text += ",\"num_hidden_lay" + std::to_string(i % 9999) + "\":0";
  const auto result = parse_huggingface(text, "m.json");
  REQUIRE_FALSE(result);
  CHECK(result.errors().size() <= 100);
}

}  // namespace sim::input
