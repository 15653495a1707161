#include "sim/answer/interval.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace sim;
using namespace sim::answer;
using input::ResidualOf;

namespace {

const Situation here = {"a100-80", "Megatron-LM", true, false};

// `count` residuals of one source: `first`, `first + step`, and so on.
input::ResidualGroup group(const std::string& source, int count, double first, double step) {
  input::ResidualGroup made;
  made.profile = here.profile;
  made.framework = here.framework;
  made.many_nodes = here.many_nodes;
  made.source = source;
  for (int i = 0; i < count; ++i) made.values.push_back(first + step * i);
  return made;
}

// Residuals in which each group was measured by three sources with the same values: fewer sources
// make no class.
input::RunResiduals thrice(const std::vector<input::ResidualGroup>& groups) {
  input::RunResiduals made;
  for (const input::ResidualGroup& one : groups)
    for (const char* number : {"1", "2", "3"}) {
      made.groups.push_back(one);
      made.groups.back().source += number;
    }
  return made;
}

}  // namespace

TEST_CASE("answer: an interval leaves five percent of the ranks outside on each side") {
  // 99 residuals -0.49, -0.48, ... 0.49; the i-th stands at i / 100, so 5 % is the 5th, -0.45.
  const input::RunResiduals residuals = thrice({group("s", 99, -0.49, 0.01)});
  const auto found = spread(residuals, ResidualOf::time, here);
  REQUIRE(found);
  CHECK(found->low == Approx(-0.45));
  CHECK(found->high == Approx(0.45));
  CHECK(found->samples == 297);
  CHECK(found->sources == 3);
  // A time of 2 s gives 2 e^-0.45 to 2 e^0.45. A rate takes the reciprocal factors.
  CHECK(around(2, *found).low == Approx(2 * std::exp(-0.45)));
  CHECK(around_inverse(2, *found).low == Approx(2 * std::exp(-0.45)));
  CHECK(around_inverse(2, *found).high == Approx(2 * std::exp(0.45)));
}

TEST_CASE("answer: points of percent are added, and stay between none and all") {
  ResidualRange ten;
  ten.low = -10;
  ten.high = 5;
  const auto is = [&](double percent, double low, double high) {
    const Interval found = around_points(percent, ten);
    CHECK(found.low == low);
    CHECK(found.high == high);
  };
  is(50, 40, 55);
  is(10.5, 0.5, 15.5);
  is(9, 0, 14);
  is(94.5, 84.5, 99.5);
  is(97, 87, 100);
}

TEST_CASE("answer: an interval holds the prediction and gives the empty tail to the other side") {
  // 99 residuals 0.01 ... 0.99: every run was slower. 90 % lie between 0 and the 90th, 0.90.
  const input::RunResiduals residuals = thrice({group("s", 99, 0.01, 0.01)});
  const auto found = spread(residuals, ResidualOf::time, here);
  REQUIRE(found);
  CHECK(found->low == 0);
  CHECK(found->high == Approx(0.90));
  // And the mirror image: -0.99 ... -0.01.
  const input::RunResiduals faster = thrice({group("s", 99, -0.99, 0.01)});
  CHECK(spread(faster, ResidualOf::time, here)->low == Approx(-0.90));
  CHECK(spread(faster, ResidualOf::time, here)->high == 0);
}

TEST_CASE("answer: few residuals give Student's interval") {
  // -0.1 and 0.1, four times each: median 0, median distance 0.1, deviation 0.1 / 0.6745 x sqrt(8 /
  // 7) = 0.15849; the 95 % quantile with 7 degrees of freedom is 1.89458; 1.89458 x 0.15849 x
  // sqrt(1 + 1/8) = 0.31849.
  // Of three sources, since fewer make no class.
  input::RunResiduals residuals = {"", {group("r", 4, -0.1, 0), group("s", 2, 0.1, 0)}};
  residuals.groups.push_back(group("t", 2, 0.1, 0));
  const auto found = spread(residuals, ResidualOf::time, here);
  REQUIRE(found);
  CHECK(found->high == Approx(0.31849).epsilon(1e-4));
  CHECK(found->low == Approx(-0.31849).epsilon(1e-4));
}

TEST_CASE("answer: a situation that was not measured takes the next wider class") {
  const input::RunResiduals residuals = thrice({group("s", 40, -0.2, 0.01)});
  Situation other = here;
  other.context_parallel = true;
  CHECK(spread(residuals, ResidualOf::time, other)->of == "a100-80, Megatron-LM, several nodes");
  other.many_nodes = false;
  CHECK(spread(residuals, ResidualOf::time, other)->of == "a100-80, Megatron-LM");
  CHECK_FALSE(spread(residuals, ResidualOf::bubble, here));
}

