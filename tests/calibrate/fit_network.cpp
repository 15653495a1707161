#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>

#include "sim/calibrate/fit/fit.h"
#include "sim/cluster/network/network.h"

using namespace sim;
using namespace sim::calibrate;

namespace {

input::Machine machine() {
  ::setenv("REHEARSE_NETWORK", REHEARSE_BINARY_DIR "/rehearse-network", 0);
  const auto found =
      input::find_cluster(std::string(REHEARSE_SOURCE_DIR) + "/topologies/dgx-a100.textproto");
  REQUIRE(found);
  return *found;
}

// a100-pcie has the ramp of every protocol: its latencies were not measured by protocol.
input::ProfileDraft draft(const char* profile = "a100-80") {
  const auto loaded = input::ProfileDraft::load(std::string(REHEARSE_SOURCE_DIR) + "/calibration/" +
                                                profile + ".textproto");
  REQUIRE(loaded);
  return *loaded;
}

// All-reduces over the 8 GPUs of a node, timed on a machine with this profile.
std::vector<CollectiveSample> node(const input::ProfileDraft& truth) {
  topology::Cluster cluster = machine().cluster;
  cluster.nodes = 1;
  network::Network network(
      cluster, std::make_shared<const network::CommunicationProfile>(truth.communication()));
  std::vector<CollectiveSample> samples;
  for (std::int64_t bytes = 1 << 20; bytes <= std::int64_t{1} << 32; bytes *= 2) {
    CollectiveSample sample;
    sample.source = "lab";
    sample.gpu = "A100-SXM";
    sample.ranks = 8;
    sample.nodes = 1;
    sample.bytes = {bytes};
    const auto answer = network.answer(sample.kind, {{{0, 1, 2, 3, 4, 5, 6, 7}}}, {bytes});
    REQUIRE(answer);
    sample.seconds = seconds(answer->duration);
    samples.push_back(sample);
  }
  return samples;
}

}  // namespace

TEST_CASE("calibrate: a fit finds the links that collectives were measured on") {
  input::ProfileDraft truth = draft();
  truth.set("communication.achieved.nvlink", 0.70);
  Fit out{draft(), {}, {}, {}, {}, {}};
  fit_network(machine(), node(truth), out);
  REQUIRE(out.residuals.size() == 1);
  CHECK(out.residuals[0].base_percent > 7);  // 0.78 / 0.70 on long messages
  CHECK(out.residuals[0].mean_absolute_percent < 2);
  CHECK(out.profile.get("communication.achieved.nvlink") == Approx(0.70).epsilon(0.03));
  CHECK(network::check(out.profile.communication()).empty());
  REQUIRE(out.unseen.size() == 1);
  CHECK(out.unseen[0].percent < 5);
}

TEST_CASE("calibrate: collectives that no machine can do leave a physical profile") {
  auto samples = node(draft());
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i].seconds *= i % 2 == 0 ? 0.05 : 20;
  Fit out{draft(), {}, {}, {}, {}, {}};
  fit_network(machine(), samples, out);
  CHECK(network::check(out.profile.communication()).empty());
}

TEST_CASE("calibrate: a ramp rises as fast as its time allows and no faster, in four digits too") {
  // Short messages are so slow that points at four times their size must change, too.
  const std::vector<CollectiveSample> all = node(draft("a100-pcie"));
  for (const auto& [mib, four_mib] : {std::pair{5.0, 1.0}, {3.0, 1.0}, {8.0, 2.0}, {4.0, 1.5}}) {
    CAPTURE(mib, four_mib);
    std::vector<CollectiveSample> samples;
    for (const char* source : {"lab", "other"})
      for (int times = 0; times < 3; ++times)
        for (const std::size_t size : {0, 2}) {
          samples.push_back(all[size]);
          samples.back().source = source;
          samples.back().seconds *= size == 0 ? mib : four_mib;
        }
    Fit out{draft("a100-pcie"), {}, {}, {}, {}, {}};
    fit_network(machine(), samples, out);
    CHECK(network::check(out.profile.communication()).empty());
    const std::string ramp = "communication.achieved.ring_one_node";
    const double rise =
        out.profile.get(ramp + "[1].fraction") / out.profile.get(ramp + "[0].fraction");
    CHECK(rise <= 1 + std::log(4));
    CHECK(rise == Approx(1 + std::log(4)).epsilon(1e-3));
  }
}

TEST_CASE("calibrate: collectives of another GPU or layout are counted and not fitted") {
  auto samples = node(draft());
  samples.resize(3);
  samples[0].gpu = "H100-SXM 80GB";
  samples[1].ranks = 16;         // on one node of eight
  samples[2].host_timed = true;  // 4 MiB
  Fit out{draft(), {}, {}, {}, {}, {}};
  fit_network(machine(), samples, out);
  CHECK(out.parameters.empty());
  CHECK(out.passed.size() == 3);
}

TEST_CASE(
    "calibrate: a fit to one log is at no size further off than the profile it started from") {
  // Short messages take twice as long as the base profile says, long ones 3 % less. No single ramp
  // fits both, and long messages have priority.
  std::vector<CollectiveSample> samples = node(draft());
  for (CollectiveSample& sample : samples)
    sample.seconds *= sample.bytes.n < 64 << 20 ? 2 : sample.bytes.n < 512 << 20 ? 1.2 : 0.97;
  Fit out{draft(), {}, {}, {}, {}, {}};
  fit_network(machine(), samples, out);
  const auto error = [](const input::ProfileDraft& profile, const CollectiveSample& sample) {
    topology::Cluster cluster = machine().cluster;
    cluster.nodes = 1;
    network::Network network(
        cluster, std::make_shared<const network::CommunicationProfile>(profile.communication()));
    const auto answer = network.answer(sample.kind, {{{0, 1, 2, 3, 4, 5, 6, 7}}}, sample.bytes);
    REQUIRE(answer);
    return std::abs(std::log(seconds(answer->duration) / sample.seconds));
  };
  double before = 0, after = 0;
  for (const CollectiveSample& sample : samples) {
    CAPTURE(sample.bytes.n);
    const double base = error(draft(), sample), fitted = error(out.profile, sample);
    CHECK(fitted <= base + 0.002);
    before += base;
    after += fitted;
  }
  CHECK(after < 0.8 * before);
}
