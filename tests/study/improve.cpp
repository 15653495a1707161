// improve.cpp — losses of plans that fit, changes against them, and combinations of changes.
#include "sim/study/tune/improve.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "sim/answer/interval.h"
#include "sim/input/plan/plan.h"
#include "sim/output/json.h"

using namespace sim;

namespace {

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

answer::CheckedPlan plan_of(const std::vector<std::string>& words, answer::Sites& sites) {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  ::setenv("REHEARSE_NETWORK", REHEARSE_BINARY_DIR "/rehearse-network", 1);
  const auto file = input::load_plan("", words);
  REQUIRE(file);
  const auto site = sites.of(file->machine);
  REQUIRE(site);
  return answer::checked(file->plan, **site);
}

answer::Answer answer_of(const answer::CheckedPlan& plan) {
  answer::Answer answer = answer::evaluate(plan);
  answer::add_retry_cost(answer, plan);
  return answer;
}

bool loses(const std::vector<study::Loss>& losses, study::Cause cause) {
  return std::ranges::any_of(losses, [&](const study::Loss& loss) { return loss.cause == cause; });
}

std::vector<std::string> thrashing_plans() {
  std::ifstream in(REHEARSE_SOURCE_DIR "/tests/study/thrash.txt");
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    if (!line.starts_with("#")) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("study: allocator retries are named and mended in twenty plans") {
  answer::Sites sites;
  const std::vector<std::string> lines = thrashing_plans();
  REQUIRE(lines.size() == 20);
  for (const std::string& line : lines) {
    INFO(line);
    const answer::CheckedPlan plan = plan_of(words_of(line), sites);
    const answer::Answer answer = answer_of(plan);
    REQUIRE(answer.run.fits());
    REQUIRE(answer::step_retries(answer.run) > 0);
    const std::vector<study::Loss> losses = study::losses(answer);
    CHECK(loses(losses, study::Cause::retries));
    const auto mended = study::combine(plan, answer);
    REQUIRE(mended);
    CHECK(mended->answer.run.fits());
    CHECK(answer::step_retries(mended->answer.run) == 0);
    CHECK_FALSE(mended->answer.verdict.tight);
    CHECK(mended->plan->world() == plan->world());
  }
}

TEST_CASE("study: the cost of retries is the step less the step with unlimited memory") {
  answer::Sites sites;
  const answer::CheckedPlan plan = plan_of(words_of(thrashing_plans().front()), sites);
  const answer::Answer answer = answer_of(plan);
  const Duration unlimited = answer::evaluate_unlimited(plan).run.step_time;
  CHECK(answer.retry_cost.ps > 0);
  CHECK(answer.retry_cost == answer.run.step_time - unlimited);
  CHECK(answer::limit(answer).find("allocator retries") != std::string::npos);
  // Each second of the step is in one account, or in the retries.
  double sum = seconds(answer.retry_cost);
  for (const double one : answer::accounts_without_retries(answer)) sum += one;
  CHECK(sum == Approx(answer::step_seconds(answer)));
}

TEST_CASE("study: limits of an interval stay below the GPU's peak and within its memory") {
  answer::Sites sites;
  const answer::CheckedPlan plan = plan_of(words_of(thrashing_plans().front()), sites);
  const answer::Answer answer = answer_of(plan);
  input::RunResiduals residuals;
  for (const char* source : {"a", "b", "c"})
    for (const input::ResidualOf of :
         {input::ResidualOf::time, input::ResidualOf::allocated, input::ResidualOf::reserved}) {
      input::ResidualGroup& group = residuals.groups.emplace_back();
      group.source = source;
      group.quantity = of;
      for (int i = -20; i <= 20; ++i) group.values.push_back(0.3 * i);
    }
  const answer::Intervals all = answer::intervals(answer, residuals, {}, "megatron");
  REQUIRE(all.step_seconds);
  REQUIRE(all.reserved_gib);
  CHECK(all.step_seconds->low == Approx(answer::step_seconds(answer) * answer.hfu));
  CHECK(all.tflops_gpu->high * all.step_seconds->low ==
        Approx(answer::rate(answer, "megatron").tflops_gpu * answer::step_seconds(answer)));
  CHECK(all.reserved_gib->high == gib(answer::fullest(answer.run).capacity));
  CHECK(all.allocated_gib->high == gib(answer::fullest(answer.run).capacity));
  CHECK(all.step_seconds->high > answer::step_seconds(answer));
}

TEST_CASE("study: a loss of time counts above a tenth of the step, fragmentation above 15 %") {
  answer::Answer answer;
  answer.run.memory = engine::MemoryDetail::exact;
  answer.run.step_time = Duration{1'000'000};
  engine::ClassReport who;
  who.capacity = Bytes{2000};
  who.peak_reserved = Bytes{1000};
  who.peak_allocated = Bytes{850};
  who.accounts[static_cast<std::size_t>(engine::Account::tp_exposed)] = Duration{100'000};
  who.accounts[static_cast<std::size_t>(engine::Account::host)] = Duration{200'000};
  who.accounts[static_cast<std::size_t>(engine::Account::dp_exposed)] = Duration{300'000};
  answer.run.classes = {who};
  const auto causes = [&] {
    std::vector<study::Cause> all;
    for (const study::Loss& loss : study::losses(answer)) all.push_back(loss.cause);
    return all;
  };
  using enum study::Cause;
  CHECK(causes() == std::vector{data_parallel, host});
  answer.run.classes[0].peak_allocated = Bytes{849};
  CHECK(causes() == std::vector{fragmentation, data_parallel, host});
  answer.retry_cost = Duration{100'000};
  answer.retry_accounts.assign(engine::account_count, 0.0);
  answer.retry_accounts[static_cast<std::size_t>(engine::Account::host)] =
      seconds(answer.retry_cost);
  answer.run.classes[0].step_retries = 3;
  CHECK(causes() == std::vector{retries, fragmentation, data_parallel});
  answer.verdict.tight = true;
  CHECK(causes() == std::vector{tight, retries, fragmentation, data_parallel});
  answer.run.memory = engine::MemoryDetail::none;
  CHECK(causes().empty());
}

TEST_CASE("study: a change against a loss is what its text makes of the plan") {
  answer::Sites sites;
  std::set<std::string> keys;
  for (const char* line :
       {"model=llama-3.1-8b cluster=dgx-h100 gpus=32 tp=4 pp=2 cp=2 micro_batch=2 global_batch=64 "
        "sequence=8192",
        "model=llama-3.1-8b cluster=dgx-h100 gpus=16 zero=2 global_batch=64 sequence=8192",
        "model=llama-3.1-8b cluster=dgx-h100 gpus=16 tp=2 pp=4 virtual_stages=4 global_batch=64 "
        "sequence=8192 overlap_param_gather=false overlap_grad_reduce=false fused_optimizer=false",
        "model=qwen3-30b-a3b cluster=dgx-h100 gpus=16 tp=1 pp=2 ep=8 global_batch=64 "
        "sequence=4096"}) {
    const std::vector<std::string> words = words_of(line);
    const answer::CheckedPlan plan = plan_of(words, sites);
    for (auto c = static_cast<int>(study::Cause::tight); c <= static_cast<int>(study::Cause::host);
         ++c) {
      const auto cause = static_cast<study::Cause>(c);
      for (const study::Change& change : study::changes_against(plan, cause)) {
        INFO(line << ": " << change.text);
        std::vector<std::string> changed = words;
        for (const std::string& word : words_of(change.text)) {
          keys.insert(word.substr(0, word.find('=')));
          changed.push_back(word);
        }
        const auto read = input::load_plan("", changed);
        REQUIRE(read);
        CHECK(output::to_json(read->plan) == output::to_json(change.plan.plan()));
        CHECK(change.plan->world() == plan->world());
        CHECK(change.plan->batch.global_batch == plan->batch.global_batch);
      }
    }
  }
  for (const char* key :
       {"tp_comm_overlap", "tp", "context", "cp", "dispatcher", "ep", "overlap_grad_reduce",
        "fsdp.reshard_after_forward", "micro_batch", "pp", "virtual_stages", "schedule",
        "account_for_loss", "layer_split", "fused_optimizer"})
    CHECK(keys.contains(key));
}

TEST_CASE("study: improvements are replayed, fit, and gain time or memory") {
  answer::Sites sites;
  const answer::CheckedPlan plan =
      plan_of(words_of("model=llama-3.1-70b cluster=dgx-h100 gpus=64 tp=8 pp=4 micro_batch=1 "
                       "global_batch=64 sequence=8192"),
              sites);
  const answer::Answer answer = answer_of(plan);
  const study::Improvements all = study::improvements(plan, answer);
  CHECK(loses(all.losses, study::Cause::tensor_parallel));
  REQUIRE_FALSE(all.found.empty());
  Duration before{};
  for (const study::Improvement& one : all.found) {
    INFO(one.change.text);
    const answer::Answer again = answer::evaluate(one.change.plan);
    CHECK(again.run.fits());
    CHECK(again.run.step_time == one.step);
    CHECK(answer::peak_reserved(again.run) >= one.reserved);
    CHECK(one.step >= before);
    before = one.step;
  }
  CHECK(all.found.front().step < answer.run.step_time);
}
