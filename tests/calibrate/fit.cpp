#include "sim/calibrate/fit/fit.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "sim/cluster/device/kernel.h"
#include "sim/input/cluster/cluster.h"

using namespace sim;
using namespace sim::calibrate;

namespace {

std::string calibration(const std::string& name) {
  return std::string(REHEARSE_SOURCE_DIR) + "/calibration/" + name + ".textproto";
}

input::ProfileDraft draft() {
  const auto loaded = input::ProfileDraft::load(calibration("a100-80"));
  REQUIRE(loaded);
  return *loaded;
}

device::Gpu gpu() {
  const auto machine =
      input::find_cluster(std::string(REHEARSE_SOURCE_DIR) + "/topologies/dgx-a100.textproto");
  REQUIRE(machine);
  return machine->gpu;
}

// Products of many shapes, timed on a machine with this profile.
std::vector<KernelSample> products(const input::ProfileDraft& truth, const std::string& source,
                                   const std::string& board, double factor = 1) {
  const device::Gpu machine = gpu();
  device::Profile profile = truth.device();
  profile.gemm.sustained = 1;
  std::vector<KernelSample> samples;
  for (const std::int64_t m : {2048, 4096, 8192}) {
    for (const std::int64_t n : {1536, 5120, 14336}) {
      for (const std::int64_t k : {1024, 4096, 11008}) {
        KernelSample sample;
        sample.group = "gemm forward";
        sample.source = source;
        sample.gpu = board;
        sample.operations = {model::gemm("x", m, n, k)};
        sample.seconds =
            factor * seconds(device::time(sample.operations.front(), machine, profile));
        samples.push_back(sample);
      }
    }
  }
  return samples;
}

const FittedParameter& parameter(const Fit& fitted, const std::string& path) {
  for (const FittedParameter& p : fitted.parameters)
    if (p.path == path) return p;
  FAIL(path);
  return fitted.parameters.front();
}

}  // namespace

TEST_CASE("calibrate: a fit finds the profile that measurements come from") {
  input::ProfileDraft truth = draft();
  truth.set("gemm.peaks[0].fraction", 0.70);
  truth.set("gemm.wave_quantisation", 0.9);
  const Fit found = fit(draft(), gpu(), products(truth, "lab", "A100-SXM 80GB"));
  REQUIRE(found.residuals.size() == 1);
  CHECK(found.residuals[0].base_percent > 10);
  CHECK(found.residuals[0].mean_absolute_percent < 0.5);
  // The peak and the tile efficiency can trade places; a large product shows their product only.
  CHECK(found.profile.get("gemm.peaks[0].fraction") * found.profile.get("gemm.forward") ==
        Approx(0.70).epsilon(0.03));
  CHECK(found.profile.get("gemm.wave_quantisation") == Approx(0.9).margin(0.1));
  REQUIRE(found.unseen.size() == 1);
  CHECK(found.unseen[0].percent < 2);
  CHECK(device::check(found.profile.device()).empty());
}

TEST_CASE("calibrate: a fit gives the same bytes every time") {
  input::ProfileDraft truth = draft();
  truth.set("gemm.ramp_k", 300);
  const auto samples = products(truth, "lab", "A100-SXM 80GB");
  CHECK(fit(draft(), gpu(), samples).profile.text("x") ==
        fit(draft(), gpu(), samples).profile.text("x"));
}

TEST_CASE("calibrate: what fewer than five measurements feel stays where it was") {
  auto samples = products(draft(), "lab", "A100-SXM 80GB", 1.3);
  samples.resize(4);
  const Fit found = fit(draft(), gpu(), samples);
  for (const FittedParameter& p : found.parameters) {
    CHECK_FALSE(p.fitted);
    CHECK(p.value == p.base);
  }
}