TEST_CASE("answer: in a wider class each source counts the same") {
  // 900 residuals of 0 beside 30 of 1: by rows 97 % are 0, by sources half of them are.
  std::vector<input::ResidualGroup> groups = {group("big", 900, 0, 0), group("small", 30, 1, 0)};
  CHECK(spread(thrice(groups), ResidualOf::time, here)->high == 0);
  Situation other = here;
  other.many_nodes = false;
  CHECK(spread(thrice(groups), ResidualOf::time, other)->high == Approx(1));
}

TEST_CASE("answer: rows that a profile was fitted on count only when there are no others") {
  std::vector<input::ResidualGroup> groups = {group("fit", 50, 0, 0),
                                              group("other", 50, -0.25, 0.01)};
  groups[0].fitted = true;
  CHECK(spread(thrice(groups), ResidualOf::time, here)->samples == 150);
  CHECK(spread(thrice(groups), ResidualOf::time, here)->high > 0.2);
  groups.pop_back();
  CHECK(spread(thrice(groups), ResidualOf::time, here)->samples == 150);
}

TEST_CASE("answer: an unknown framework gets the widest of its kind on its GPU") {
  std::vector<input::ResidualGroup> groups = {
      group("a", 99, -0.49, 0.01), group("b", 99, -0.98, 0.02), group("c", 99, -4.9, 0.1)};
  groups[1].framework = "NeMo";
  groups[2].framework = "composer FSDP";
  groups[2].shards = true;
  Situation other = here;
  other.framework = "";
  const auto found = spread(thrice(groups), ResidualOf::time, other);
  REQUIRE(found);
  CHECK(found->low == Approx(-0.90));
  CHECK(found->high == Approx(0.90));
  CHECK(found->samples == 594);
  CHECK(found->of == "the widest of 2 classes");
  CHECK(found->own_gpu);
  CHECK_FALSE(found->own_framework);
  // Both sources have the same weight: the result lies between theirs.
  other.framework = "never measured";
  const auto pooled = spread(thrice(groups), ResidualOf::time, other);
  CHECK(pooled->low > -0.90);
  CHECK(pooled->low < -0.45);
  CHECK_FALSE(pooled->own_framework);
  other.shards = true;
  CHECK(spread(thrice(groups), ResidualOf::time, other)->low == Approx(-4.5));
  CHECK(spread(thrice(groups), ResidualOf::time, here)->low == Approx(-0.45));
}

TEST_CASE("answer: runs of other GPUs widen nothing where the GPU has enough of its own") {
  std::vector<input::ResidualGroup> groups = {group("a", 99, -0.49, 0.01),
                                              group("b", 99, -4.9, 0.1)};
  groups[1].profile = "another GPU";
  Situation other = here;
  other.framework = "never measured";
  CHECK(spread(thrice(groups), ResidualOf::time, other)->low == Approx(-0.45));
  groups[0].values.resize(2);  // six runs are too few
  CHECK(spread(thrice(groups), ResidualOf::time, other)->low < -1);
}

TEST_CASE("answer: where one class alone was measured it has its own name") {
  const input::RunResiduals residuals = thrice({group("s", 40, -0.2, 0.01)});
  Situation other = here;
  other.framework = "";
  const auto found = spread(residuals, ResidualOf::time, other);
  REQUIRE(found);
  CHECK(found->of.find("widest") == std::string::npos);
  CHECK(found->of.find("Megatron-LM") != std::string::npos);
  CHECK(found->samples == 120);
}

TEST_CASE("answer: mixtures of experts and dense models have residuals of their own") {
  std::vector<input::ResidualGroup> groups = {group("a", 99, -0.49, 0.01),
                                              group("b", 99, -4.9, 0.1)};
  groups[1].mixture = true;
  CHECK(spread(thrice(groups), ResidualOf::time, here)->low == Approx(-0.45));
  Situation other = here;
  other.mixture = true;
  CHECK(spread(thrice(groups), ResidualOf::time, other)->low == Approx(-4.5));
}

TEST_CASE("answer: a GPU that nobody ran on has what its framework does elsewhere and says so") {
  std::vector<input::ResidualGroup> groups = {group("a", 99, -0.49, 0.01),
                                              group("b", 99, -0.98, 0.02)};
  groups[1].profile = "h100-80";
  device::Profile profile;
  profile.name = "h100-80";
  profile.provenance.device = "H100-SXM5-80GB (product shapes: GH200)";
  CHECK(basis_of(profile, "H100-SXM5-80GB", "").profile == "h100-80");
  Situation other = here;
  other.profile = basis_of(profile, "H200-SXM5-141GB", "Megatron-LM").profile;
  CHECK(other.profile == "h100-80 on H200-SXM5-141GB");
  const auto found = spread(thrice(groups), ResidualOf::time, other);
  REQUIRE(found);
  CHECK(found->low < -0.45);
  CHECK(found->low > -0.90);
  CHECK_FALSE(found->own_gpu);
  CHECK(found->own_framework);
  // All runs of another framework were slower than predicted. The interval here is symmetric.
  const input::RunResiduals slower = thrice({group("a", 99, 0.01, 0.01)});
  CHECK(spread(slower, ResidualOf::time, here)->low == 0);
  CHECK(spread(slower, ResidualOf::time, other)->high == Approx(0.90));
  CHECK(spread(slower, ResidualOf::time, other)->low == Approx(-0.90));
  Intervals all;
  all.step_seconds = Interval{1, 2};
  all.time = found;
  CHECK(intervals_text(all).find("time extrapolated: no run on this GPU; from 594 runs of 6 "
                                 "sources elsewhere (Megatron-LM)") != std::string::npos);
  all.time = spread(thrice(groups), ResidualOf::time, here);
  CHECK(intervals_text(all).find("time from 297 runs of 3 sources on this GPU and framework "
                                 "(a100-80, Megatron-LM, several nodes, no context parallelism)") !=
        std::string::npos);
}

