// tables.cpp — reads the tables of calibration/measured: gemm.csv, op_profiles.csv, nccl.csv.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/calibrate/readers/reader.h"
#include "sim/calibrate/rows/row_plan.h"
#include "sim/calibrate/rows/row_text.h"
#include "sim/input/text/csv_rows.h"

namespace sim::calibrate {

namespace {

using model::GemmRole;
using model::Operation;
using model::OperationKind;
using model::Precision;

constexpr std::int64_t max_dimension = std::int64_t{1} << 24;

Result<std::vector<Row>> table(std::string_view bytes, const std::string& path) {
  const Result<std::vector<input::CsvRow>> read = input::csv_rows(std::string(bytes), path);
  if (!read) return read.errors();
  std::vector<Row> rows;
  Diagnostics problems;
  for (std::size_t i = 1; i < read->size() && problems.size() < 100; ++i) {
    const input::CsvRow& from = (*read)[i];
    const std::vector<std::string>& columns = read->front().cells;
    if (from.cells.size() != columns.size()) {
      problems.push_back(
          {fmt::format("{}:{}", path, from.line),
           fmt::format("{} cells under {} columns", from.cells.size(), columns.size())});
      continue;
    }
    Row row;
    for (std::size_t c = 0; c < columns.size(); ++c) row[columns[c]] = from.cells[c];
    rows.push_back(std::move(row));
  }
  if (!problems.empty()) return problems;
  return rows;
}

bool heads(std::string_view bytes, std::initializer_list<std::string_view> columns) {
  while (bytes.starts_with('#'))
    bytes.remove_prefix(std::min(bytes.find('\n'), bytes.size() - 1) + 1);
  const std::string line = "," + first_line(bytes) + ",";
  for (const std::string_view column : columns) {
    if (line.find("," + std::string(column) + ",") == std::string::npos) return false;
  }
  return true;
}

std::int64_t dimension(const Row& row, std::string_view column) {
  return positive_whole(cell(row, column), max_dimension);
}

// The repository of a source: "eth-easl/sailor" of "eth-easl/sailor@cf2c8e:path".
std::string who(const Row& row) {
  const std::string& source = cell(row, "source");
  std::string name = source.substr(0, source.find_first_of("@("));
  while (!name.empty() && name.back() == ' ') name.pop_back();
  return name;
}

std::optional<Precision> precision_of(std::string_view text) {
  if (contains(text, "bf16")) return Precision::bf16;
  if (contains(text, "fp16") || contains(text, "half")) return Precision::fp16;
  if (contains(text, "fp8")) return Precision::fp8;
  if (contains(text, "tf32")) return Precision::tf32;
  return std::nullopt;
}

std::string implementation_of(std::string_view given) {
  std::string text = lower(given);
  std::ranges::replace(text, ' ', '-');
  return text == "flashattention-2"   ? "flash-attention-2"
         : text == "flashattention-3" ? "flash-attention-3"
         : text == "flashattention"   ? "flash-attention-1"
                                      : text;
}

void product(const Row& row, KernelSample sample, Measurements& out) {
  const std::int64_t m = dimension(row, "m"), n = dimension(row, "n"), k = dimension(row, "k");
  const std::optional<Precision> precision = precision_of(cell(row, "dtype"));
  if (m == 0 || n == 0 || k == 0 || !precision) {
    ++out.passed["a product without m, n, k or a known precision"];
    return;
  }
  const std::string& layout = cell(row, "layout");
  const GemmRole role = layout == "NN"   ? GemmRole::input_gradient
                        : layout == "NT" ? GemmRole::weight_gradient
                                         : GemmRole::forward;
  const Operation o =
      model::gemm("gemm", m, n, k, role, starts_with(cell(row, "accumulate"), "t"), *precision);
  sample.group = role == GemmRole::forward          ? "gemm forward"
                 : role == GemmRole::input_gradient ? "gemm input gradient"
                                                    : "gemm weight gradient";
  sample.operations = {o};
  sample.seconds = positive(cell(row, "time_us")) * 1e-6;
  if (sample.seconds == 0) {
    const double rate = positive(cell(row, "tflops"));
    if (rate > 0) sample.seconds = o.flops / rate * 1e-12;
  }
  if (sample.seconds == 0) {
    ++out.passed["no time"];
    return;
  }
  out.kernels.push_back(std::move(sample));
}

void attention(const Row& row, KernelSample sample, Measurements& out) {
  const std::int64_t batch = dimension(row, "batch"), heads = dimension(row, "heads"),
                     kv_heads = dimension(row, "kv_heads"), head = dimension(row, "head_dim"),
                     seq = dimension(row, "seq");
  // Number of keys, if it differs from the number of queries.
  const std::int64_t keys = cell(row, "kv_seq").empty() ? seq : dimension(row, "kv_seq");
  const std::string& direction = cell(row, "direction");
  if (batch == 0 || heads == 0 || kv_heads == 0 || head == 0 || seq == 0 || keys == 0) {
    ++out.passed["attention without its shape"];
    return;
  }
  if (contains(cell(row, "impl"), "pytorch")) {
    ++out.passed["unfused attention"];
    return;
  }
  if (positive_whole(cell(row, "v_head_dim")) != 0 && dimension(row, "v_head_dim") != head) {
    ++out.passed["attention whose values have another head size"];
    return;
  }
  const std::string& mask = cell(row, "causal");
  const bool causal = starts_with(mask, "1") || starts_with(mask, "t");
  const auto pass = [&](bool backward) {
    return model::attention("attention", backward, batch, heads, kv_heads, head, seq, keys, causal);
  };
  if (direction != "bwd") sample.operations.push_back(pass(false));
  if (direction != "fwd") sample.operations.push_back(pass(true));
  sample.group = direction == "fwd"   ? "attention forward"
                 : direction == "bwd" ? "attention backward"
                                      : "attention forward + backward";
  sample.implementation = implementation_of(cell(row, "impl"));
  sample.seconds = positive(cell(row, "time_us")) * 1e-6;
  if (sample.seconds == 0) {
    // Published rates count 4 s^2 d h FLOPs forward, half of that if causal, and 2.5 times that
    // backward. Some sources count all of a causal attention and say so.
    double flops = 0;
    for (const Operation& o : sample.operations) flops += o.flops;
    if (causal && contains(mask, "counted full")) flops *= 2;
    const double rate = positive(cell(row, "tflops"));
    if (rate > 0) sample.seconds = flops / rate * 1e-12;
  }
  if (sample.seconds == 0) {
    ++out.passed["no time"];
    return;
  }
  out.kernels.push_back(std::move(sample));
}

// Reads memory-bound kernels with their bytes (calibration/capture). False for other kernels.
bool kernel_of_bytes(const Row& row, KernelSample sample, Measurements& out) {
  constexpr std::array<std::pair<const char*, OperationKind>, 7> kinds = {
      {{"norm", OperationKind::norm},
       {"elementwise", OperationKind::elementwise},
       {"softmax", OperationKind::softmax},
       {"copy", OperationKind::copy},
       {"reduction", OperationKind::reduction},
       {"embedding", OperationKind::embedding},
       {"optimizer", OperationKind::optimizer}}};
  for (const auto& [name, kind] : kinds) {
    if (cell(row, "kernel") != name) continue;
    const std::int64_t bytes = positive_whole(cell(row, "bytes"), std::int64_t{1} << 42);
    sample.seconds = positive(cell(row, "time_us")) * 1e-6;
    sample.group = name;
    sample.operations = {model::memory_bound(kind, name, Bytes{bytes})};
    if (bytes == 0 || sample.seconds == 0)
      ++out.passed["a kernel without bytes or time"];
    else
      out.kernels.push_back(std::move(sample));
    return true;
  }
  return false;
}

// Shape of a layer. Elements have 2 bytes in fp16, 4 in fp32.
struct MegatronShape {
  std::int64_t tokens, hidden, heads, seq, mbs, tp, vocab;
  Precision precision;
  std::int64_t width;
};

// The kernels of Megatron-LM for an operation of op_profiles.csv. std::nullopt if the time contains
// a collective or CPU work.
std::optional<KernelSample> megatron_operation(const std::string& op, bool backward,
                                               const MegatronShape& s) {
  KernelSample sample;
  const auto product = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    sample.group = backward ? "gemm input gradient" : "gemm forward";
    sample.operations = {
        backward ? model::gemm("gemm", m, k, n, GemmRole::input_gradient, false, s.precision)
                 : model::gemm("gemm", m, n, k, GemmRole::forward, false, s.precision)};
  };
  const auto memory_bound = [&](OperationKind kind, const char* group, std::int64_t bytes) {
    sample.group = group;
    sample.operations = {model::memory_bound(kind, group, Bytes{bytes})};
  };
  const bool alone = s.tp == 1;
  const std::int64_t h = s.hidden;
  const std::int64_t scores = s.mbs * s.heads / s.tp * s.seq * s.seq;
  if (op == "enc-MLP-GEMM-1" && !backward) {
    product(s.tokens, 4 * h / s.tp, h);
  } else if (op == "enc-MLP-GEMM-2" && alone && !backward) {
    product(s.tokens, h, 4 * h);
  } else if (op == "enc-attention-dense" && alone && !backward) {
    product(s.tokens, h, h);
  } else if (op == "enc-attention-softmax") {
    // The triangular kernel reads the lower half and writes all; backward reads two halves.
    memory_bound(OperationKind::softmax, "softmax", (backward ? 4 : 3) * scores * s.width / 2);
  } else if (op == "enc-attention-dropout") {
    memory_bound(OperationKind::softmax, "softmax", scores * (2 * s.width + 1));  // 1 byte of mask
  } else if (op == "enc-MLP-gelu" && !backward) {
    memory_bound(OperationKind::elementwise, "elementwise", 2 * s.tokens * 4 * h / s.tp * s.width);
  } else {
    return std::nullopt;
  }
  return sample;
}

std::optional<collective::Kind> kind_of(std::string_view text) {
  using collective::Kind;
  if (starts_with(text, "all_reduce")) return Kind::all_reduce;
  if (starts_with(text, "all_gather")) return Kind::all_gather;
  if (starts_with(text, "reduce_scatter")) return Kind::reduce_scatter;
  if (starts_with(text, "broadcast")) return Kind::broadcast;
  return std::nullopt;
}

// Reads NICs from text such as "IB NDR 8x400Gb/s per node"; false if there are none.
bool read_fabric(std::string_view text, CollectiveSample& sample) {
  for (std::size_t x = text.find('x'); x != std::string_view::npos; x = text.find('x', x + 1)) {
    std::size_t begin = x;
    while (begin > 0 && text[begin - 1] >= '0' && text[begin - 1] <= '9') --begin;
    const std::string_view rest = text.substr(x + 1);
    const std::size_t unit = rest.find_first_not_of("0123456789.");
    if (begin == x || unit == 0 || unit == std::string_view::npos) continue;
    const double speed = positive(rest.substr(0, unit));
    const std::string_view name = rest.substr(unit);
    const double bits = name.starts_with("Gb/s") ? 1e9 : name.starts_with("GB/s") ? 8e9 : 0;
    sample.nics = static_cast<int>(positive_whole(text.substr(begin, x - begin), 64));
    sample.nic_bits_per_second = speed * bits;
    return sample.nics > 0 && sample.nic_bits_per_second > 0 && sample.nic_bits_per_second < 1e13;
  }
  return false;
}

}  // namespace

