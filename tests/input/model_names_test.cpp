// model_names_test.cpp — the kind of network by the name of a model.
#include <catch2/catch.hpp>

#include "sim/input/models/names.h"
#include "support.h"

using namespace sim;
using input::model_type_called;

TEST_CASE("input: a model's name says its kind, by the longest word") {
  CHECK(model_type_called("nemotron4 15b") == "nemotron");
  CHECK(model_type_called("Nemotron-H 56b") == "nemotron_h");
  CHECK(model_type_called("qwen2.5-32b") == "qwen2");
  CHECK(model_type_called("Qwen3-8B LoRA TP2") == "qwen3");
  CHECK(model_type_called("OPT-350M") == "opt");
  CHECK(model_type_called("maxtext llama2 70b") == "llama");
  // A word of other letters is no name.
  CHECK(model_type_called("optimal") == "");
  CHECK(model_type_called("adopt-1b") == "");
  CHECK(model_type_called("gpt-22b") == "");
}

TEST_CASE("input: every named kind is a network, or is refused by its own name") {
  const input::NetworkSizes sizes{.layers = 8, .hidden = 1024, .ffn = 4096, .heads = 16,
                                  .kv_heads = 16, .vocab = 32000};
  for (const char* name :
       {"nemotron", "opt", "bloom", "falcon", "phi2", "gemma2", "qwen3", "pythia", "gptj",
        "internlm", "baichuan", "mpt", "olmo2", "commandr", "phi4"}) {
    INFO(name);
    const auto network = input::network_like(model_type_called(name), sizes);
    REQUIRE(network);
    CHECK(network->layers == 8);
    CHECK(network->hidden == 1024);
  }
  const auto nemotron = input::network_like("nemotron", sizes);
  CHECK(nemotron->position == model::Position::rope);
  CHECK(nemotron->hidden_dropout == 0);
  CHECK_FALSE(nemotron->linear_bias);
  const auto hybrid = input::network_like(model_type_called("nemotron-h"), sizes);
  REQUIRE_FALSE(hybrid);
  CHECK(hybrid.errors().front().message.find("not simulated") != std::string::npos);
}
