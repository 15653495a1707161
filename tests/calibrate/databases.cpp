// databases.cpp — readers of Chakra traces and of Nsight Systems exports.
#include <fmt/format.h>
#include <sqlite3.h>
#include <zlib.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "sim/calibrate/readers/reader.h"
#include "sim/calibrate/readers/trace_events.h"
#include "sim/calibrate/trace/measured.h"
#include "sim/input/tables/chakra.h"

using namespace sim;
using namespace sim::calibrate;

namespace {

std::string data(const std::string& name) {
  return std::string(REHEARSE_SOURCE_DIR) + "/tests/calibrate/data/" + name;
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The bytes of an SQLite database that these statements create.
std::string database(const std::string& statements) {
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(":memory:", &db) == SQLITE_OK);
  char* message = nullptr;
  const int state = sqlite3_exec(db, statements.c_str(), nullptr, nullptr, &message);
  INFO((message ? message : ""));
  REQUIRE(state == SQLITE_OK);
  sqlite3_int64 size = 0;
  unsigned char* image = sqlite3_serialize(db, "main", &size, 0);
  const std::string bytes(reinterpret_cast<char*>(image), static_cast<std::size_t>(size));
  sqlite3_free(image);
  sqlite3_close(db);
  return bytes;
}

const std::string tables =
    "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, correlationId INT, shortName INT,"
    " demangledName INT);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, correlationId "
    "INT,"
    " nameId INT);"
    "CREATE TABLE TARGET_INFO_GPU (name TEXT, totalMemory INT);"
    "CREATE TABLE NVTX_EVENTS (start INT, end INT, text TEXT, globalTid INT);"
    "INSERT INTO TARGET_INFO_GPU VALUES ('NVIDIA H100 80GB HBM3', 85000000000);"
    "INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'nvjet_bf16_gemm');";

}  // namespace

TEST_CASE("calibrate: a Chakra trace says its version and its collectives") {
  const auto read = read_source(data("chakra_all_reduce.et"));
  REQUIRE(read);
  CHECK(read->reader->name == "Chakra trace");
  REQUIRE(read->measurements.facts.size() == 2);
  CHECK(read->measurements.facts[0].find("1 collectives") != std::string::npos);
  CHECK(read->measurements.facts[1] == "1 x all-reduce, 1048576 bytes together");
  const auto trace = input::read_chakra(bytes_of(data("chakra_all_gather.et")), "x");
  REQUIRE(trace);
  REQUIRE(trace->nodes.size() == 1);
  CHECK(trace->nodes[0].numbers.at("comm_size") == 1 << 20);
  CHECK(trace->nodes[0].numbers.at("comm_type") == 2);
}

TEST_CASE("calibrate: nodes of a Chakra trace without starts are in the order of their numbers") {
  const auto message = [](const std::string& body) {
    return std::string(1, static_cast<char>(body.size())) + body;
  };
  // Protobuf fields: 1 is the id, 2 the name, 3 the type (computation), 6 the start, 7 the
  // duration.
  const auto node = [&](char number, const std::string& name, char start) {
    return message(std::string("\x08") + number + "\x12" + message(name) + "\x18\x04" +
                   (start > 0 ? std::string("\x30") + start : "") + "\x38\x05");
  };
  const auto read = [&](char first_start) {
    const std::string path = std::string(REHEARSE_BINARY_DIR) + "/chakra_order.et";
    std::ofstream(path) << message("\x0a" + message("0.0.4")) << node(3, "last", first_start)
                        << node(1, "first", 0) << node(2, "then", 0);
    const Result<TraceFile> file = read_trace_file(path);
    REQUIRE(file);
    std::string all;
    for (const TraceEvent& e : file->events) all += fmt::format("{} {}, ", e.name, e.start_us);
    return all;
  };
  CHECK(read(0) == "first 0, then 5, last 10, ");
  CHECK(read(9) == "last 9, first 0, then 0, ");
}

