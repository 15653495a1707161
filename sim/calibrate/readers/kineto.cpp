// kineto.cpp — measurements from traces of PyTorch's profiler: times of kernels, collectives and
// launches.
//
// A kernel belongs to the operator with the same External id. With record_shapes=True the operator
// has Input Dims, which turn a product or an attention into a sample. A collective's kernel waits
// for its peers, so the shortest of equal collectives is the transfer, if their times have a floor
// (reference: PyTorch
// torch/csrc/distributed/c10d/ParamCommsUtils; fields as Kineto writes them).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>

#include "sim/base/median.h"
#include "sim/calibrate/readers/kernel_family.h"
#include "sim/calibrate/readers/reader.h"
#include "sim/calibrate/readers/trace_events.h"
#include "sim/calibrate/rows/row_text.h"
#include "sim/input/text/textproto.h"

namespace sim::calibrate {

namespace {

using nlohmann::json;
using Dims = std::vector<std::vector<std::int64_t>>;

constexpr std::int64_t max_dimension = std::int64_t{1} << 28;

bool is_launch(const TraceEvent& e) {
  return e.kind == EventKind::call && contains(e.name, "LaunchKernel");
}

json parsed(std::string_view text) {
  json value = json::parse(text, nullptr, false);
  return value.is_discarded() ? json() : value;
}

// Sizes of each input; empty for a list of tensors or a scalar.
Dims dims_of(const TraceFile& file, const TraceEvent& e) {
  Dims all;
  const json value = parsed(file.argument(e, Argument::input_dims));
  if (!value.is_array()) return all;
  for (const json& one : value) {
    all.emplace_back();
    if (!one.is_array()) continue;
    for (const json& size : one) {
      const std::int64_t n = size.is_number_integer() ? size.get<std::int64_t>() : 0;
      if (n < 1 || n > max_dimension) {
        all.back().clear();
        break;
      }
      all.back().push_back(n);
    }
  }
  return all;
}

std::optional<model::Precision> precision_of(const TraceFile& file, const TraceEvent& e) {
  const json types = parsed(file.argument(e, Argument::input_types));
  if (!types.is_array() || types.empty()) return std::nullopt;
  for (const json& type : types) {
    if (!type.is_string()) continue;
    const std::string text = type.get<std::string>();
    if (contains(text, "BFloat16")) return model::Precision::bf16;
    if (contains(text, "Half")) return model::Precision::fp16;
    if (contains(text, "Float8")) return model::Precision::fp8;
    if (text == "float") return model::Precision::tf32;
  }
  return std::nullopt;
}

// The product that aten::mm(A[m,k], B[k,n]), addmm(bias, A, B), bmm or linear(x[.., k], w[n, k])
// computes.
std::optional<model::Operation> product_of(const TraceFile& file, const TraceEvent& e,
                                           model::Precision precision) {
  const Dims dims = dims_of(file, e);
  const bool add = contains(e.name, "addmm");
  const bool linear = e.name == "aten::linear";
  const bool batched = contains(e.name, "bmm");
  if (dims.size() < (add ? 3u : 2u)) return std::nullopt;
  const auto& a = dims[add ? 1 : 0];
  const auto& b = dims[add ? 2 : 1];
  const std::size_t rank = batched ? 3 : 2;
  if (linear ? a.size() < 2 || b.size() != 2 : a.size() != rank || b.size() != rank)
    return std::nullopt;
  std::int64_t m = 1;
  const std::int64_t k = a.back();
  const std::int64_t n = linear ? b[0] : b.back();
  const std::int64_t batch = batched ? a[0] : 1;
  for (std::size_t i = batched ? 1 : 0; i + 1 < a.size(); ++i) {
    m *= a[i];
    if (m > max_dimension) return std::nullopt;
  }
  if ((linear ? b[1] : b[rank - 2]) != k || (batched && b[0] != batch)) return std::nullopt;
  if (static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
          static_cast<double>(batch) >
      1e18)
    return std::nullopt;
  return model::gemm("gemm", m, n, k, model::GemmRole::forward, false, precision, batch);
}

// The attention that an operator of PyTorch computes: query [batch, heads, seq, head_dim].
std::optional<model::Operation> attention_of(const TraceFile& file, const TraceEvent& e,
                                             model::Precision precision) {
  const bool backward = contains(e.name, "backward");
  const Dims dims = dims_of(file, e);
  const std::size_t first = backward ? 1 : 0;  // backward takes grad_out before query, key, value
  if (dims.size() < first + 3) return std::nullopt;
  const auto &q = dims[first], &k = dims[first + 1];
  if (q.size() != 4 || k.size() != 4 || q[0] != k[0] || q[3] != k[3]) return std::nullopt;
  if (q[2] > 1 << 24 || k[2] > 1 << 24 || q[1] > 1 << 12 || q[3] > 1 << 12 || q[0] > 1 << 16 ||
      q[1] % k[1] != 0)
    return std::nullopt;
  const json values = parsed(file.argument(e, Argument::concrete_inputs));
  bool causal = false;
  if (values.is_array()) {
    for (const json& value : values) {
      if (value.is_string() && value.get<std::string>() == "True") causal = true;
    }
  }
  return model::attention("attention", backward, q[0], q[1], k[1], q[3], q[2], k[2], causal,
                          precision);
}

bool is_product(std::string_view name) {
  static constexpr std::array<std::string_view, 5> names = {"aten::mm", "aten::addmm", "aten::bmm",
                                                            "aten::linear", "aten::_scaled_mm"};
  return std::find(names.begin(), names.end(), name) != names.end();
}
bool is_attention(std::string_view name) {
  return contains(name, "scaled_dot_product_flash_attention") ||
         contains(name, "scaled_dot_product_cudnn_attention");
}

std::optional<collective::Kind> collective_kind(std::string_view name) {
  using collective::Kind;
  if (contains(name, "allreduce")) return Kind::all_reduce;
  if (contains(name, "allgather")) return Kind::all_gather;
  if (contains(name, "reduce_scatter") || contains(name, "reducescatter"))
    return Kind::reduce_scatter;
  if (contains(name, "broadcast")) return Kind::broadcast;
  if (contains(name, "all_to_all") || contains(name, "alltoall")) return Kind::all_to_all;
  return std::nullopt;
}

// The collectives of one shape: the last one, and the times of all.
struct Equal {
  CollectiveSample sample;
  std::vector<double> seconds;
};
using Collectives = std::map<std::tuple<collective::Kind, std::int64_t, int>, Equal>;

void add_collective(const TraceFile& file, const TraceEvent& kernel, const TraceEvent* op,
                    Collectives& found, Measurements& out) {
  const bool own = !file.argument(kernel, Argument::collective).empty();
  const TraceEvent& who = own || !op ? kernel : *op;
  const std::string_view called = file.argument(who, Argument::collective);
  const auto kind = collective_kind(called);
  if (!kind) {
    ++out.passed[called.empty() ? "collectives without their size (an older profiler)"
                                : fmt::format("collective '{}'", called)];
    return;
  }
  const std::int64_t in = positive_whole(file.argument(who, Argument::in_elements));
  const std::int64_t elements =
      std::max(in, positive_whole(file.argument(who, Argument::out_elements)));
  const std::int64_t ranks = positive_whole(file.argument(who, Argument::group_size), 1 << 17);
  if (elements == 0 || ranks < 2 || kernel.duration_us <= 0) {
    ++out.passed["collectives of one rank or without their size"];
    return;
  }
  CollectiveSample sample;
  sample.kind = *kind;
  sample.ranks = static_cast<int>(ranks);
  sample.nodes = 0;  // a trace does not give the nodes of its ranks
  sample.bytes = {elements * bytes_of_type(file.argument(who, Argument::dtype))};
  sample.seconds = kernel.duration_us * 1e-6;
  sample.gpu = out.device;
  Equal& equal = found[{sample.kind, sample.bytes.n, sample.ranks}];
  equal.seconds.push_back(sample.seconds);
  equal.sample = std::move(sample);
}

// Adds the collectives, each at its shortest.
void add_collectives(Collectives& found, const std::string& path, Measurements& out) {
  for (auto& [key, equal] : found) {
    equal.sample.waits = waits_for_peers(equal.seconds);
    equal.sample.seconds = std::ranges::min(equal.seconds);
    equal.sample.source = path;
    out.collectives.push_back(std::move(equal.sample));
  }
}

// Whether anything in the trace belongs to a backward pass or an optimizer.
bool trains(const TraceFile& file) {
  static constexpr std::array<std::string_view, 7> words = {
      "ackward", "bwd", "dgrad", "wgrad", "Adam", "adam", "multi_tensor_apply"};
  return std::ranges::any_of(file.events, [](const TraceEvent& e) {
    return std::ranges::any_of(words,
                               [&](std::string_view word) { return contains(e.name, word); });
  });
}

// CPU time per launch: the time between two launches without an idle gap.
void add_host(const std::vector<const TraceEvent*>& launches, Measurements& out) {
  constexpr double idle_us = 100;
  std::vector<double> gaps, calls;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    calls.push_back(launches[i]->duration_us);
    if (i == 0 || launches[i]->thread != launches[i - 1]->thread) continue;
    const double gap = launches[i]->start_us - launches[i - 1]->start_us;
    if (gap > 0 && gap < idle_us) gaps.push_back(gap);
  }
  if (gaps.size() >= 20) {
    out.host.push_back(
        {"host.kernel", "", median(gaps) * 1e-6, static_cast<std::int64_t>(gaps.size())});
    out.facts.push_back(
        fmt::format("{} launches: {:.1f} us from one to the next (median), {:.1f} "
                    "us inside the launch",
                    launches.size(), median(gaps), median(calls)));
  }
}

// Length of the union of intervals, microseconds.
double covered(std::vector<std::pair<double, double>> spans) {
  std::sort(spans.begin(), spans.end());
  double sum = 0, end = -1e300;
  for (const auto& [from, to] : spans) {
    sum += std::max(0.0, to - std::max(from, end));
    end = std::max(end, to);
  }
  return sum;
}

void add_facts(const TraceFile& file, const std::vector<const TraceEvent*>& kernels,
               Measurements& out) {
  std::vector<std::pair<double, double>> all, communication, compute;
  double first = 0, last = 0;
  std::array<double, kernel_family_count> busy{};
  std::map<std::string_view, double> libraries;
  for (const TraceEvent* kernel : kernels) {
    const std::pair<double, double> span = {kernel->start_us,
                                            kernel->start_us + kernel->duration_us};
    first = all.empty() ? span.first : std::min(first, span.first);
    last = all.empty() ? span.second : std::max(last, span.second);
    all.push_back(span);
    const KernelKind kind = kind_of_kernel(kernel->name);
    (communicates(kind.family) ? communication : compute).push_back(span);
    busy[static_cast<std::size_t>(kind.family)] += kernel->duration_us;
    if (!kind.library.empty()) libraries[kind.library] += kernel->duration_us;
  }
  const double length = last - first;
  if (length > 0) {
    const double both = covered(compute) + covered(communication) - covered(all);
    out.facts.push_back(fmt::format(
        "{} kernels in {:.3f} s: compute {:.1f} %, communication {:.1f} % of which {:.1f} hidden, "
        "idle {:.1f} %",
        kernels.size(), length * 1e-6, 100 * covered(compute) / length,
        100 * covered(communication) / length, 100 * both / length,
        100 * (1 - covered(all) / length)));
  }
  if (const double sum = std::accumulate(busy.begin(), busy.end(), 0.0); sum > 0) {
    std::vector<std::string> shares, owners;
    const auto add = [&](std::vector<std::string>& to, std::string_view what, double us) {
      if (us >= 0.001 * sum) to.push_back(fmt::format("{} {:.1f} %", what, 100 * us / sum));
    };
    for (std::size_t i = 0; i < busy.size(); ++i)
      add(shares, name(static_cast<KernelFamily>(i)), busy[i]);
    for (const auto& [library, us] : libraries) add(owners, library, us);
    out.facts.push_back(fmt::format("kernel time: {}", fmt::join(shares, ", ")));
    if (!owners.empty())
      out.facts.push_back(fmt::format("of libraries: {}", fmt::join(owners, ", ")));
  }
  const auto info = file.top.find("distributedInfo");
  if (info != file.top.end()) {
    const json distributed = parsed(info->second);
    if (distributed.is_object() && distributed.contains("world_size"))
      out.facts.push_back(fmt::format("rank {} of {}", distributed.value("rank", json(0)).dump(),
                                      distributed["world_size"].dump()));
  }
}

void read_device(const TraceFile& file, const std::vector<const TraceEvent*>& kernels,
                 Measurements& out) {
  const auto properties = file.top.find("deviceProperties");
  if (properties != file.top.end()) {
    const json devices = parsed(properties->second);
    if (devices.is_array() && !devices.empty() && devices[0].is_object()) {
      out.device = devices[0].value("name", "");
      const auto memory = devices[0].find("totalGlobalMem");
      if (!out.device.empty() && memory != devices[0].end() && memory->is_number()) {
        const double gb = memory->get<double>() / 1e9;
        if (!contains(out.device, "GB") && gb > 1 && gb < 1e4)
          out.device += fmt::format(" {:.0f}GB", gb > 40 && gb < 43   ? 40.0
                                                 : gb > 79 && gb < 86 ? 80.0
                                                                      : gb);
      }
    }
  }
  const auto base = file.top.find("baseTimeNanoseconds");
  const double start = (base == file.top.end() ? 0 : positive(base->second) * 1e-3) +
                       (kernels.empty() ? 0 : kernels.front()->start_us);
  out.date = date_of(start);
  if (out.date.empty() && !kernels.empty()) out.date = date_of(kernels.front()->start_us);
}

}  // namespace

