// drawn.cpp — plans of real models on real clusters, drawn at random, as a user would type them.
// Both engines give one answer, and the reported step stands for later ones, or the answer says so.
// A few are drawn in every test run. The campaign draws 300, or REHEARSE_DRAWS, from number 1000 on
// or from REHEARSE_FIRST_DRAW on.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/golden/program.h"

namespace {

using Json = nlohmann::json;

// Draw `number` never changes. Words for `rehearse run`.
std::string drawn_plan(unsigned number) {
  std::mt19937 draw(number);
  const auto one_of = [&](const std::vector<std::string>& all) { return all[draw() % all.size()]; };
  const auto degree = [&](const std::vector<int>& all) { return all[draw() % all.size()]; };
  std::string words = "model=" + one_of({"gpt3-1.3b", "gpt3-1.3b", "gpt3-6.7b", "gpt3-22b",
                                         "llama-2-7b", "llama-3.1-8b", "llama-2-13b", "mistral-7b",
                                         "mixtral-8x7b", "qwen3-30b-a3b"});
  words += " cluster=" + one_of({"dgx-a100", "dgx-h100", "dgx-h200", "dgx-b200", "gb200-nvl72",
                                 "aws-p4d", "abci-a", "tsubame4", "alps"});
  const int tp = degree({1, 1, 2, 4}), pp = degree({1, 1, 1, 2, 4}),
            dp = degree({1, 1, 2, 2, 4, 8});
  const int micro = degree({1, 1, 2, 4}), count = degree({1, 2, 4, 8, 16});
  words +=
      fmt::format(" gpus={} tp={} pp={} micro_batch={} global_batch={} sequence={}", tp * pp * dp,
                  tp, pp, micro, micro * count * pp * dp, degree({512, 1024, 2048, 4096}));
  const auto maybe = [&](const std::string& key, const std::vector<std::string>& values) {
    const std::string value = one_of(values);
    if (!value.empty()) words += " " + key + value;
  };
  maybe("framework=", {"", "", "", "torchtitan", "deepspeed", "megatron-fsdp", "hf-trainer"});
  maybe("zero=", {"", "", "1", "2", "3"});
  maybe("allocator_options=",
        {"", "", "", "max_split_size_mb:128", "max_split_size_mb:64", "expandable_segments:True",
         "garbage_collection_threshold:0.6,per_process_memory_fraction:0.9",
         "max_split_size_mb:512,per_process_memory_fraction:0.8"});
  maybe("recompute=", {"", "", "selective", "full"});
  return words;
}

// The document of `run`; none if the plan is refused.
std::optional<Json> answer(const std::string& words, const std::string& folder) {
  const golden::Finished one = golden::run("./rehearse run " + words + " --json -q", folder);
  INFO(words << "\n" << one.err);
  CHECK((one.code == 0 || one.code == 2 || one.code == 65));
  if (one.code != 0 && one.code != 2) return std::nullopt;
  Json json = Json::parse(one.out, nullptr, false);
  CHECK_FALSE(json.is_discarded());
  return json.value("result", Json());
}

void same_with_both_engines(const std::string& words, const std::string& folder) {
  const auto fast = answer(words, folder), slow = answer(words + " --method reference", folder);
  INFO(words);
  REQUIRE(fast.has_value() == slow.has_value());
  if (!fast) return;
  if (!fast->at("fits")) {  // after that only the reference engine goes on
    for (const char* key : {"fits", "verdict", "first_out_of_memory"})
      CHECK(fast->at(key) == slow->at(key));
    const std::size_t first = fast->at("first_out_of_memory");
    const auto event = [&](const Json& of) { return of["rank_classes"][first]["out_of_memory"]; };
    CHECK(event(*fast) == event(*slow));
    return;
  }
  for (const auto& [key, value] : fast->items()) {
    if (key == "operations_replayed") continue;
    INFO(key);
    CHECK(value == slow->value(key, Json()));
  }
}

void reported_step_stays(const std::string& words, const std::string& folder) {
  const auto usual = answer(words, folder);
  if (!usual || !usual->value("fits", false) || !usual->value("steady", true)) return;
  const auto longer = answer(words + " --steps 6", folder);
  INFO(words);
  REQUIRE(longer);
  const double step = usual->at("step_time_ps"), sixth = longer->at("step_time_ps");
  CHECK(step == Approx(sixth).epsilon(0.01));
}

void each(unsigned first, unsigned count, void (*check)(const std::string&, const std::string&)) {
  const std::string folder = golden::scratch("drawn");
  for (unsigned number = first; number < first + count; ++number) {
    INFO("draw " << number);
    check(drawn_plan(number), folder);
  }
}

void campaign(void (*check)(const std::string&, const std::string&)) {
  const auto number = [](const char* name, unsigned otherwise) {
    const char* const text = std::getenv(name);
    return text ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : otherwise;
  };
  each(number("REHEARSE_FIRST_DRAW", 1000), number("REHEARSE_DRAWS", 300), check);
}

}  // namespace

TEST_CASE("golden: both engines give drawn plans one answer") {
  each(0, 8, same_with_both_engines);
}

TEST_CASE("golden: both engines give 300 drawn plans one answer", "[.campaign]") {
  campaign(same_with_both_engines);
}

TEST_CASE("golden: the reported step of drawn plans stands for later ones") {
  each(0, 8, reported_step_stays);
}

TEST_CASE("golden: the reported step of 300 drawn plans stands for later ones", "[.campaign]") {
  campaign(reported_step_stays);
}

TEST_CASE("golden: twice the replicas of FSDP2 take as long to compute") {
  const std::string folder = golden::scratch("drawn");
  const auto compute = [&](int gpus) {
    const auto run = answer(fmt::format("model=llama-3.1-8b cluster=dgx-h100 framework=torchtitan "
                                        "gpus={} micro_batch=1 global_batch={} sequence=2048 "
                                        "recompute=full",
                                        gpus, 2 * gpus),
                            folder);
    REQUIRE(run);
    return run->at("rank_classes").at(0).at("accounts").at("compute_ps").get<std::int64_t>();
  };
  CHECK(compute(16) == compute(8));
  CHECK(compute(32) == compute(8));
}

TEST_CASE("golden: with twice the PCIe bandwidth no step is longer") {
  const std::string folder = golden::scratch("drawn");
  for (const char* plan :
       {"model=gpt3-22b gpus=32 tp=4 pp=2", "model=llama-3.1-8b gpus=16 zero=3",
        "model=mixtral-8x7b gpus=16 tp=2 pp=2", "model=llama-2-13b gpus=8 pp=4"}) {
    const auto step = [&](int rate) {
      const auto run = answer(fmt::format("{} cluster=dgx-h100 micro_batch=1 global_batch=32 "
                                          "sequence=2048 cluster.node.pcie_bandwidth={}GB/s",
                                          plan, rate),
                              folder);
      REQUIRE(run);
      const Json step = run->value("step_time_ps", Json());
      return step.is_null() ? std::int64_t{0} : step.get<std::int64_t>();  // null: out of memory
    };
    INFO(plan);
    CHECK(step(126) <= step(63));
  }
}
