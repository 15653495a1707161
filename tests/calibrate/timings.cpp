#include "sim/calibrate/tables/timings.h"

#include <catch2/catch.hpp>

#include "sim/calibrate/tables/timing_kernels.h"
#include "sim/program/layers/attention/attention.h"

using namespace sim;
using namespace sim::calibrate;

namespace {

input::Table table(std::vector<std::string> columns, std::vector<std::vector<std::string>> rows) {
  input::Table out;
  out.columns = columns;
  int line = 2;
  for (const std::vector<std::string>& cells : rows) {
    input::TableRow& row = out.rows.emplace_back();
    row.line = line++;
    for (std::size_t i = 0; i < columns.size(); ++i) row.cells[columns[i]] = cells[i];
  }
  return out;
}

const std::vector<std::string> product_columns = {
    "where",  "kernel", "gpu",        "dtype", "b",      "m",         "n",      "k",
    "layout", "tflops", "accumulate", "impl",  "causal", "direction", "time_us"};

}  // namespace

TEST_CASE("calibrate: a table says by its columns what was timed") {
  CHECK(timing_table(table({"kernel", "tflops"}, {})) == TimingTable::products);
  CHECK(timing_table(table({"op", "fwd_us", "bwd_us"}, {})) == TimingTable::operations);
  CHECK(timing_table(table({"collective", "bytes"}, {})) == TimingTable::collectives);
  CHECK(timing_table(table({"row_id", "gpu", "tp", "pp"}, {})) == TimingTable::none);
}

TEST_CASE("calibrate: a product is timed on its GPU and what cannot be says why") {
  const auto row = [](const char* gpu, const char* m, const char* time) {
    return std::vector<std::string>{"",   "matmul", gpu,     "bf16", "1", m,  "4096", "4096",
                                    "TN", "",       "False", "",     "",  "", time};
  };
  answer::Sites sites;
  // 2 x 4096^3 FLOPs at the A100's peak of 312 TFLOP/s take 440.5 us, a lower bound of each
  // prediction.
  const std::vector<Timing> all = timings(
      table(product_columns, {row("A100-PCIe 80GB", "4096", "560"), row("TPU v4", "4096", "500"),
                              row("A100-PCIe 80GB", "", "500"), row("A100-PCIe 80GB", "4096", ""),
                              row("A100-PCIe 80GB", "8192", "1100")}),
      sites);
  REQUIRE(all.size() == 5);
  CHECK(all[0].reason.empty());
  CHECK(all[0].predicted_us > 440.5);
  CHECK(all[0].predicted_us < 700);
  CHECK(all[0].line == 2);
  CHECK(all[1].reason == "GPU 'TPU v4' has no profile");
  CHECK(all[2].reason == "no shape");
  CHECK(all[3].reason == "no time is published");
  // Rows with a prediction go to the two halves of the validation in turn; rows without one are
  // skipped.
  CHECK(all[0].fitted);
  CHECK_FALSE(all[4].fitted);
  const std::string csv = timings_csv(all);
  CHECK(csv.find("2,predicted,,\"A100-PCIe 80GB, matmul TN\",fit,560.000,") != std::string::npos);
  CHECK(csv.find("3,unsupported,") != std::string::npos);
}

TEST_CASE("calibrate: an operation of a layer has two times and its collectives are not compared") {
  const std::vector<std::string> columns = {"gpu",  "precision", "hidden", "heads",
                                            "seq",  "vocab",     "mbs",    "tp",
                                            "algo", "op",        "fwd_us", "bwd_us"};
  answer::Sites sites;
  const std::vector<Timing> all =
      timings(table(columns, {{"A100-SXM-40GB (GCP a2)", "fp16", "7168", "56", "2048", "50272", "8",
                               "4", "0", "enc-MLP-GEMM-1", "6520", "7868"},
                              {"A100-SXM-40GB (GCP a2)", "fp16", "7168", "56", "2048", "50272", "8",
                               "4", "0", "encoder-embedding", "6092", "5055"}}),
              sites);
  REQUIRE(all.size() == 4);
  // 2 x 16384 x 7168 x 7168 FLOPs at 312 TFLOP/s take at least 5396 us.
  CHECK(all[0].predicted_us > 5396);
  CHECK(all[0].predicted_us < 8000);
  CHECK(all[1].reason == "contains a collective, whose ranks start apart");
  CHECK(all[2].reason == "the kernels of 'encoder-embedding' are not known");
}