TEST_CASE("calibrate: a sibling GPU gives shapes and no levels") {
  // The same shapes take 1.4 times as long on an A100 PCIe. Only the level of that board can be
  // fitted.
  const Fit found = fit(draft(), gpu(), products(draft(), "lab", "A100-PCIe 80GB", 1.4));
  REQUIRE(found.residuals.size() == 1);
  CHECK(found.residuals[0].level == Approx(1.4).epsilon(0.01));
  CHECK_FALSE(parameter(found, "gemm.peaks[0].fraction").fitted);
  CHECK(found.profile.get("gemm.peaks[0].fraction") == draft().get("gemm.peaks[0].fraction"));
}

TEST_CASE("calibrate: measurements that no physical profile explains stay within the bounds") {
  // A tenth of the predicted time exceeds the peak of the GPU.
  const Fit found = fit(draft(), gpu(), products(draft(), "lab", "A100-SXM 80GB", 0.1));
  CHECK(device::check(found.profile.device()).empty());
  CHECK(found.profile.get("gemm.peaks[0].fraction") <= 1);
  CHECK(parameter(found, "gemm.peaks[0].fraction").at_bound());
}

TEST_CASE("calibrate: sources that differ by more than they scatter are named") {
  auto samples = products(draft(), "one", "A100-SXM 80GB", 1.0);
  const auto slower = products(draft(), "other", "A100-SXM 80GB", 1.2);
  samples.insert(samples.end(), slower.begin(), slower.end());
  const Fit found = fit(draft(), gpu(), samples);
  REQUIRE(found.disagreements.size() == 1);
  CHECK(found.disagreements[0].percent > 10);
  CHECK(found.unseen[0].split == "one source left out");
  // Two sources with the same measurements do not disagree.
  auto twice = products(draft(), "one", "A100-SXM 80GB");
  const auto again = products(draft(), "other", "A100-SXM 80GB");
  twice.insert(twice.end(), again.begin(), again.end());
  CHECK(fit(draft(), gpu(), twice).disagreements.empty());
}

TEST_CASE("calibrate: boards of one architecture are siblings and others are strangers") {
  const std::string ours = "A100-SXM4-80GB";
  CHECK(kinship("A100-SXM 80GB", ours) == Kinship::same);
  CHECK(kinship("A100 SXM", ours) == Kinship::same);
  CHECK(kinship("", ours) == Kinship::same);
  CHECK(kinship("A100-SXM-40GB (GCP a2)", ours) == Kinship::sibling);
  CHECK(kinship("A100-PCIe 80GB", ours) == Kinship::sibling);
  CHECK(kinship("A800-SXM", ours) == Kinship::sibling);
  CHECK(kinship("H100 SXM", ours) == Kinship::stranger);
  CHECK(kinship("GH200 96GB", "H100-SXM5-80GB") == Kinship::sibling);
  CHECK(kinship("GB200 SXM", "H100-SXM5-80GB") == Kinship::stranger);
  CHECK(kinship("AMD Radeon Graphics", ours) == Kinship::stranger);
  CHECK(kinship("AMD Radeon Graphics", "MI300X") == Kinship::stranger);
  CHECK(kinship("H200 SXM", "H100-SXM5-80GB") == Kinship::sibling);
  CHECK(kinship("H100 NVL", "H100-SXM5-80GB") == Kinship::sibling);
  CHECK(kinship("H100 NVL 94GB", "H100-NVL-94GB") == Kinship::same);
  CHECK(kinship("B300", "B200-SXM-180GB") == Kinship::sibling);
  CHECK(kinship("NVIDIA A100-SXM 80 GB", ours) == Kinship::same);
  CHECK(kinship("NVIDIA A100-SXM 180GB", ours) == Kinship::sibling);
}

