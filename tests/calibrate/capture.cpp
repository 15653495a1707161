// capture.cpp — the reader of a node that the script of `rehearse capture` measured.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "sim/calibrate/fit/calibrate.h"
#include "sim/input/text/locate.h"

using namespace sim;
using namespace sim::calibrate;

namespace {

const std::string node = R"({"format": "rehearse capture 1", "device": "A100-SXM4-80GB",
"date": "2026-01-02", "torch": "2.8.0",
"products": [{"dtype": "bf16", "us": 250.5, "m": 4096, "n": 4096, "k": 4096, "role": "forward"},
             {"dtype": "int4", "us": 1, "m": 1, "n": 1, "k": 1, "role": "forward"}],
"grouped": [{"dtype": "bf16", "us": 90, "batch": 8, "m": 512, "n": 1024, "k": 2048,
             "role": "weight_gradient"}],
"sustained": [{"dtype": "bf16", "us": 300, "burst_us": 250.5, "clock_mhz": 1215, "power_w": 398.6,
               "m": 4096, "n": 4096, "k": 4096, "role": "forward"}],
"attention": [{"impl": "flash-attention-2", "direction": "backward", "us": 700, "batch": 1,
               "heads": 32, "kv_heads": 8, "head_dim": 128, "query": 4096, "key": 4096,
               "causal": true}],
"passes": [{"kernel": "norm", "bytes": 134217728, "us": 100},
           {"kernel": "tea", "bytes": 1, "us": 1}],
"copies": [{"direction": "to GPU", "pinned": true, "bytes": 1073741824, "us": 42949.67}],
"collectives": [{"kind": "all_gather", "bytes": 1048576, "ranks": 8, "nodes": 1, "us": 30},
                {"kind": "all_gather", "bytes": 1048576, "ranks": 1, "nodes": 1, "us": 30}],
"fields": [{"path": "host.event", "value": 2e-6}, {"path": "memory.context", "value": "no"}],
"layer": {"peak_allocated": 1048576, "peak_reserved": 2097152, "events": []},
"skipped": [{"what": "grouped products", "why": "this PyTorch has no torch._grouped_mm"}]})";

}  // namespace

TEST_CASE("calibrate: a capture gives kernels, collectives, fields and facts") {
  const auto read = read_bytes(node, "measured.json");
  REQUIRE(read);
  CHECK(read->reader->name == "capture");
  const Measurements& m = read->measurements;
  CHECK(m.device == "A100-SXM4-80GB");
  CHECK(m.date == "2026-01-02");
  REQUIRE(m.kernels.size() == 5);
  CHECK(m.kernels[0].group == "gemm forward");
  CHECK(m.kernels[0].seconds == Approx(250.5e-6));
  CHECK_FALSE(m.kernels[0].in_run);
  CHECK(m.kernels[1].group == "gemm weight gradient");
  CHECK(m.kernels[1].operations[0].batch == 8);
  CHECK(m.kernels[2].in_run);  // at the rate of long work
  CHECK(m.kernels[3].implementation == "flash-attention-2");
  CHECK(m.kernels[3].operations[0].kind == model::OperationKind::attention_backward);
  CHECK(m.kernels[3].operations[0].causal);
  CHECK(m.kernels[4].operations[0].bytes.n == 134217728);
  REQUIRE(m.collectives.size() == 1);
  CHECK(m.collectives[0].kind == collective::Kind::all_gather);
  CHECK(m.collectives[0].ranks == 8);
  CHECK_FALSE(m.collectives[0].waits);
  REQUIRE(m.fields.size() == 1);
  CHECK(m.fields[0].path == "host.event");
  REQUIRE(m.facts.size() == 3);
  CHECK(m.facts[0] ==
        "4096 x 4096 x 4096 for seconds: 0.835 of the rate of a short run, 1215 MHz, 399 W");
  CHECK(m.facts[1] == "copies to GPU, pinned: 25.0 GB/s");
  CHECK(m.facts[2] == "one layer: peak allocated 1.0 MiB, reserved 2.0 MiB");
  CHECK(m.passed.size() == 5);
}

TEST_CASE("calibrate: a damaged capture, or one of another version, is refused") {
  CHECK_FALSE(read_bytes(node.substr(0, node.size() / 2), "half.json"));
  std::string other = node;
  other.replace(other.find("capture 1"), 9, "capture 7");
  const auto read = read_bytes(other, "other.json");
  REQUIRE_FALSE(read);
  CHECK(read.errors().front().message.find("rehearse capture 7") != std::string::npos);
}

TEST_CASE("calibrate: fields that a capture measured by themselves are taken over") {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  ::setenv("REHEARSE_NETWORK", REHEARSE_BINARY_DIR "/rehearse-network", 0);
  const auto machine =
      input::find_cluster(std::string(REHEARSE_SOURCE_DIR) + "/topologies/dgx-a100.textproto");
  REQUIRE(machine);
  SourceFile source{"measured.json", "capture", {}};
  source.measurements.fields = {{"host.event", "measured.json", 2e-6},
                                {"host.release", "measured.json", 5},  // seconds: another unit
                                {"host.tea", "measured.json", 1e-6}};
  CalibrateOptions wanted;
  wanted.base = std::string(REHEARSE_SOURCE_DIR) + "/calibration/a100-80.textproto";
  wanted.name = "mine";
  const auto done = calibrate::calibrate({source}, *machine, wanted);
  REQUIRE(done);
  CHECK(done->fit.profile.get("host.event") == 2e-6);
  CHECK(fitted(*done) == 1);
  CHECK(done->fit.passed.at("fields that the profile does not have, or far from its value") == 2);
  CHECK(doubts(*done).empty());
}
