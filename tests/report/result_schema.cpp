#include <google/protobuf/util/json_util.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sample.h"
#include "sim/config/result.pb.h"
#include "sim/report/document.h"
#include "sim/report/record.h"

namespace {

rehearse::v1::Result parsed(const sim::report::Json& record) {
  rehearse::v1::Result result;
  const auto status = google::protobuf::util::JsonStringToMessage(record.dump(), &result);
  INFO(std::string(status.message()));
  CHECK(status.ok());  // a field that the schema does not have is an error
  return result;
}

}  // namespace

TEST_CASE("report: records are the schema's results") {
  const sim::report::PointName name = {"0123", "f/gpus8-tp2", "f"};
  const rehearse::v1::Result fits = parsed(sim::report::record(name, sample::fits()));
  CHECK(fits.outcome() == "fits");
  CHECK(fits.step_time_s() == 10.0);
  CHECK(fits.tp() == 2);
  const rehearse::v1::Result oom = parsed(sim::report::record(name, sample::out_of_memory()));
  CHECK(oom.outcome() == "oom");
  CHECK_FALSE(oom.has_step_time_s());
  CHECK(oom.out_of_memory().stage() == 1);
  const auto impossible =
      parsed(sim::report::record(name, "impossible", "tp 3", sample::fits().plan, "toy-cluster"));
  CHECK(impossible.reason() == "tp 3");
}

TEST_CASE("report: every column is a field of the schema and every field a column") {
  const auto* descriptor = rehearse::v1::Result::descriptor();
  for (const sim::report::Column& row : sim::report::record_columns()) {
    const std::string& column = row.key;
    CAPTURE(column);
    CHECK(descriptor->FindFieldByName(column) != nullptr);
  }
  // Besides: the hash, the block of an out-of-memory event, the upper end of a bounded peak.
  CHECK(descriptor->field_count() == static_cast<int>(sim::report::record_columns().size()) + 3);
}