TEST_CASE("calibrate: attention in memory multiplies, masks and reads its scores again and again") {
  using model::OperationKind;
  constexpr std::int64_t batch = 2, heads = 3, head_dim = 64, query = 512;
  const auto operations = [&](std::int64_t key, bool masked, bool backward) {
    return attention_in_memory(batch, heads, head_dim, query, key, masked, backward);
  };
  // How often scores of 2 bytes are read or written outside of the products.
  const auto passes = [&](std::int64_t key, bool masked, bool backward) {
    std::int64_t bytes = 0;
    for (const model::Operation& o : operations(key, masked, backward))
      if (o.kind != OperationKind::gemm) bytes += o.bytes.n;
    const std::int64_t scores = 2 * batch * heads * query * key;
    CHECK(bytes % scores == 0);
    return bytes / scores;
  };
  // Softmax reads and writes the scores once. Rows longer than 1024 are read twice more. Masking
  // reads and writes them too.
  CHECK(passes(1024, false, false) == 2);
  CHECK(passes(1025, false, false) == 4);
  CHECK(passes(1024, true, false) == 4);
  CHECK(passes(1025, true, false) == 6);
  // The backward pass reads probabilities and their gradients and writes the gradients of the
  // scores.
  for (const bool masked : {false, true}) {
    CHECK(passes(1024, masked, true) == 3);
    CHECK(passes(1025, masked, true) == 5);
  }
  // Two products in the forward pass and four in the backward pass, each of every query with every
  // key.
  for (const bool backward : {false, true}) {
    int products = 0;
    for (const model::Operation& o : operations(1024, true, backward)) {
      if (o.kind != OperationKind::gemm) continue;
      ++products;
      CHECK(o.batch == batch * heads);
      CHECK(o.flops == Approx(2.0 * batch * heads * query * 1024 * head_dim));
    }
    CHECK(products == (backward ? 4 : 2));
  }
}

TEST_CASE("calibrate: a softmax that no fused kernel takes reads and writes its scores in fp32") {
  const std::vector<std::string> columns = {"gpu",  "precision", "hidden", "heads",
                                            "seq",  "vocab",     "mbs",    "tp",
                                            "algo", "op",        "fwd_us", "bwd_us"};
  const auto row = [](const char* heads) {
    return std::vector<std::string>{
        "A100-SXM-40GB (GCP a2)", "fp16", "7168", heads, "8192", "50272", "1", "1", "0",
        "enc-attention-softmax",  "9000", "9000"};
  };
  answer::Sites sites;
  // The fused kernel needs batch x heads divisible by four [Megatron-LM fused_softmax.py].
  const std::vector<Timing> all = timings(table(columns, {row("56"), row("14")}), sites);
  REQUIRE(all.size() == 4);
  for (const Timing& timing : all) CHECK(timing.reason == "");
  // Bytes per element at the rate of softmax. The fused kernel moves 3 units forward and 4
  // backward. The unfused path has casts of 2 + 4 before and after, and scaling of 4 + 4. Both run
  // at the rate of elementwise kernels, 0.86 of HBM's against 0.8. Masking follows, then a softmax
  // of 4 + 4, backward 4 + 4 + 4, and a copy in the backward pass.
  const double elementwise = (12 + 8) * 0.8 / 0.86;
  const double mask = static_cast<double>(program::masking_bytes);
  CHECK(all[2].predicted_us / all[0].predicted_us * 4 ==
        Approx((elementwise + mask + 8) / 3).epsilon(0.01));
  CHECK(all[3].predicted_us / all[1].predicted_us * 4 ==
        Approx((elementwise + mask + 12 + 8) / 4).epsilon(0.01));
}

TEST_CASE("calibrate: what is bound by random numbers or exponentials takes time by its bytes") {
  const std::vector<std::string> columns = {"gpu",  "precision", "hidden", "heads",
                                            "seq",  "vocab",     "mbs",    "tp",
                                            "algo", "op",        "fwd_us", "bwd_us"};
  const auto row = [](const char* op) {
    return std::vector<std::string>{"A100-SXM-40GB (GCP a2)",
                                    "fp16",
                                    "7168",
                                    "56",
                                    "8192",
                                    "50272",
                                    "1",
                                    "1",
                                    "0",
                                    op,
                                    "9000",
                                    "9000"};
  };
  answer::Sites sites;
  const std::vector<Timing> all = timings(
      table(columns,
            {row("enc-attention-softmax"), row("enc-attention-dropout"), row("enc-MLP-gelu")}),
      sites);
  REQUIRE(all.size() == 6);
  // The fused softmax reads the scores and writes half of them. Dropout reads, writes, and writes a
  // mask of bytes.
  CHECK(all[2].predicted_us / all[0].predicted_us == Approx(2.5 / 1.5).epsilon(0.05));
  // GELU reads and writes four times the hidden width.
  const double scores = 56.0 * 8192 * 8192, wide = 4.0 * 7168 * 8192;
  CHECK(all[4].predicted_us / all[0].predicted_us ==
        Approx(2 * wide / (1.5 * scores)).epsilon(0.05));
}