TEST_CASE("calibrate: a Chakra trace as JSON reads like its messages, in both forms") {
  // The converter's two formats. Until 2024-11 it wrote one message after the other with names in
  // camel case. Since then it writes one object with the names of the schema.
  const std::string messages = R"({
  "version": "0.0.4"
}
{
  "id": "1",
  "name": "gemm {\"quoted\"}",
  "type": "COMP_NODE",
  "durationMicros": "120"
}
{
  "id": "2",
  "name": "all-reduce",
  "type": "COMM_COLL_NODE",
  "dataDeps": ["1"],
  "durationMicros": "250",
  "attr": [{"name": "comm_type", "int64Val": "0"}, {"name": "comm_size", "int64Val": "1048576"},
           {"name": "comm_group_size", "int32Val": 8}]
}
)";
  const std::string one = R"({"global_metadata": {"version": "0.0.4"}, "nodes": [
  {"id": 1, "name": "gemm", "type": "COMP_NODE", "duration_micros": 120},
  {"id": 2, "name": "all-reduce", "type": 7, "data_deps": [1], "duration_micros": 250,
   "attr": [{"name": "comm_type", "int64_val": 0}, {"name": "comm_size", "uint64_val": 1048576},
            {"name": "comm_group_size", "int32_val": 8}]}]})";
  for (const std::string& text : {messages, one}) {
    INFO(text);
    REQUIRE(input::is_chakra_json(text));
    const auto trace = input::read_chakra_json(text, "x.json");
    REQUIRE(trace);
    CHECK(trace->version == "0.0.4");
    REQUIRE(trace->nodes.size() == 2);
    CHECK(trace->nodes[0].type == input::ChakraType::compute);
    CHECK(trace->nodes[0].duration_us == 120);
    CHECK(trace->nodes[1].type == input::ChakraType::collective);
    CHECK(trace->nodes[1].dependencies == 1);
    CHECK(trace->nodes[1].numbers.at("comm_size") == 1048576);
    const std::string path = std::string(REHEARSE_BINARY_DIR) + "/chakra.json";
    std::ofstream(path) << text;
    const auto read = read_source(path);
    REQUIRE(read);
    CHECK(read->reader->name == "Chakra trace");
    REQUIRE(read->measurements.collectives.size() == 1);
    CHECK(read->measurements.collectives[0].ranks == 8);
    CHECK(read->measurements.collectives[0].bytes.n == 1048576);
    CHECK(read->measurements.collectives[0].seconds == Approx(250e-6));
    for (std::size_t n = 1; n + 1 < text.size(); ++n)
      if (const auto cut = input::read_chakra_json(text.substr(0, n), "x.json"); !cut)
        CHECK(cut.errors().front().message.find("object") != std::string::npos);
  }
  // PyTorch's own execution trace, linked to a profile.
  const std::string pytorch = R"({"schema": "1.0.3-chakra.0.0.4", "pid": 1, "nodes": [
  {"id": 3, "name": "aten::mm", "ctrl_deps": 1, "attrs": []},
  {"id": 4, "name": "ampere_gemm", "cat": "kernel", "ts": 5, "dur": 33, "attrs": []}]})";
  REQUIRE(input::is_chakra_json(pytorch));
  const auto trace = input::read_chakra_json(pytorch, "x.json");
  REQUIRE(trace);
  REQUIRE(trace->nodes.size() == 2);
  CHECK(trace->nodes[1].type == input::ChakraType::compute);
  CHECK(trace->nodes[1].duration_us == 33);
  for (const char* other : {"", "{}", "[1]", "{\"traceEvents\": []}", "{\"id\": 1}", "{\"a\": {"})
    CHECK_FALSE(input::is_chakra_json(other));
}

TEST_CASE("calibrate: every cut of a Chakra trace is refused or read without its end") {
  const std::string whole = bytes_of(data("chakra_all_reduce.et"));
  REQUIRE(whole.size() > 20);
  for (std::size_t n = 0; n < whole.size(); ++n) {
    const auto cut = input::read_chakra(whole.substr(0, n), "x");
    if (cut) CHECK(cut->nodes.empty());
  }
  CHECK_FALSE(input::read_chakra("\xff\xff\xff\xff\xff\xff\xff\xff", "x"));
  CHECK_FALSE(input::is_chakra(std::string(100, '\0').substr(0, 0)));
}

