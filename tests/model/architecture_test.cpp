#include "sim/model/architecture.h"

#include <catch2/catch.hpp>

#include "tests/model/known.h"

namespace sim::model {

TEST_CASE("model: parameters equal the published counts of Llama and Mistral and Qwen") {
  // 8B: layer = 4096 (4096 + 2 x 1024) + 4096^2 + 3 x 4096 x 14336 + 2 x 4096 = 218,112,000;
  // 32 layers + 2 x 128256 x 4096 + 4096 = 8,030,261,248.
  CHECK(layer_parameters(llama_8b()) == 218'112'000);
  CHECK(parameters(llama_8b()) == 8'030'261'248);
  CHECK(parameters(llama_70b()) == 70'553'706'496);
  CHECK(parameters(llama(126, 16384, 53248, 128, 8, 128256)) == 405'853'388'800);
  CHECK(parameters(llama(32, 4096, 11008, 32, 32, 32000)) == 6'738'415'616);
  CHECK(parameters(llama(40, 5120, 13824, 40, 40, 32000)) == 13'015'864'320);
  CHECK(parameters(llama(80, 8192, 28672, 64, 8, 32000)) == 68'976'648'192);
  CHECK(parameters(llama(32, 4096, 14336, 32, 8, 32000)) == 7'241'732'096);
  Architecture qwen = llama(80, 8192, 29568, 64, 8, 152064);
  qwen.qkv_bias = true;
  CHECK(parameters(qwen) == 72'706'203'648);
}

TEST_CASE("model: parameters of GPT equal the formula of Narayanan et al. and the final norm") {
  // arXiv:2104.04473 equation 2: 12 l h^2 (1 + 13/12h + (v + s)/12lh), which leaves out the final
  // LayerNorm, 2h.
  for (const auto& [layers, hidden, heads] :
       {std::tuple{48, 6144, 64}, {96, 12288, 96}, {105, 20480, 128}, {128, 25600, 160}}) {
    const std::int64_t l = layers;
    const std::int64_t h = hidden;
    CHECK(parameters(gpt(l, h, heads)) == 12 * l * h * h + 13 * l * h + (51200 + 2048) * h + 2 * h);
  }
  // Table 1 and arXiv:2205.05198 table 3: 175B, 530B, 1008B.
  CHECK(parameters(gpt(96, 12288, 96)) == 174'615'846'912);
  CHECK(parameters(gpt(105, 20480, 128)) == 529'600'819'200);
  CHECK(parameters(gpt(128, 25600, 160)) == 1'008'038'758'400);
}

TEST_CASE("model: untying the embeddings adds one table") {
  Architecture a = gpt(48, 6144, 64);
  const std::int64_t tied = parameters(a);
  a.tied_embeddings = false;
  CHECK(parameters(a) - tied == 51200 * 6144);
}

TEST_CASE("model: the vocabulary is padded to a multiple of 128 x tp") {
  // 128256 = 1002 x 128 = 501 x 256; 250.5 x 512 -> 251 x 512; 125.25 x 1024 -> 126 x 1024.
  CHECK(padded_vocab(128256, 1) == 128256);
  CHECK(padded_vocab(128256, 2) == 128256);
  CHECK(padded_vocab(128256, 4) == 128512);
  CHECK(padded_vocab(128256, 8) == 129024);
  CHECK(padded_vocab(50257, 8) == 51200);  // GPT-2's, as the Megatron papers print it
  CHECK(padded_vocab(32000, 8) == 32768);
  CHECK(padded_vocab(1, 1, 1) == 1);
}

}  // namespace sim::model