bool is_profiler_trace(std::string_view bytes, const std::string&) {
  const std::string_view head = bytes.substr(0, 1 << 16);
  const std::size_t start = head.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos) return false;
  if (head[start] == '[') return head.find("\"ph\"") != std::string_view::npos;
  return head[start] == '{' && (head.find("\"traceEvents\"") != std::string_view::npos ||
                                head.find("\"schemaVersion\"") != std::string_view::npos);
}

Result<TraceFile> read_trace_file(const std::string& path) {
  const Result<std::string> raw = input::read_file(path, max_source_bytes);
  if (!raw) return raw.errors();
  PlainBytes plain(*raw);
  if (!is_gzip(*raw)) {
    if (is_nsight_export(*raw, path)) return read_nsight_events(*raw, path);
    if (is_profiler_trace(*raw, path)) return read_trace_events(plain, path);
    if (is_chakra_trace(*raw, path)) return read_chakra_events(*raw, path);
    return Diagnostics{{path,
                        "no trace of a profiler: PyTorch's (JSON), Nsight Systems' (SQLite) or "
                        "Chakra's"}};
  }
  PackedBytes packed(*raw);
  if (!is_profiler_trace(packed.look(1 << 16), path)) {
    const Result<std::string> whole = unpacked(*raw, path);
    if (!whole) return whole.errors();
    if (is_chakra_trace(*whole, path)) return read_chakra_events(*whole, path);
    return Diagnostics{{path, "what is packed is no trace of PyTorch's profiler, nor Chakra's"}};
  }
  Result<TraceFile> file = read_trace_events(packed, path);
  if (!packed.problem().empty()) return Diagnostics{{path, packed.problem()}};
  return file;
}