TEST_CASE("calibrate: an Nsight Systems export gives launches and products by their ranges") {
  // 30 launches, 10 us apart; each kernel takes 200 us. An NVTX range named aten::mm contains the
  // fifth launch.
  std::string rows;
  for (int i = 0; i < 30; ++i) {
    const int at = 1'000'000 + 10'000 * i;
    rows += "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (" + std::to_string(at) + ", " +
            std::to_string(at + 4000) + ", 77, " + std::to_string(i) + ", 1);";
    rows += "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (" +
            std::to_string(2'000'000 + 300'000 * i) + ", " +
            std::to_string(2'200'000 + 300'000 * i) + ", " + std::to_string(i) + ", 2, 2);";
  }
  rows +=
      "INSERT INTO NVTX_EVENTS VALUES (1045000, 1055000, 'aten::mm, seq = 12, sizes = [[512, "
      "1024], "
      "[1024, 4096]]', 77);"
      "INSERT INTO NVTX_EVENTS VALUES (1065000, 1075000, 'aten::mm, sizes = [[512, 1024], [1024, "
      "4096]]', 78);";  // another thread: not around any launch
  const auto read = read_bytes(database(tables + rows), "x.sqlite");
  REQUIRE(read);
  CHECK(read->reader->name == "Nsight Systems");
  const Measurements& m = read->measurements;
  CHECK(m.device.find("NVIDIA H100 80GB HBM3") == 0);
  REQUIRE(m.host.size() == 1);
  CHECK(m.host[0].seconds == Approx(10e-6));
  REQUIRE(m.kernels.size() == 1);
  CHECK(m.kernels[0].operations[0].n == 4096);
  CHECK(m.kernels[0].operations[0].precision == model::Precision::bf16);
  CHECK(m.kernels[0].seconds == Approx(200e-6));
}

TEST_CASE("calibrate: a hostile database is refused") {
  CHECK_FALSE(read_bytes(database("CREATE TABLE t (a INT);"), "x.sqlite"));
  const std::string whole = database(tables);
  for (const std::size_t keep : {16u, 100u, 600u, 5000u})
    CHECK_FALSE(read_bytes(whole.substr(0, keep), "x.sqlite"));
  // A view in place of a table, whose rows would never end.
  CHECK_FALSE(read_bytes(
      database("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
               "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE c(start) AS (SELECT 1 "
               "UNION ALL SELECT start + 1 FROM c) SELECT start, start AS end, 1 AS correlationId, "
               "1 AS shortName FROM c;"),
      "x.sqlite"));
}

TEST_CASE("calibrate: a database that repeats a long text in many rows is refused at once") {
  const std::string rows =
      "INSERT INTO StringIds VALUES (9, printf('%100000s', 'x'));"
      "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 20000) "
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT 10 * i, 10 * i + 5, i, 9, 2 FROM c;";
  const auto read = read_bytes(database(tables + rows), "x.sqlite");
  REQUIRE_FALSE(read);
  CHECK(messages(read.errors()).front().find("a text of 100000 bytes") != std::string::npos);
}

TEST_CASE("calibrate: a memory snapshot says what was held") {
  const auto read = read_source(std::string(REHEARSE_SOURCE_DIR) +
                                "/tests/allocator/data/magma27_cs336_memory_snapshot.pickle");
  REQUIRE(read);
  CHECK(read->reader->name == "memory snapshot");
  REQUIRE(read->measurements.facts.size() == 2);
  CHECK(read->measurements.facts[0].find("events") != std::string::npos);
}

TEST_CASE("calibrate: kernels of a recorded step are the same by way of Chakra") {
  const Result<TraceFile> file =
      read_trace_file(REHEARSE_SOURCE_DIR "/results/captured-steps/8b-dp8-full.trace.json.gz");
  REQUIRE(file);
  std::vector<TraceEvent> events;
  for (const TraceEvent& e : file->events)
    if ((e.kind == EventKind::kernel || e.kind == EventKind::copy) && e.duration_us >= 1)
      events.push_back(e);
  std::ranges::stable_sort(events, {}, &TraceEvent::start_us);
  // The format of the converter: ids in the order of the starts, no start times, whole
  // microseconds.
  nlohmann::json nodes = nlohmann::json::array();
  const auto attribute = [](const char* name, const char* type, const nlohmann::json& value) {
    return nlohmann::json{{"name", name}, {type, value}};
  };
  for (std::size_t i = 0; i < events.size(); ++i) {
    const bool of_cpu = i % 100 == 50;  // an operator between them
    nodes.push_back({{"id", i + 1},
                     {"name", std::string(events[i].name)},
                     {"type", "COMP_NODE"},
                     {"duration_micros", static_cast<std::int64_t>(events[i].duration_us)},
                     {"attr",
                      {attribute("is_cpu_op", "bool_val", of_cpu),
                       attribute("tid", "int64_val", events[i].stream)}}});
  }
  std::reverse(nodes.begin(), nodes.end());  // the numbers say the order
  std::erase_if(events, [n = 0](const TraceEvent&) mutable { return n++ % 100 == 50; });
  const nlohmann::json text = {{"global_metadata", {{"version", "0.0.4"}}}, {"nodes", nodes}};
  const std::string path = std::string(REHEARSE_BINARY_DIR) + "/chakra_step.json";
  std::ofstream(path) << text;
  const Result<TraceFile> read = read_trace_file(path);
  INFO((read ? "" : read.errors()[0].message));
  REQUIRE(read);
  const MeasuredTrace trace = measured_trace(*read, path);
  REQUIRE(trace.kernels.size() == events.size());
  std::int64_t at = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const MeasuredKernel& k = trace.kernels[i];
    REQUIRE(k.name == events[i].name);
    CHECK(k.stream == events[i].stream);
    CHECK(k.duration_ns == static_cast<std::int64_t>(events[i].duration_us) * 1000);
    CHECK(k.start_ns == at);
    at = k.end_ns();
  }
  CHECK(trace.found.find("durations, laid end to end") != std::string::npos);
}

TEST_CASE("calibrate: a file of events is known by what is in it, packed or not") {
  const std::string path = std::string(REHEARSE_BINARY_DIR) + "/known_by_content";
  const auto written = [&](const std::string& bytes, bool packed) {
    if (!packed) {
      std::ofstream(path, std::ios::binary) << bytes;
      return path;
    }
    gzFile file = gzopen(path.c_str(), "wb");
    REQUIRE(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) ==
            static_cast<int>(bytes.size()));
    REQUIRE(gzclose(file) == Z_OK);
    return path;
  };
  const std::string events =
      R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2, "tid": 7, "args": {}})";
  const std::string chakra =
      R"({"global_metadata": {"version": "0.0.4"}, "nodes": [
      {"id": 1, "name": "k", "type": "COMP_NODE", "duration_micros": 2,
       "attr": [{"name": "is_cpu_op", "bool_val": false}]}]})";
  for (const bool packed : {false, true}) {
    for (const std::string& text :
         {"[" + events + "]", " \t\r\n[" + events + "]", "{\"traceEvents\": [" + events + "]}",
          "\n{\"schemaVersion\": 1, \"traceEvents\": [" + events + "]}", chakra}) {
      INFO(packed << " " << text);
      const Result<TraceFile> read = read_trace_file(written(text, packed));
      REQUIRE(read);
      REQUIRE(read->events.size() == 1);
      CHECK(read->events[0].name == "k");
      CHECK(read->events[0].duration_us == 2);
    }
    for (const char* text : {"", " \n", "[1, 2]", "{\"a\": 1}", "\"traceEvents\"", "x"}) {
      INFO(packed << " " << text);
      const Result<TraceFile> read = read_trace_file(written(text, packed));
      REQUIRE_FALSE(read);
      CHECK(read.errors()[0].where == path);
      CHECK(read.errors()[0].message.find(packed ? "what is packed is no trace of PyTorch's"
                                                 : "no trace of a profiler") == 0);
    }
  }
  // A truncated file is an error; its events before the cut are not used.
  std::string many = "[" + events;
  for (int i = 0; i < 20'000; ++i) many += ", " + events;
  written(many + "]", true);
  const std::string whole = bytes_of(path);
  std::ofstream(path, std::ios::binary) << whole.substr(0, whole.size() - 9);
  const Result<TraceFile> cut = read_trace_file(path);
  REQUIRE_FALSE(cut);
  CHECK(cut.errors()[0].message.find("gzip") != std::string::npos);
  std::ofstream(path, std::ios::binary) << whole.substr(0, 20);
  CHECK_FALSE(read_trace_file(path));
  const Result<TraceFile> none = read_trace_file(path + ".not");
  REQUIRE_FALSE(none);
  CHECK(none.errors()[0].message.find("No such file") != std::string::npos);
}

