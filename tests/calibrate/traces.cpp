// traces.cpp — the reader of profiler traces, on recorded files and on corrupt ones.
#include <fmt/format.h>
#include <sys/resource.h>
#include <zlib.h>

#include <catch2/catch.hpp>

#include "sim/calibrate/readers/reader.h"
#include "sim/calibrate/readers/trace_events.h"

using namespace sim;
using namespace sim::calibrate;

namespace {

std::string data(const std::string& name) {
  return std::string(REHEARSE_SOURCE_DIR) + "/tests/calibrate/data/" + name;
}

// A trace with one operator and its single kernel.
std::string trace(const std::string& op, const std::string& op_arguments, const std::string& kernel,
                  const std::string& kernel_arguments, double us = 100, int external = 7) {
  const std::string id = std::to_string(external);
  return R"({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}],
"traceEvents": [
{"ph": "X", "cat": "cpu_op", "name": ")" +
         op + R"(", "pid": 1, "tid": 1, "ts": 5, "dur": 9, "args": {"External id": )" + id + ", " +
         op_arguments +
         R"(}},
{"ph": "X", "cat": "kernel", "name": ")" +
         kernel + R"(", "pid": 0, "tid": 7, "ts": 10, "dur": )" + std::to_string(us) +
         R"(, "args": {"External id": )" + id + R"(, "correlation": 3)" + kernel_arguments + "}}]}";
}

}  // namespace

TEST_CASE("calibrate: a device is named with the memory that it is sold with, or that it has") {
  const auto device = [](const std::string& bytes, const std::string& name = "GPU") {
    const auto read = read_trace_events(
        R"({"schemaVersion": 1, "deviceProperties": [{"name": ")" + name +
            R"(", "totalGlobalMem": )" + bytes +
            R"(}], "traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1}]})",
        "t");
    REQUIRE(read);
    return measurements_of(*read, "t").device;
  };
  // The memory that GPUs of 40 and 80 GB report: both bounds of the interval, and one step past
  // them.
  CHECK(device("40000000000") == "GPU 40GB");
  CHECK(device("40600000000") == "GPU 40GB");
  CHECK(device("42900000000") == "GPU 40GB");
  CHECK(device("43000000000") == "GPU 43GB");
  CHECK(device("43500000001") == "GPU 44GB");
  CHECK(device("79000000000") == "GPU 79GB");
  CHECK(device("79100000000") == "GPU 80GB");
  CHECK(device("85900000000") == "GPU 80GB");
  CHECK(device("86000000000") == "GPU 86GB");
  CHECK(device("86100000000") == "GPU 86GB");
  CHECK(device("42900000000", "GPU 48GB") == "GPU 48GB");
  // Sizes that no GPU has are not printed.
  CHECK(device("1000000000") == "GPU");
  CHECK(device("1900000000") == "GPU 2GB");
  CHECK(device("9999000000000") == "GPU 9999GB");
  CHECK(device("10000000000000") == "GPU");
}

TEST_CASE("calibrate: a recorded trace of training gives its products and its date") {
  const auto read = read_source(data("mi250_minitoy.json.gz"));
  REQUIRE(read);
  CHECK(read->reader->name == "profiler trace");
  const Measurements& m = read->measurements;
  CHECK(m.device.find("AMD Radeon Graphics") == 0);
  // Two addmm and one mm, which is dW = X^T dY: [128, 5] x [5, 128]. The kernel of the mm is
  // missing.
  REQUIRE(m.kernels.size() >= 2);
  for (const KernelSample& sample : m.kernels) {
    CHECK(sample.operations[0].kind == model::OperationKind::gemm);
    CHECK(sample.operations[0].precision == model::Precision::tf32);
    CHECK(sample.seconds > 1e-6);
    CHECK(sample.seconds < 1e-3);
  }
  CHECK(m.date.rfind("20", 0) == 0);
}