bool is_kernel_table(std::string_view bytes, const std::string&) {
  return heads(bytes, {"kernel", "gpu", "m", "n", "k", "tflops", "head_dim"});
}

Result<Measurements> read_kernel_table(std::string_view bytes, const std::string& path) {
  const Result<std::vector<Row>> rows = table(bytes, path);
  if (!rows) return rows.errors();
  Measurements out;
  for (const Row& row : *rows) {
    KernelSample sample;
    sample.source = who(row);
    sample.gpu = cell(row, "gpu");
    const std::string& kernel = cell(row, "kernel");
    if (kernel == "matmul" || starts_with(kernel, "gemm")) {
      product(row, std::move(sample), out);
    } else if (kernel == "attention" || starts_with(kernel, "sdp_")) {
      attention(row, std::move(sample), out);
    } else if (kernel == "launch") {
      const double seconds = positive(cell(row, "time_us")) * 1e-6;
      if (seconds > 0) out.host.push_back({"host.kernel", who(row), seconds, 1});
    } else if (!kernel_of_bytes(row, sample, out)) {
      ++out.passed[fmt::format("kernel '{}'", kernel)];
    }
  }
  return out;
}

bool is_operation_table(std::string_view bytes, const std::string&) {
  return heads(bytes, {"gpu", "hidden", "heads", "mbs", "tp", "op", "fwd_us", "bwd_us"});
}

