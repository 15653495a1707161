#include "sim/model/flops.h"

#include <catch2/catch.hpp>
#include <set>

#include "sim/model/operation.h"
#include "tests/model/known.h"

namespace sim::model {
namespace {

double count(const char* convention, const Architecture& a, const Batch& batch) {
  return find_flop_convention(convention)->flops(a, batch);
}

}  // namespace

TEST_CASE("flops: paper gives the authors' figures for Llama-3.1-8B at 8K and 16K") {
  // arXiv:2411.06465's code: 12 B s L h^2 (1 + k/a + s/h + 1.5 f/h + v/2Lh) with B = 1024.
  CHECK(flops_paper(llama_8b(), 1024, 8192, 128256) == Approx(4.858082e17).epsilon(1e-6));
  CHECK(flops_paper(llama_8b(), 1024, 16384, 128256) == Approx(1.18778e18).epsilon(1e-5));
  const double h = 4096;
  const double formula = 12 * 1024 * 8192.0 * 32 * h * h *
                         (1 + 8 / 32.0 + 8192 / h + 1.5 * 14336 / h + 128256 / (2 * 32 * h));
  CHECK(flops_paper(llama_8b(), 1024, 8192, 128256) == Approx(formula).epsilon(1e-12));
}

TEST_CASE("flops: the attention core is 22.2 % of the paper's count at 8K and 36.4 % at 16K") {
  for (const auto& [sequence, share] : {std::pair{8192.0, 0.222}, {16384.0, 0.364}}) {
    const Batch batch{1024, sequence, 128256};
    const double full = count("full", llama_8b(), batch);
    const double causal = count("megatron", llama_8b(), batch);
    CHECK(2 * (full - causal) / full == Approx(share).margin(5e-4));
  }
}

TEST_CASE("flops: for GPT the general count equals the formula of Korthikanti et al.") {
  // f = 4h, k = a, two MLP matrices: 12 (1 + 1 + s/h + 4 + v/2Lh) = 72 (1 + s/6h + v/12Lh).
  const Batch batch{512, 2048, 51200};
  const Architecture a = gpt(128, 25600, 160);
  CHECK(count("full", a, batch) == Approx(count("korthikanti", a, batch)).epsilon(1e-12));
}

TEST_CASE("flops: korthikanti turns the published iteration times into the published MFU") {
  // arXiv:2205.05198 table 5, A100 at 312 TFLOP/s, sequence parallelism and selective recompute.
  struct Row {
    Architecture a;
    double gpus, sequences, time, mfu;
  };
  for (const Row& row :
       {Row{gpt(48, 6144, 64), 8, 4, 1.10, 41.5}, Row{gpt(96, 12288, 96), 64, 64, 13.75, 51.4},
        Row{gpt(105, 20480, 128), 280, 280, 37.83, 56.0},
        Row{gpt(128, 25600, 160), 512, 512, 71.49, 56.3}}) {
    const double model = count("korthikanti", row.a, {row.sequences, 2048, 51200});
    // Both are printed to three digits; 1.10 s alone is uncertain by 0.5 %.
    CHECK(100 * model / (row.time * row.gpus * 312e12) == Approx(row.mfu).epsilon(5e-3));
  }
}

TEST_CASE("flops: narayanan gives the training times that its paper derives") {
  // arXiv:2104.04473 section 5.1: GPT-3 on 300e9 tokens, 1024 A100 at 140 TFLOP/s: 34 days; 1T on
  // 450e9 tokens, 3072 A100 at 163 TFLOP/s: 84 days. It drops the attention and head terms there.
  const auto days = [](const Architecture& a, double tokens, double rate) {
    const Batch batch{tokens / 2048, 2048, 51200, Recompute::full};
    return count("narayanan", a, batch) / rate / 86400;
  };
  CHECK(days(gpt(96, 12288, 96), 300e9, 1024 * 140e12) == Approx(34).epsilon(0.03));
  CHECK(days(gpt(128, 25600, 160), 450e9, 3072 * 163e12) == Approx(84).epsilon(0.03));
}

TEST_CASE("flops: narayanan is 96 B S L h^2 (1 + S / 6h + V / 16Lh) where layers run again") {
  const double b = 3, s = 2048, v = 51200, layers = 48, h = 6144;
  CHECK(count("narayanan", gpt(48, 6144, 64), {b, 2048, 51200, Recompute::full}) ==
        Approx(96 * b * s * layers * h * h * (1 + s / (6 * h) + v / (16 * layers * h)))
            .epsilon(1e-12));
}

TEST_CASE("flops: narayanan counts recomputation only where layers are recomputed") {
  const Architecture a = gpt(48, 6144, 64);
  const double full = count("narayanan", a, {4, 2048, 51200, Recompute::full});
  for (const Recompute other : {Recompute::none, Recompute::selective})
    CHECK(count("narayanan", a, {4, 2048, 51200, other}) == Approx(full * 3 / 4).epsilon(1e-12));
}

TEST_CASE("flops: 6n and its attention term follow their definitions") {
  const Batch batch{2, 4096, 128256};
  CHECK(count("6n", llama_8b(), batch) == Approx(6 * 8030261248.0 * 8192));
  CHECK(count("6n+12lhs", llama_8b(), batch) - count("6n", llama_8b(), batch) ==
        Approx(12.0 * 32 * 4096 * 4096 * 8192));
}

TEST_CASE("flops: weights is full without the attention core, frozen weights two thirds of it") {
  const Batch batch{2, 4096, 128256};
  // The head has a table of its own, so that what is left out of the 8 B parameters is the
  // embedding and the norms.
  const double matrices = 8030261248.0 - 128256.0 * 4096 - (2 * 32 + 1) * 4096;
  CHECK(count("weights", llama_8b(), batch) == 6 * matrices * 8192);
  CHECK(count("frozen-weights", llama_8b(), batch) == 4 * matrices * 8192);
}

TEST_CASE("flops: hardware adds what is recomputed to the causal model count") {
  const Architecture a = llama_8b();
  const auto hardware = [&](Recompute r) { return count("hardware", a, {1, 8192, 128256, r}); };
  const double model = count("megatron", a, {1, 8192, 128256});
  const double core = count("full", a, {1, 8192, 128256}) - model;  // half of three passes
  CHECK(hardware(Recompute::none) == model);
  CHECK(hardware(Recompute::selective) - model == Approx(core / 3));
  // A third of everything but the head, 6 s h v.
  CHECK(hardware(Recompute::full) - model == Approx((model - 6.0 * 8192 * 4096 * 128256) / 3));
}

TEST_CASE("flops: a sliding window makes fewer FLOPs executed, as many as its kernel counts") {
  Architecture a = llama_8b();
  const Batch batch{2, 16384, 128256};
  const double whole = count("hardware", a, batch);
  CHECK(whole == Approx(count("megatron", a, batch)).epsilon(1e-12));
  a.sliding_window = 4096;
  const Operation kernel = attention("attention", false, 2, a.heads, a.kv_heads, a.head_dim, 16384,
                                     16384, true, Precision::bf16, 4096);
  Operation half = attention("attention", false, 2, a.heads, a.kv_heads, a.head_dim, 16384, 16384,
                             true, Precision::bf16);
  const double layers = static_cast<double>(a.layers);
  CHECK(whole - count("hardware", a, batch) ==
        Approx(3 * layers * (half.flops - kernel.flops)).epsilon(1e-9));
  CHECK(count("megatron", a, batch) == Approx(whole).epsilon(1e-12));
  a.sliding_window = 16384;
  CHECK(count("hardware", a, batch) == Approx(whole).epsilon(1e-12));
}

TEST_CASE("flops: a head width of its own counts by the width and not by hidden") {
  Architecture wide = llama_8b();
  wide.head_dim = 256;  // query width 8192 = 2h
  const Batch batch{1, 8192, 128256};
  // Attention projections double: + 12 s L h^2 (1 + k/a); and so does the core: + 12 s^2 L h.
  const double h = 4096;
  const double more = 12.0 * 8192 * 32 * h * h * 1.25 + 12.0 * 8192 * 8192 * 32 * h;
  CHECK(count("full", wide, batch) - count("full", llama_8b(), batch) == Approx(more));
}

TEST_CASE("flops: without gates an MLP has two matrices, and GPT-OSS the count of its tables") {
  const Architecture gated = llama_8b();
  const Batch batch{1, 4096, 128256};
  const double half = 6.0 * 4096 * 32 * 4096 * 14336;  // a matrix of every layer, three passes
  CHECK(count("megatron", gated, batch) - count("megatron-ungated", gated, batch) == Approx(half));
  Architecture plain = gated;
  plain.activation = Activation::gelu;
  CHECK(count("megatron-ungated", plain, batch) == count("megatron", plain, batch));

  Architecture oss;
  oss.layers = 36;
  oss.hidden = oss.experts.ffn = 2880;
  oss.heads = 64;
  oss.kv_heads = 8;
  oss.head_dim = 64;
  oss.vocab = 201088;
  oss.experts.count = 128;
  oss.experts.top_k = 4;
  // T00120 of training_runs.csv: 158 TFLOP/s at 5,810 tokens/s.
  const Batch one{1, 4096, 201088};
  CHECK(count("megatron-ungated", oss, one) / 4096 == Approx(158e12 / 5810).epsilon(0.003));
}

TEST_CASE("flops: conventions have distinct names and a source and find each other") {
  std::set<std::string_view> names;
  for (const FlopConvention& convention : flop_conventions()) {
    CHECK(names.insert(convention.name).second);
    CHECK_FALSE(convention.summary.empty());
    CHECK_FALSE(convention.source.empty());
    CHECK(find_flop_convention(convention.name) == &convention);
    CHECK(convention_for(convention.name) != nullptr);
  }
  CHECK(find_flop_convention("papr") == nullptr);
}

TEST_CASE("flops: every text of the measured tables names its convention") {
  const std::pair<const char*, const char*> kinds[] = {
      {"model (Megatron log formula)", "paper"},
      {"model (Megatron log)", "paper"},
      {"hardware incl. recompute (96BSLh^2(1+S/6h+V/16Lh))", "narayanan"},
      {"hardware (incl. recompute, factor 4); Narayanan formula", "narayanan"},
      {"hardware-style Megatron SC21 formula (includes recompute when enabled)", "narayanan"},
      {"hardware (incl. recompute, factor 4); older formula, ~3% lower", "8n-layers"},
      {"model (72..), computed by us with V=50304", "korthikanti"},
      {"model (72BLSh^2...), computed by us", "korthikanti"},
      {"model (72BSLh^2(1+S/6h+V/12Lh)), computed by us, no recompute", "korthikanti"},
      {"model (Korthikanti appendix A)", "full"},
      {"model (README formula: attention+mlp+vocab, x3)", "full"},
      {"model (formula in show_result_full_exp.py, full attention)", "full"},
      {"model = mfu*312", "full"},
      {"model (6N+12Lhs)", "6n+12lhs"},
      {"model (6N+12Lhs), computed by us", "6n+12lhs"},
      {"model (as reported)", "megatron"},
      {"as reported", "megatron"},
      {"hardware incl. recompute (as printed)", "hardware"},
      {"as plotted (SimuMax/Megatron convention)", "megatron"},
  };
  for (const auto& [kind, name] : kinds) {
    CAPTURE(kind);
    REQUIRE(convention_for(kind) != nullptr);
    CHECK(convention_for(kind)->name == name);
  }
  CHECK(convention_for("") == nullptr);
  CHECK(convention_for("estimated by eye") == nullptr);
}

namespace {

Architecture mixture(Architecture a, std::int64_t count, std::int64_t top_k, std::int64_t ffn) {
  a.experts.count = count;
  a.experts.top_k = top_k;
  a.experts.ffn = ffn;
  return a;
}

double per_token(const Architecture& a) {
  const Batch batch{1, 4096, static_cast<double>(a.vocab), Recompute::none};
  return find_flop_convention("megatron")->flops(a, batch) / 4096;
}

}  // namespace

TEST_CASE("model: FLOPs of mixtures equal what NVIDIA's tables divide by") {
  // TFLOP/s over tokens/s of Megatron Bridge's published rows at 4096 tokens: Qwen3-30B 22.94 to
  // 22.96, Qwen3-235B 147.7 to 147.9, DeepSeek-V3 with one module 260.6 GFLOP per token.
  Architecture qwen = mixture(llama(48, 2048, 6144, 32, 4, 151936), 128, 8, 768);
  qwen.head_dim = 128;
  CHECK(per_token(qwen) == Approx(23.006e9).epsilon(1e-4));
  qwen = mixture(llama(94, 4096, 12288, 64, 4, 151936), 128, 8, 1536);
  qwen.head_dim = 128;
  CHECK(per_token(qwen) == Approx(148.03e9).epsilon(1e-4));
  CHECK(per_token(mixture(llama(32, 4096, 14336, 32, 8, 32000), 8, 2, 14336)) ==
        Approx(79.706e9).epsilon(1e-4));
  Architecture deepseek = mixture(llama(61, 7168, 18432, 128, 128, 129280), 256, 8, 2048);
  deepseek.experts.shared_ffn = 2048;
  deepseek.experts.layers = "([0]*3+[1]*58)";
  deepseek.latent = {512, 1536, 128, 64, 128};
  CHECK(per_token(deepseek) == Approx(249.81e9).epsilon(1e-4));
  deepseek.predicted_tokens = 1;
  CHECK(per_token(deepseek) == Approx(259.99e9).epsilon(1e-4));
}

TEST_CASE("model: patterns of layers are read, and others refused with what would do") {
  CHECK(read_layer_pattern("1", 3).mixture == std::vector<std::uint8_t>{1, 1, 1});
  CHECK(read_layer_pattern("2", 4).mixture == std::vector<std::uint8_t>{1, 0, 1, 0});
  CHECK(read_layer_pattern("([0]*1+[1]*2)", 3).mixture == std::vector<std::uint8_t>{0, 1, 1});
  CHECK(read_layer_pattern("([0,1]+[0]) * 2", 6).mixture ==
        std::vector<std::uint8_t>{0, 1, 0, 0, 1, 0});
  CHECK(read_layer_pattern("[1]*3", 4).problem == "\"[1]*3\" speaks of 3 layers, the model has 4");
  // No more layers than a million on the way.
  CHECK(read_layer_pattern("[0,1]*524288", 3).problem.find("1048576 layers") != std::string::npos);
  for (const char* bad : {"[0,1]*524289", "[1]*1024*1025"})
    CHECK(read_layer_pattern(bad, 3).problem.find("says no layers; write 1 (all)") !=
          std::string::npos);
  for (const char* bad : {"", "0", "-1", "[2]*3", "[1]*", "([1]", "[1]*99999999999", "[1]]", "x"})
    CHECK(read_layer_pattern(bad, 3).problem.find("says no layers; write 1 (all)") !=
          std::string::npos);
}

}  // namespace sim::model