TEST_CASE("calibrate: a collective of a Chakra trace needs its kind, size, duration and ranks") {
  const auto read = [](const std::string& type, const std::string& bytes, const std::string& ranks,
                       const std::string& duration) {
    const auto number = [](const char* name, const std::string& value) {
      return value.empty()
                 ? ""
                 : R"({"name": ")" + std::string(name) + R"(", "int64_val": )" + value + "},";
    };
    std::string attributes =
        number("comm_type", type) + number("comm_size", bytes) + number("comm_group_size", ranks);
    if (!attributes.empty()) attributes.pop_back();
    const auto all = read_bytes(
        R"({"global_metadata": {"version": "0.0.4"}, "nodes": [
        {"id": 1, "name": "c", "type": "COMM_COLL_NODE", "duration_micros": )" +
            duration + R"(, "attr": [)" + attributes + "]}]}",
        "x.json");
    REQUIRE(all);
    const Measurements& m = all->measurements;
    if (!m.collectives.empty()) {
      CHECK(m.passed.empty());
      return std::string("taken");
    }
    REQUIRE(m.passed.size() == 1);
    return m.passed.begin()->first;
  };
  CHECK(read("0", "1024", "8", "250") == "taken");
  CHECK(read("0", "17592186044416", "1048576", "3600000000") == "taken");
  CHECK(read("", "1024", "8", "250") == "operators around a collective, without comm_type");
  const std::string kind = "collectives of another kind or without their size";
  CHECK(read("77", "1024", "8", "250") == kind);
  CHECK(read("0", "", "8", "250") == kind);
  CHECK(read("0", "-1", "8", "250") == kind);
  CHECK(read("0", "17592186044417", "8", "250") == kind);
  const std::string when = "collectives without their duration or their number of ranks";
  CHECK(read("0", "1024", "8", "0") == when);
  CHECK(read("0", "1024", "8", "3600000001") == when);
  CHECK(read("0", "1024", "1", "250") == when);
  CHECK(read("0", "1024", "", "250") == when);
  CHECK(read("0", "1024", "1048577", "250") == when);
}
