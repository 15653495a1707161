#include <google/protobuf/util/json_util.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sample.h"
#include "sim/input/schema/result.pb.h"
#include "sim/output/document.h"
#include "sim/output/record.h"

namespace {

rehearse::v1::Result parsed(const sim::output::Json& record) {
  rehearse::v1::Result result;
  const auto status = google::protobuf::util::JsonStringToMessage(record.dump(), &result);
  INFO(std::string(status.message()));
  CHECK(status.ok());  // a field that the schema does not have is an error
  return result;
}

}  // namespace

TEST_CASE("output: records are the schema's results") {
  const sim::output::PointName name = {"0123", "f/gpus8-tp2", "f", "tp=2"};
  const rehearse::v1::Result fits = parsed(sim::output::record(name, sample::fits()));
  CHECK(fits.outcome() == "fits");
  CHECK(fits.step_time_s() == 10.0);
  CHECK(fits.tp() == 2);
  const rehearse::v1::Result oom = parsed(sim::output::record(name, sample::out_of_memory()));
  CHECK(oom.outcome() == "oom");
  CHECK_FALSE(oom.has_step_time_s());
  CHECK(oom.out_of_memory().stage() == 1);
  const auto impossible =
      parsed(sim::output::record(name, "impossible", "tp 3", sample::fits().plan, "toy-cluster"));
  CHECK(impossible.reason() == "tp 3");
}

TEST_CASE("output: every column is a field of the schema and every field a column") {
  const auto* descriptor = rehearse::v1::Result::descriptor();
  for (const sim::output::Column& row : sim::output::record_columns()) {
    const std::string& column = row.key;
    CAPTURE(column);
    CHECK(descriptor->FindFieldByName(column) != nullptr);
  }
  // Four more fields: the hash, the settings, the block of an out-of-memory event, the upper bound
  // of a bounded peak.
  CHECK(descriptor->field_count() == static_cast<int>(sim::output::record_columns().size()) + 4);
}