TEST_CASE("answer: a class of fewer than three sources is no class, and neither is its GPU") {
  // Two sources agree on this GPU; elsewhere four others scatter. A run of a third source here may
  // differ as those do.
  std::vector<input::ResidualGroup> elsewhere;
  for (const char* source : {"c", "d", "e", "f"}) {
    elsewhere.push_back(group(source, 25, -0.50, 0.04));
    elsewhere.back().profile = "h100-80";
  }
  input::RunResiduals two = {"", {group("a", 50, -0.01, 0.0004), group("b", 50, -0.01, 0.0004)}};
  for (const input::ResidualGroup& one : elsewhere) two.groups.push_back(one);
  const auto found = spread(two, ResidualOf::time, here);
  REQUIRE(found);
  CHECK_FALSE(found->own_gpu);
  CHECK(found->high > 0.3);
  two.groups.push_back(group("g", 50, -0.01, 0.0004));
  CHECK(spread(two, ResidualOf::time, here)->own_gpu);
  CHECK(spread(two, ResidualOf::time, here)->high < 0.02);
  // Without one of them, as for a row of that source itself, there are two again.
  CHECK_FALSE(spread(two, ResidualOf::time, here, "g")->own_gpu);
}

TEST_CASE("answer: own runs make intervals by Student's t, exactly") {
  // 95 % quantiles of Student's t with 5 and 4 degrees of freedom, from a table.
  constexpr double t5 = 2.015048372669157, t4 = 2.131846786326649;
  // Times: around 0; two runs of deviation 0.08 count beside the three.
  const auto times = spread_of_own_runs({"", "", {0.01, -0.03, 0.02}});
  REQUIRE(times);
  const double squares = 0.0001 + 0.0009 + 0.0004;
  const double half = t5 * std::sqrt((2 * 0.08 * 0.08 + squares) / 5) * std::sqrt(1 + 1.0 / 3);
  CHECK(times->high == Approx(half).epsilon(1e-9));
  CHECK(times->low == -times->high);
  CHECK_FALSE(spread_of_own_runs({"", "", {0.01, -0.03}}));
  // Peaks of memory: around their mean, with two runs of deviation 0.05 at 0.
  const auto peaks = spread_of_own_peaks({0.2, 0.2});
  REQUIRE(peaks);
  const double about_mean = (2 * 0.0025 + 2 * 0.01 + 2 * 0.01) / 4;
  const double wide = t4 * std::sqrt(about_mean) * std::sqrt(1 + 1.0 / 4);
  CHECK(peaks->high == Approx(0.1 + wide).epsilon(1e-9));
  CHECK(peaks->low == Approx(0.1 - wide).epsilon(1e-9));
  CHECK_FALSE(spread_of_own_peaks({}));
}

TEST_CASE("answer: a GPU without a run in fp8 takes what fp8 shows elsewhere, and says so") {
  std::vector<input::ResidualGroup> groups = thrice({group("a", 99, 0.01, 0.0001)}).groups;
  Situation asked = here;
  asked.fp8 = true;
  // Runs in fp8 on another GPU, up to exp(0.49) slower than predicted.
  input::RunResiduals all = {"", groups};
  for (const char* source : {"x", "y", "z"}) {
    all.groups.push_back(group(source, 50, 0.0, 0.01));
    all.groups.back().profile = "h100-80";
    all.groups.back().fp8 = true;
  }
  const auto usual = spread(all, ResidualOf::time, here),
             found = spread(all, ResidualOf::time, asked);
  REQUIRE(usual);
  REQUIRE(found);
  CHECK(found->fp8_unknown);
  CHECK(found->high > 0.4);
  CHECK(usual->high < 0.1);
  CHECK_FALSE(usual->fp8_unknown);
  Intervals text;
  text.step_seconds = Interval{1, 2};
  text.time = found;
  CHECK(intervals_text(text).find("; no run in fp8 on this GPU") != std::string::npos);
  // A single run in fp8 on the GPU says that it is known.
  all.groups.push_back(group("a", 1, 0.0, 0.01));
  all.groups.back().fp8 = true;
  CHECK_FALSE(spread(all, ResidualOf::time, asked)->fp8_unknown);
}