Result<Measurements> read_profiler_stream(ByteSource& bytes, const std::string& path) {
  const Result<TraceFile> file = read_trace_events(bytes, path);
  if (!file) return file.errors();
  return measurements_of(*file, path);
}

Result<Measurements> read_profiler_trace(std::string_view bytes, const std::string& path) {
  PlainBytes plain(bytes);
  return read_profiler_stream(plain, path);
}

namespace {

// The group of a product or an attention.
std::string group_of(const TraceEvent& op) {
  if (!is_attention(op.name)) return "gemm, any role";
  return contains(op.name, "backward") ? "attention backward" : "attention forward";
}

// A sample for each product and attention with known shapes. `seconds`: time by operation.
void add_kernels(const TraceFile& file, const std::string& path,
                 const std::map<std::int64_t, const TraceEvent*>& operators,
                 const std::map<std::int64_t, double>& seconds, Measurements& out) {
  for (const auto& [id, time] : seconds) {
    const TraceEvent& op = *operators.find(id)->second;
    const auto precision = precision_of(file, op);
    const auto operation = !precision              ? std::nullopt
                           : is_attention(op.name) ? attention_of(file, op, *precision)
                                                   : product_of(file, op, *precision);
    if (!operation || !(time > 0)) {
      ++out.passed["products and attention without shapes (record_shapes=True keeps them)"];
      continue;
    }
    KernelSample sample;
    sample.group = group_of(op);
    sample.operations = {*operation};
    sample.seconds = time;
    sample.source = path;
    sample.gpu = out.device;
    out.kernels.push_back(std::move(sample));
  }
}

}  // namespace