Result<Measurements> read_operation_table(std::string_view bytes, const std::string& path) {
  const Result<std::vector<Row>> rows = table(bytes, path);
  if (!rows) return rows.errors();
  Measurements out;
  for (const Row& row : *rows) {
    MegatronShape shape{};
    shape.hidden = dimension(row, "hidden");
    shape.heads = dimension(row, "heads");
    shape.seq = positive_whole(cell(row, "seq"), 1 << 20);
    shape.mbs = positive_whole(cell(row, "mbs"), 1 << 12);
    shape.tp = positive_whole(cell(row, "tp"), 1 << 10);
    shape.tokens = shape.seq * shape.mbs;
    const bool half = contains(cell(row, "precision"), "16");
    shape.precision = half ? Precision::fp16 : Precision::tf32;
    shape.width = half ? 2 : 4;
    if (shape.hidden == 0 || shape.heads == 0 || shape.tokens == 0 || shape.tp == 0 ||
        shape.hidden > 1 << 20 || shape.heads > 1 << 12 || shape.heads % shape.tp != 0) {
      ++out.passed["no shape"];
      continue;
    }
    for (const bool backward : {false, true}) {
      const double us = positive(cell(row, backward ? "bwd_us" : "fwd_us"));
      auto sample = megatron_operation(cell(row, "op"), backward, shape);
      if (sample && !half && sample->operations.front().kind != OperationKind::gemm) {
        ++out.passed["fp32: softmax and activations are several kernels there"];
        continue;
      }
      if (!sample || us == 0) {
        ++out.passed["an operation that holds a collective, the host or a constant gradient"];
        continue;
      }
      // Shorter times measured on the CPU contain the launch instead of the kernel.
      constexpr double host_us = 120;
      if (us < host_us) {
        ++out.passed["shorter than 120 us from the host: the launch, not the kernel"];
        continue;
      }
      sample->source = who(row);
      sample->gpu = cell(row, "gpu");
      sample->seconds = us * 1e-6;
      out.kernels.push_back(std::move(*sample));
    }
  }
  return out;
}