TEST_CASE("calibrate: a recorded trace without shapes gives launches and says what is missing") {
  const auto read = read_source(data("alexnet.json.gz"));
  REQUIRE(read);
  const Measurements& m = read->measurements;
  CHECK(m.device == "NVIDIA A100-PG509-200 40GB");
  CHECK(m.date == "2023-09-27");
  CHECK(m.kernels.empty());
  REQUIRE(m.host.size() == 1);
  CHECK(m.host[0].path == "host.kernel");
  CHECK(m.host[0].seconds > 5e-6);
  CHECK(m.host[0].seconds < 100e-6);
  const auto streams = read_source(data("event_sync.json.gz"));
  REQUIRE(streams);
  CHECK(streams->measurements.passed.size() == 1);
}

TEST_CASE("calibrate: an operator's id may be any number from 0 on") {
  const auto products = [](int external) {
    const auto read = read_bytes(trace("aten::mm", R"("Input Dims": [[512, 1024], [1024, 4096]],
               "Input type": ["c10::BFloat16", "c10::BFloat16"])",
                                       "ampere_bf16_s16816gemm", "", 100, external),
                                 "t.json");
    REQUIRE(read);
    return read->measurements.kernels.size();
  };
  CHECK(products(0) == 1);
  CHECK(products(1) == 1);
  CHECK(products(-1) == 0);  // the profiler's: none
}

TEST_CASE("calibrate: products and attention take their shapes from the operator") {
  // addmm(bias, [512, 1024], [1024, 4096]): m 512, k 1024, n 4096, 100 us.
  auto read = read_bytes(trace("aten::addmm",
                               R"("Input Dims": [[4096], [512, 1024], [1024, 4096], [], []],
               "Input type": ["c10::BFloat16", "c10::BFloat16", "c10::BFloat16"])",
                               "ampere_bf16_s16816gemm", ""),
                         "t.json");
  REQUIRE(read);
  REQUIRE(read->measurements.kernels.size() == 1);
  const model::Operation& product = read->measurements.kernels[0].operations[0];
  CHECK(product.m == 512);
  CHECK(product.n == 4096);
  CHECK(product.k == 1024);
  CHECK(product.precision == model::Precision::bf16);
  CHECK(read->measurements.kernels[0].seconds == Approx(100e-6));
  CHECK(read->measurements.device == "NVIDIA A100-SXM4-80GB");
  read = read_bytes(
      trace("aten::_scaled_dot_product_flash_attention",
            R"("Input Dims": [[2, 32, 4096, 128], [2, 8, 4096, 128], [2, 8, 4096, 128], [], []],
               "Concrete Inputs": ["", "", "", "0.", "True"],
               "Input type": ["c10::Half", "c10::Half", "c10::Half", "Scalar", "Scalar"])",
            "flash_fwd_kernel", ""),
      "t.json");
  REQUIRE(read);
  REQUIRE(read->measurements.kernels.size() == 1);
  const model::Operation& attention = read->measurements.kernels[0].operations[0];
  CHECK(attention.heads == 32);
  CHECK(attention.kv_heads == 8);
  CHECK(attention.query == 4096);
  CHECK(attention.causal);
  // The arguments of the backward pass: the gradient of the output precedes query, key and value.
  read =
      read_bytes(trace("aten::_scaled_dot_product_flash_attention_backward",
                       R"("Input Dims": [[2, 16, 1024, 64], [2, 32, 4096, 128], [2, 8, 2048, 128],
               [2, 8, 2048, 128], [], []],
               "Concrete Inputs": ["", "", "", "", "0.", "False"],
               "Input type": ["c10::Half", "c10::Half", "c10::Half", "c10::Half", "", ""])",
                       "flash_bwd_kernel", ""),
                 "t.json");
  REQUIRE(read);
  REQUIRE(read->measurements.kernels.size() == 1);
  const model::Operation& back = read->measurements.kernels[0].operations[0];
  CHECK(back.heads == 32);
  CHECK(back.kv_heads == 8);
  CHECK(back.query == 4096);
  CHECK_FALSE(back.causal);
}

