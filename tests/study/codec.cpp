// codec.cpp — compressed messages, from the plan to the answer.
#include "sim/cluster/collective/codec.h"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "sim/answer/evaluate.h"
#include "sim/input/plan/plan.h"
#include "sim/input/tables/codec.h"

using namespace sim;

namespace {

const input::PlanFile& sample_plan() {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  ::setenv("REHEARSE_NETWORK", REHEARSE_BINARY_DIR "/rehearse-network", 1);
  static const auto plan =
      input::load_plan("", {"model=llama-2-7b", "cluster=perlmutter", "gpus=16", "tp=2", "pp=2",
                            "global_batch=16", "sequence=1024"});
  REQUIRE(plan);
  return *plan;
}

collective::Codec codec(double ratio, std::int64_t rate) {
  return {.name = "test", .ratio = ratio, .rates = {{{1'555'000'000'000}, {rate}, {rate}}}};
}

Duration step(const std::optional<collective::Codec>& tensor,
              const std::optional<collective::Codec>& data,
              const std::optional<collective::Codec>& pipeline, bool coupled = false) {
  answer::Sites sites;
  program::Plan plan = sample_plan().plan;
  plan.codec.found = {tensor, data, pipeline, data};
  engine::Options how;
  how.couple = coupled;
  const auto site = sites.of(sample_plan().machine);
  REQUIRE(site);
  const answer::Answer answer = answer::evaluate_once(answer::checked(plan, **site), how);
  REQUIRE(answer.run.fits());
  return answer.run.step_time;
}

// A rate in bytes per second so high that a kernel takes one picosecond, to which times are rounded
// up.
constexpr std::int64_t at_once = std::int64_t{1} << 62;

bool alike(Duration a, Duration b) {
  return std::abs(a.ps - b.ps) < 1'000'000;
}

}  // namespace

TEST_CASE("study: a codec that leaves every byte and takes no time changes nothing") {
  const auto none = codec(1, at_once);
  CHECK(alike(step(none, none, none), step({}, {}, {})));
  CHECK(alike(step(none, none, none, true), step({}, {}, {}, true)));
}

TEST_CASE("study: fewer bytes are never slower, slower codecs never faster") {
  const Duration plain = step({}, {}, {});
  for (const int who : {0, 1, 2}) {
    const auto with = [&](const collective::Codec& one, bool coupled = false) {
      return step(who == 0 ? std::optional(one) : std::nullopt,
                  who == 1 ? std::optional(one) : std::nullopt,
                  who == 2 ? std::optional(one) : std::nullopt, coupled);
    };
    CAPTURE(who);
    CHECK(with(codec(0.5, at_once)) < plain);
    CHECK(with(codec(0.25, at_once)) < with(codec(0.5, at_once)));
    CHECK(with(codec(0.25, 50'000'000'000)) < with(codec(0.25, 5'000'000'000)));
    CHECK(with(codec(1, 5'000'000'000)) > plain);
    CHECK(with(codec(0.25, at_once), true) < step({}, {}, {}, true));
  }
}

TEST_CASE("study: kernels that run beside a compressed reduction have less of the GPU") {
  answer::Sites sites;
  const auto site = sites.of(sample_plan().machine);
  REQUIRE(site);
  const auto slowest = [&](const std::optional<collective::Codec>& data) {
    program::Plan plan = sample_plan().plan;
    plan.codec.found.data = plan.codec.found.parameters = data;
    const program::Job job = answer::job_of(program::valid(plan), **site);
    const engine::Times times = engine::price(job, (*site)->machine.gpu, (*site)->profile.device,
                                              *(*site)->network, (*site)->others);
    Duration most{};
    for (const Duration kernel : times.classes[0].kernel_overlapped) most = std::max(most, kernel);
    return most;
  };
  CHECK(slowest(codec(0.5, 20'000'000'000)) > slowest(codec(0.5, at_once)));
  CHECK(alike(slowest(codec(0.5, at_once)), slowest({})));
  // The codec takes nearly all time of a reduced scalar, which is a small part of all collectives.
  collective::Codec brief = codec(1, at_once);
  brief.kernel = Duration{10'000'000};
  CHECK(slowest(brief).ps < 2 * slowest({}).ps);
}

TEST_CASE("study: parameters have the codec of data unless they are given one") {
  const auto with = [](std::vector<std::string> more) {
    std::vector<std::string> set = {
        "model=llama-2-7b", "cluster=perlmutter", "gpus=16",        "tp=2", "pp=2",
        "global_batch=16",  "sequence=1024",      "codec.data=int8"};
    set.insert(set.end(), more.begin(), more.end());
    const auto plan = input::load_plan("", set);
    REQUIRE(plan);
    return plan->plan->codec.found.parameters;
  };
  sample_plan();
  REQUIRE(with({}));
  CHECK(with({})->name == "int8");
  CHECK(with({"codec.parameters=fp8"})->name == "fp8");
  CHECK_FALSE(with({"codec.parameters=none"}));
  // A codec of parameters alone affects gathers alone.
  program::Plan plan = sample_plan().plan;
  const Duration plain = step({}, {}, {});
  plan.codec.found.parameters = codec(0.5, at_once);
  answer::Sites sites;
  const auto site = sites.of(sample_plan().machine);
  REQUIRE(site);
  const Duration gathers = answer::evaluate_once(answer::checked(plan, **site), {}).run.step_time;
  CHECK(gathers < plain);
  CHECK(gathers > step({}, codec(0.5, at_once), {}));
}

TEST_CASE("study: every codec of the repository is read, and an unknown one names them") {
  sample_plan();
  const std::vector<std::string> names = input::codec_names();
  CHECK(names.size() >= 6);
  for (const std::string& name : names) {
    CAPTURE(name);
    const auto read = input::load_codec(name);
    REQUIRE(read);
    CHECK(read->name == name);
    CHECK(read->ratio <= 1);
    CHECK_FALSE(read->rates.empty());
  }
  const auto missing = input::load_codec("zpf-8");
  REQUIRE_FALSE(missing);
  CHECK(missing.errors().front().message.find("did you mean 'zfp-8'") != std::string::npos);
}

TEST_CASE("study: codec none is a plan without a codec") {
  sample_plan();
  const auto plan = input::load_plan(
      "", {"model=llama-2-7b", "cluster=perlmutter", "gpus=16", "tp=2", "pp=2", "global_batch=16",
           "sequence=1024", "codec.tensor=none", "codec.data=none", "codec.pipeline=none"});
  REQUIRE(plan);
  const program::CodecsPlan& codec = plan->plan->codec;
  CHECK((codec.tensor.empty() && codec.data.empty() && codec.pipeline.empty()));
  CHECK_FALSE((codec.found.tensor || codec.found.data || codec.found.pipeline));
}