TEST_CASE("calibrate: every parameter of the table is a field of a profile within its bounds") {
  std::set<std::string_view> found;
  for (const char* name : {"a100-40", "a100-80", "h100-80", "h100-94"}) {
    const auto loaded = input::ProfileDraft::load(calibration(name));
    REQUIRE(loaded);
    for (const Parameter& p : parameters()) {
      for (const std::string& path : loaded->paths(std::string(p.path))) {
        INFO(name << " " << path);
        found.insert(p.path);
        CHECK(loaded->get(path) >= p.lower);
        CHECK(loaded->get(path) <= p.upper);
      }
    }
  }
  CHECK(found.size() == parameters().size());
  // A share of a peak is at most 1.
  for (const Parameter& p : parameters()) {
    INFO(p.path);
    CHECK(p.lower >= 0);
    CHECK(p.lower < p.upper);
    const bool share = p.path.find("ramp") == std::string_view::npos &&
                       p.path.find("tail") == std::string_view::npos &&
                       p.path.find("latency") == std::string_view::npos;
    if (share) CHECK(p.upper == 1);
    if (p.relative && p.path.find("ramp") == std::string_view::npos) CHECK(p.lower > 0);
  }
}

TEST_CASE("calibrate: sources disagree by what is between their biases and levels") {
  // ln of measured / predicted is 100 ln(level) - bias; errors and scatter are small.
  const auto source = [](const std::string& name, const std::string& board, double bias,
                         double level = 1, double scatter = 1, double error = 1) {
    SourceResidual r;
    r.group = "gemm forward", r.source = name, r.gpu = board;
    r.bias_percent = bias, r.level = level;
    r.noise_percent = scatter, r.standard_error_percent = error;
    return r;
  };
  const std::string ours = "A100-SXM 80GB", other = "A100-PCIe 80GB";
  const auto apart = [](const SourceResidual& a, const SourceResidual& b) {
    const std::vector<Disagreement> found = disagreements({a, b});
    if (found.empty()) return 0.0;
    CHECK(found.size() == 1);
    CHECK(found[0].one == a.source + " on " + a.gpu);
    CHECK(found[0].other == b.source + " on " + b.gpu);
    CHECK(found[0].noise_percent == std::max(a.noise_percent, b.noise_percent));
    return found[0].percent;
  };
  CHECK(apart(source("a", ours, 2), source("b", ours, -6)) == Approx(8));
  // Two sources on boards of one kind: levels 1.2 and 1.1, biases 3 and -1.
  const double levels = 100 * std::log(1.2 / 1.1);
  CHECK(apart(source("a", other, 3, 1.2), source("b", other, -1, 1.1)) == Approx(levels - 4));
  CHECK(apart(source("a", other, -1, 1.2), source("b", other, 3, 1.1)) == Approx(levels + 4));
  // A difference between boards of two kinds is no disagreement, nor is one between two groups of
  // kernels.
  CHECK(apart(source("a", ours, 0), source("b", other, 0, 1.4)) == 0);
  CHECK(apart(source("a", other, 0, 1.4), source("b", ours, 0)) == 0);
  CHECK(apart(source("a", other, 0, 1.4), source("b", "A100-SXM 40GB", 0, 1.1)) == 0);
  SourceResidual backward = source("b", ours, -6);
  backward.group = "gemm backward";
  CHECK(apart(source("a", ours, 2), backward) == 0);
  // The threshold is the larger of two values: twice the standard error of the difference, hypot(3,
  // 4) = 5, thus 10; and the larger scatter.
  CHECK(apart(source("a", ours, 10.1, 1, 1, 3), source("b", ours, 0, 1, 1, 4)) == Approx(10.1));
  CHECK(apart(source("a", ours, 9.9, 1, 1, 3), source("b", ours, 0, 1, 1, 4)) == 0);
  CHECK(apart(source("a", ours, 10, 1, 1, 3), source("b", ours, 0, 1, 1, 4)) == 0);
  CHECK(apart(source("a", ours, 8.1, 1, 8), source("b", ours, 0, 1, 2)) == Approx(8.1));
  CHECK(apart(source("a", ours, 8, 1, 2), source("b", ours, 0, 1, 8)) == 0);
  // Every pair of different sources is compared.
  CHECK(
      disagreements({source("a", ours, 0), source("b", ours, 10), source("c", ours, 20)}).size() ==
      3);
  CHECK(disagreements({source("a", ours, 50)}).empty());
}