TEST_CASE("calibrate: of equal collectives the shortest is the transfer") {
  const std::string event =
      R"({"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllGather_RING_LL", "ts": 1, "dur": %,
"args": {"External id": 1, "Collective name": "_allgather_base", "In msg nelems": 1048576,
"Out msg nelems": 8388608, "Group size": 8, "dtype": "BFloat16"}})";
  std::string text = "[";
  for (const char* us : {"250", "190.5", "4000"}) {
    std::string one = event;
    text += (text.size() > 1 ? "," : "") + one.replace(one.find('%'), 1, us);
  }
  const auto read = read_bytes(text + "]", "t.json");
  REQUIRE(read);
  REQUIRE(read->measurements.collectives.size() == 1);
  const CollectiveSample& sample = read->measurements.collectives[0];
  CHECK(sample.kind == collective::Kind::all_gather);
  CHECK(sample.bytes.n == 16777216);  // the gathered array: 8388608 elements of 2 bytes
  CHECK(sample.ranks == 8);
  CHECK(sample.seconds == Approx(190.5e-6));
}

TEST_CASE("calibrate: collectives without a floor wait for other ranks and are left out") {
  CHECK(waits_for_peers({1, 1, 1, 1}));  // too few to tell
  CHECK_FALSE(waits_for_peers({1, 1.05, 1, 1, 9}));
  CHECK_FALSE(waits_for_peers({3, 1.1, 1, 9, 5}));  // the lower quartile is at the bound
  CHECK(waits_for_peers({3, 1.11, 1, 9, 5}));
}

TEST_CASE("calibrate: what profilers write besides JSON is read") {
  // NaN, Infinity, a control character in a name and a byte that is no UTF-8.
  const auto file = read_trace_events(
      "{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"a\x01\xff"
      "b\", \"ts\": 1,"
      " \"dur\": 2, \"args\": {\"est. achieved occupancy %\": NaN, \"x\": -Infinity,"
      " \"Input Dims\": [1, 2, {\"y\": [3]}]}}], \"after\": {\"deep\": [1]}}",
      "t.json");
  REQUIRE(file);
  REQUIRE(file->events.size() == 1);
  CHECK(file->events[0].name == "a ?b");
  CHECK(file->argument(file->events[0], Argument::input_dims) == "[1,2,{\"y\":[3]}]");
  CHECK(file->top.at("after") == "{\"deep\":[1]}");
}

TEST_CASE("calibrate: events are those of traceEvents and of no other list, in both forms") {
  const std::string event =
      R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2, "args": {"stream": 7,
"Input Dims": [[1, 2], {"deep": {"ph": "Y"}}], "no": {"stream": 9}}, "after": {"ts": 5}})";
  const auto names = [](const TraceFile& file) {
    std::string all;
    for (const TraceEvent& one : file.events)
      all += fmt::format("{} {} {} {}, ", one.name, one.start_us, one.duration_us, one.stream);
    return all;
  };
  const auto list = read_trace_events("[" + event + ", " + event + "]", "t.json");
  REQUIRE(list);
  CHECK(names(*list) == "k 1 2 7, k 1 2 7, ");
  const auto file = read_trace_events("{\"before\": [" + event + "], \"traceEvents\": [" + event +
                                          ", " + event + ", " + event + "], \"after\": [" + event +
                                          "], \"inside\": {\"traceEvents\": [" + event +
                                          "]}, \"traceEvents\": [" + event + "], \"version\": 3}",
                                      "t.json");
  REQUIRE(file);
  CHECK(names(*file) == "k 1 2 7, k 1 2 7, k 1 2 7, k 1 2 7, ");
  CHECK(file->argument(file->events[2], Argument::input_dims) == R"([[1,2],{"deep":{"ph":"Y"}}])");
  CHECK(file->top.at("version") == "3");
  CHECK(file->top.contains("before"));
  CHECK(file->top.contains("after"));
  CHECK(file->top.contains("inside"));
  CHECK_FALSE(file->top.contains("traceEvents"));
}

