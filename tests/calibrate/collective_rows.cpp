// collective_rows.cpp — rows of measured collectives in terms of the simulator, and their errors by
// size class, with sources weighted equally.
#include <catch2/catch.hpp>

#include "sim/calibrate/tables/collective_row.h"
#include "sim/calibrate/tables/timings.h"

using namespace sim;
using namespace sim::calibrate;

namespace {

input::TableRow row(std::map<std::string, std::string> changes) {
  input::TableRow out;
  const std::map<std::string, std::string> usual = {{"source", "owner/repo@abc:file"},
                                                    {"collective", "all_reduce"},
                                                    {"gpu", "H100-SXM 80GB"},
                                                    {"n_gpus", "16"},
                                                    {"nodes", "2"},
                                                    {"intra_net", "NVLink4/NVSwitch"},
                                                    {"inter_net", "IB NDR 8x400Gb/s per node"},
                                                    {"nccl_version", "2.26.2"},
                                                    {"algo", "auto"},
                                                    {"bytes", "1073741824"},
                                                    {"time_us_oop", "5000"},
                                                    {"busbw_oop", ""},
                                                    {"notes", ""}};
  for (const auto& [column, text] : usual) out.cells[column] = text;
  for (const auto& [column, text] : changes) out.cells[column] = text;
  return out;
}

CollectiveRow read(std::map<std::string, std::string> changes) {
  return collective_row(row(std::move(changes)));
}

}  // namespace

TEST_CASE("calibrate: a row of a collective says what ran and where") {
  const CollectiveRow usual = read({});
  CHECK(usual.reason.empty());
  CHECK(usual.kind == collective::Kind::all_reduce);
  CHECK(usual.gpus == 16);
  CHECK(usual.nodes == 2);
  CHECK(usual.bytes == 1073741824);
  CHECK(usual.source == "owner/repo");
  CHECK(usual.nics == 8);
  CHECK(usual.nic == Bandwidth{50'000'000'000});
  CHECK(usual.measured_us == 5000);
  CHECK_FALSE(usual.host_timed);
  CHECK(read({{"inter_net", "EFA v4 8x50GB/s per node"}}).nic == Bandwidth{50'000'000'000});
  CHECK(read({{"source", "issue archive (id 7)"}}).source == "issue archive");
  // Larger than 32 bits hold, and less than 1 MB.
  CHECK(read({{"bytes", "17179869184"}}).bytes == 17179869184);
  CHECK(read({{"bytes", "8"}}).reason.empty());
  // The time of a bus bandwidth: 2 x 15/16 x bytes / rate.
  CHECK(read({{"time_us_oop", ""}, {"busbw_oop", "300"}}).measured_us ==
        Approx(1.875 * 1073741824 / 300e3));
}

TEST_CASE("calibrate: names of send and receive are read") {
  using collective::Kind;
  CHECK(read({{"collective", "sendrecv (p2p)"}}).kind == Kind::ring_exchange);
  CHECK(read({{"collective", "p2p sendrecv"}}).kind == Kind::ring_exchange);
  CHECK(read({{"collective", "p2p_unidirectional"}}).kind == Kind::send_receive);
  CHECK(read({{"collective", "all2all"}}).kind == Kind::all_to_all);
  CHECK(read({{"collective", "gather"}}).reason == "collective 'gather' is not compared");
}

TEST_CASE("calibrate: settings of NCCL are read, and one that is not modelled is named") {
  CHECK(read({{"algo", "Ring (NVLS disabled)"}}).forced == "Ring");
  CHECK(read({{"algo", "Ring (NVLS disabled)"}}).without_nvls);
  CHECK(read({{"algo", "NVLS"}}).forced == "NVLS");
  CHECK(read({{"algo", "auto (torch.distributed, host-timed)"}}).host_timed);
  CHECK(read({{"algo", ""}}).reason.empty());
  CHECK(read({{"algo", "auto; NCCL_MIN_CTAS=24"}}).reason ==
        "a setting of NCCL that is not modelled: NCCL_MIN_CTAS=24");
  CHECK(read({{"algo", "Mystery"}}).reason == "algorithm 'Mystery' is not known");
}

TEST_CASE("calibrate: a row without a shape, a size or a time says so") {
  CHECK(read({{"bytes", ""}}).reason == "no size is stated");
  CHECK(read({{"bytes", "1e300"}}).reason == "no size is stated");
  CHECK(read({{"n_gpus", "15"}}).reason == "no number of GPUs and nodes is stated");
  CHECK(read({{"time_us_oop", ""}}).reason == "no time is published");
}

TEST_CASE("calibrate: in a size class every source counts the same") {
  std::vector<Timing> timings;
  const auto add = [&](const char* source, double error, std::int64_t bytes, bool host) {
    Timing& t = timings.emplace_back();
    t.line = static_cast<int>(timings.size());
    t.group = "X, all-reduce x8 on 1";
    t.source = source;
    t.bytes = bytes;
    t.nodes = 1;
    t.host_timed = host;
    t.measured_us = 100;
    t.predicted_us = 100 + error;
  };
  for (int i = 0; i < 99; ++i) add("many", 2, 1 << 30, false);
  add("one", 10, 1 << 30, false);
  add("one", 90, 1 << 30, true);  // timed by a CPU thread: a table of its own
  add("one", -20, 1 << 24, false);
  add("one", -30, (1 << 20) - 1, false);
  const std::vector<output::Rows> tables = collective_errors(timings);
  REQUIRE(tables.size() == 3);
  REQUIRE(tables[0].cells.size() == 3);
  CHECK(tables[0].cells[0][1] == "above 16 MiB");
  CHECK(tables[0].cells[0][2] == 2);
  CHECK(tables[0].cells[0][3] == 100);
  CHECK(tables[0].cells[0][4].get<double>() == Approx((2 + 10) / 2.0));
  CHECK(tables[0].cells[1][1] == "1 to 16 MiB");
  CHECK(tables[0].cells[1][4].get<double>() == Approx(20));
  CHECK(tables[0].cells[2][1] == "below 1 MiB");
  CHECK(tables[1].cells.size() == 4);
  CHECK(tables[2].cells.size() == 1);
}