bool is_nccl_table(std::string_view bytes, const std::string&) {
  return heads(bytes, {"collective", "n_gpus", "nodes", "bytes", "time_us_oop", "busbw_oop"});
}

Result<Measurements> read_nccl_table(std::string_view bytes, const std::string& path) {
  const Result<std::vector<Row>> rows = table(bytes, path);
  if (!rows) return rows.errors();
  Measurements out;
  for (const Row& row : *rows) {
    CollectiveSample sample;
    const std::optional<collective::Kind> kind = kind_of(cell(row, "collective"));
    if (!kind) {
      ++out.passed[fmt::format("collective '{}'", cell(row, "collective"))];
      continue;
    }
    sample.kind = *kind;
    sample.source = who(row);
    sample.gpu = cell(row, "gpu");
    sample.ranks = static_cast<int>(positive_whole(cell(row, "n_gpus"), 1 << 17));
    sample.nodes = static_cast<int>(positive_whole(cell(row, "nodes"), 1 << 15));
    sample.bytes = {positive_whole(cell(row, "bytes"), std::int64_t{1} << 42)};
    sample.seconds = positive(cell(row, "time_us_oop")) * 1e-6;
    const double bus = positive(cell(row, "busbw_oop"));
    if (sample.seconds == 0 && bus > 0 && sample.ranks > 1) {
      const double n = sample.ranks;
      const double factor = *kind == collective::Kind::all_reduce  ? 2 * (n - 1) / n
                            : *kind == collective::Kind::broadcast ? 1
                                                                   : (n - 1) / n;
      sample.seconds = static_cast<double>(sample.bytes.n) * factor / (bus * 1e9);
    }
    const std::string& algorithm = cell(row, "algo");
    if (!starts_with(algorithm, "auto")) sample.algorithm = algorithm;
    sample.host_timed = contains(algorithm, "host-timed");
    if (sample.ranks < 2 || sample.nodes < 1 || sample.bytes.n == 0 || sample.seconds == 0 ||
        sample.ranks % sample.nodes != 0) {
      ++out.passed["no size, layout or time"];
      continue;
    }
    if (sample.nodes > 1 && !read_fabric(cell(row, "inter_net"), sample)) {
      ++out.passed["several nodes whose fabric is not stated"];
      continue;
    }
    out.collectives.push_back(std::move(sample));
  }
  return out;
}

}  // namespace sim::calibrate