Measurements measurements_of(const TraceFile& file, const std::string& path) {
  Measurements out;
  std::map<std::int64_t, const TraceEvent*> operators;
  std::vector<const TraceEvent*> kernels, launches;
  for (const TraceEvent& e : file.events) {
    if (e.kind == EventKind::operation && e.external >= 0) operators[e.external] = &e;
    if (e.kind == EventKind::kernel) kernels.push_back(&e);
    if (is_launch(e)) launches.push_back(&e);
  }
  std::stable_sort(launches.begin(), launches.end(), [](const TraceEvent* a, const TraceEvent* b) {
    return std::tie(a->thread, a->start_us) < std::tie(b->thread, b->start_us);
  });
  read_device(file, kernels, out);
  Collectives collectives;
  // Kernels of one operator add up: a product with split k, or the three kernels of an attention.
  std::map<std::int64_t, double> seconds;
  for (const TraceEvent* kernel : kernels) {
    const std::int64_t id = kernel->external;
    const auto op = operators.find(id);
    const TraceEvent* owner = op == operators.end() ? nullptr : op->second;
    const bool communication = communicates(family_of(kernel->name));
    if (communication && !contains(kernel->name, "nccl")) {
      ++out.passed["communication that is not NCCL's (DeepEP, NVSHMEM)"];
    } else if (communication) {
      add_collective(file, *kernel, owner, collectives, out);
    } else if (!owner) {
      ++out.passed["kernels that no operator claims"];
    } else if (is_product(owner->name) || is_attention(owner->name)) {
      seconds[id] += kernel->duration_us * 1e-6;
    } else {
      ++out.passed["kernels that are neither products, attention nor collectives"];
    }
  }
  add_kernels(file, path, operators, seconds, out);
  add_collectives(collectives, path, out);
  if (!out.kernels.empty() && !trains(file))
    out.doubts.emplace_back(
        "no kernel of a backward pass or an optimizer: a trace of inference; record training "
        "steps");
  add_host(launches, out);
  for (HostSample& sample : out.host) sample.source = path;
  add_facts(file, kernels, out);
  return out;
}

}  // namespace sim::calibrate