TEST_CASE("calibrate: broken traces are refused and never followed") {
  CHECK_FALSE(read_trace_events("{\"traceEvents\": [{\"ph\": \"X\"", "t.json"));
  CHECK_FALSE(read_trace_events("{\"traceEvents\": " + std::string(100000, '['), "t.json"));
  CHECK_FALSE(read_trace_events("", "t.json"));
  // Invalid sizes of tensors are left out.
  for (const char* dims : {"[[-1, 5], [5, 3]]", "[[1e300, 5], [5, 3]]", "[[4, 5], [6, 3]]", "[]",
                           "7", "[[268435456, 268435456], [268435456, 268435456]]"}) {
    const auto read = read_bytes(
        trace("aten::mm", std::string("\"Input Dims\": ") + dims + R"(, "Input type": ["float"])",
              "gemm", ""),
        "t.json");
    REQUIRE(read);
    CHECK(read->measurements.kernels.empty());
  }
}

TEST_CASE("calibrate: a packed trace is read without being unpacked whole") {
  // 64 MiB of Python frames, which are skipped, and one kernel. Reading takes a few hundred KiB of
  // memory.
  const std::string frame =
      R"({"ph": "X", "cat": "python_function", "name": "torch/nn/modules/module.py(1501): _call",)"
      R"( "pid": 1, "tid": 1, "ts": 5, "dur": 9, "args": {"Python id": 7, "External id": 7}},)";
  const std::string kernel = R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2}]})";
  z_stream packer{};
  REQUIRE(deflateInit2(&packer, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(std::size_t{4} << 20, '\0');
  packer.next_out = reinterpret_cast<Bytef*>(packed.data());
  packer.avail_out = static_cast<uInt>(packed.size());
  const auto add = [&](std::string text, int flush) {
    packer.next_in = reinterpret_cast<Bytef*>(text.data());
    packer.avail_in = static_cast<uInt>(text.size());
    return deflate(&packer, flush);
  };
  add(R"({"traceEvents": [)", Z_NO_FLUSH);
  for (std::size_t made = 0; made < std::size_t{64} << 20; made += frame.size())
    REQUIRE(add(frame, Z_NO_FLUSH) == Z_OK);
  REQUIRE(add(kernel, Z_FINISH) == Z_STREAM_END);
  packed.resize(packed.size() - packer.avail_out);
  deflateEnd(&packer);

  const auto most = [] {
    rusage use{};
    getrusage(RUSAGE_SELF, &use);
    return use.ru_maxrss;  // KiB
  };
  const auto before = most();
  PackedBytes bytes(packed);
  const auto file = read_trace_events(bytes, "t.json.gz");
  REQUIRE(file);
  CHECK(bytes.problem().empty());
  CHECK(file->events.size() == 1);
  CHECK(most() - before < 8 << 10);
}

TEST_CASE("calibrate: literals of a trace are whole where two pieces of it meet") {
  struct Pieces final : ByteSource {
    std::string_view rest;
    std::size_t size;
    Pieces(std::string_view all, std::size_t of) : rest(all), size(of) {}
    std::string_view next() override {
      const std::string_view piece = rest.substr(0, size);
      rest.remove_prefix(piece.size());
      return piece;
    }
  };
  const std::string text =
      R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k\"NaN", "ts": -Infinity,)"
      R"( "dur": NaN, "args": {"stream": Infinity, "correlation": 5}}]})";
  for (std::size_t size = 1; size < 12; ++size) {
    Pieces pieces(text, size);
    const auto file = read_trace_events(pieces, "t.json");
    REQUIRE(file);
    REQUIRE(file->events.size() == 1);
    CHECK(file->events[0].name == "k\"NaN");
    CHECK(file->events[0].correlation == 5);
    CHECK(file->events[0].duration_us == 0);
  }
}
