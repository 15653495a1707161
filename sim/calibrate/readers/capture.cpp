// capture.cpp — reads the JSON of a node that `rehearse capture` measured: kernels, collectives,
// fields of a profile that were measured by themselves, and facts. The format is described in
// calibration/capture/README.md.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/calibrate/readers/reader.h"
#include "sim/calibrate/rows/row_text.h"

namespace sim::calibrate {

namespace {

using model::GemmRole;
using model::OperationKind;
using model::Precision;
using nlohmann::json;

constexpr std::int64_t max_size = std::int64_t{1} << 28;

// A whole number of a record from 1 to max_size; 0 if there is none.
std::int64_t whole(const json& record, const char* key, std::int64_t most = max_size) {
  const auto found = record.find(key);
  if (found == record.end() || !found->is_number_integer()) return 0;
  const auto value = found->get<std::int64_t>();
  return value >= 1 && value <= most ? value : 0;
}

// Seconds of a record that has microseconds; 0 if there are none.
double seconds_in(const json& record) {
  const auto found = record.find("us");
  if (found == record.end() || !found->is_number()) return 0;
  const double us = found->get<double>();
  return std::isfinite(us) && us > 0 ? us * 1e-6 : 0;
}

std::string text_in(const json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<Precision> precision_in(const json& record) {
  const std::string name = text_in(record, "dtype");
  if (name == "bf16") return Precision::bf16;
  if (name == "fp16") return Precision::fp16;
  if (name == "tf32") return Precision::tf32;
  if (name == "fp8") return Precision::fp8;
  return std::nullopt;
}

class CaptureReader {
 public:
  CaptureReader(const json& file, const std::string& path) : file_(file), path_(path) {
    out_.device = text_in(file, "device");
    out_.date = text_in(file, "date");
    if (out_.date.size() != 10) out_.date.clear();
  }

  Measurements read() {
    each("products", [&](const json& r) { product(r, false); });
    each("grouped", [&](const json& r) { product(r, false); });
    each("sustained", [&](const json& r) { product(r, true); });
    each("attention", [&](const json& r) { attention(r); });
    each("passes", [&](const json& r) { pass(r); });
    each("collectives", [&](const json& r) { collective(r); });
    each("fields", [&](const json& r) { field(r); });
    each("copies", [&](const json& r) { copy(r); });
    each("skipped", [&](const json& r) {
      ++out_.passed[fmt::format("not measured: {}", text_in(r, "why").substr(0, 80))];
    });
    if (const auto layer = file_.find("layer"); layer != file_.end() && layer->is_object())
      out_.facts.push_back(fmt::format("one layer: peak allocated {:.1f} MiB, reserved {:.1f} MiB",
                                       mib(*layer, "peak_allocated"),
                                       mib(*layer, "peak_reserved")));
    return std::move(out_);
  }

 private:
  template <class Use>
  void each(const char* key, const Use& use) {
    const auto list = file_.find(key);
    if (list == file_.end() || !list->is_array()) return;
    for (const json& record : *list)
      if (record.is_object()) use(record);
  }
  static double mib(const json& record, const char* key) {
    return static_cast<double>(whole(record, key, std::int64_t{1} << 50)) / (1 << 20);
  }

  void take(KernelSample sample, std::string group, double seconds) {
    if (!(seconds > 0)) {
      ++out_.passed["no time"];
      return;
    }
    sample.group = std::move(group);
    sample.source = path_;
    sample.gpu = out_.device;
    sample.seconds = seconds;
    out_.kernels.push_back(std::move(sample));
  }

  // `in_run`: at the rate of long work, as in training.
  void product(const json& r, bool in_run) {
    const std::int64_t m = whole(r, "m"), n = whole(r, "n"), k = whole(r, "k");
    const auto precision = precision_in(r);
    if (m == 0 || n == 0 || k == 0 || !precision) {
      ++out_.passed["a product without m, n, k or a known precision"];
      return;
    }
    const std::string role = text_in(r, "role");
    const GemmRole of = role == "input_gradient"    ? GemmRole::input_gradient
                        : role == "weight_gradient" ? GemmRole::weight_gradient
                                                    : GemmRole::forward;
    KernelSample sample;
    sample.operations = {model::gemm("gemm", m, n, k, of, false, *precision,
                                     std::max<std::int64_t>(1, whole(r, "batch")))};
    sample.in_run = in_run;
    take(std::move(sample),
         of == GemmRole::forward          ? "gemm forward"
         : of == GemmRole::input_gradient ? "gemm input gradient"
                                          : "gemm weight gradient",
         seconds_in(r));
    if (in_run && whole(r, "clock_mhz") > 0)
      out_.facts.push_back(fmt::format(
          "{} x {} x {} for seconds: {:.3f} of the rate of a short run, {} MHz{}", m, n, k,
          1e-6 * r.value("burst_us", json(0)).get<double>() / std::max(seconds_in(r), 1e-12),
          whole(r, "clock_mhz"),
          r.value("power_w", json()).is_number()
              ? fmt::format(", {:.0f} W", r.at("power_w").get<double>())
              : ""));
  }

  void attention(const json& r) {
    const std::int64_t batch = whole(r, "batch"), heads = whole(r, "heads", 1 << 12),
                       kv = whole(r, "kv_heads", 1 << 12), head = whole(r, "head_dim", 1 << 12),
                       query = whole(r, "query", 1 << 24), key = whole(r, "key", 1 << 24);
    if (batch == 0 || heads == 0 || kv == 0 || head == 0 || query == 0 || key == 0 ||
        heads % kv != 0) {
      ++out_.passed["attention without its shape"];
      return;
    }
    const bool backward = text_in(r, "direction") == "backward";
    const auto causal = r.find("causal");
    KernelSample sample;
    sample.implementation = text_in(r, "impl");
    sample.operations = {
        model::attention("attention", backward, batch, heads, kv, head, query, key,
                         causal != r.end() && causal->is_boolean() && causal->get<bool>())};
    take(std::move(sample), backward ? "attention backward" : "attention forward", seconds_in(r));
  }

  void pass(const json& r) {
    static const std::map<std::string, OperationKind> kinds = {
        {"norm", OperationKind::norm},           {"elementwise", OperationKind::elementwise},
        {"softmax", OperationKind::softmax},     {"copy", OperationKind::copy},
        {"reduction", OperationKind::reduction}, {"embedding", OperationKind::embedding},
        {"optimizer", OperationKind::optimizer}};
    const auto kind = kinds.find(text_in(r, "kernel"));
    const std::int64_t bytes = whole(r, "bytes", std::int64_t{1} << 42);
    if (kind == kinds.end() || bytes == 0) {
      ++out_.passed["a kernel of an unknown kind or without bytes"];
      return;
    }
    KernelSample sample;
    sample.operations = {model::memory_bound(kind->second, kind->first, Bytes{bytes})};
    take(std::move(sample), kind->first, seconds_in(r));
  }

  void collective(const json& r) {
    static const std::map<std::string, collective::Kind> kinds = {
        {"all_reduce", collective::Kind::all_reduce},
        {"all_gather", collective::Kind::all_gather},
        {"reduce_scatter", collective::Kind::reduce_scatter},
        {"all_to_all", collective::Kind::all_to_all}};
    const auto kind = kinds.find(text_in(r, "kind"));
    CollectiveSample sample;
    sample.ranks = static_cast<int>(whole(r, "ranks", 1 << 17));
    sample.nodes = static_cast<int>(whole(r, "nodes", 1 << 17));
    sample.bytes = {whole(r, "bytes", std::int64_t{1} << 44)};
    sample.seconds = seconds_in(r);
    if (kind == kinds.end() || sample.ranks < 2 || sample.nodes < 1 || sample.bytes.n == 0 ||
        sample.seconds == 0) {
      ++out_.passed["a collective without kind, ranks, nodes, bytes or time"];
      return;
    }
    sample.kind = kind->second;
    sample.source = path_;
    sample.gpu = out_.device;
    out_.collectives.push_back(std::move(sample));
  }

  void field(const json& r) {
    const auto value = r.find("value");
    if (value == r.end() || !value->is_number() || !std::isfinite(value->get<double>()) ||
        value->get<double>() < 0)
      ++out_.passed["a field without its value"];
    else
      out_.fields.push_back({text_in(r, "path"), path_, value->get<double>()});
  }

  void copy(const json& r) {
    const double seconds = seconds_in(r);
    const std::int64_t bytes = whole(r, "bytes", std::int64_t{1} << 42);
    if (seconds > 0 && bytes >= 1 << 30)
      out_.facts.push_back(
          fmt::format("copies {}, {}: {:.1f} GB/s", text_in(r, "direction"),
                      r.value("pinned", json(false)) == json(true) ? "pinned" : "pageable",
                      1e-9 * static_cast<double>(bytes) / seconds));
  }

  const json& file_;
  const std::string& path_;
  Measurements out_;
};

}  // namespace

bool is_capture(std::string_view bytes, const std::string&) {
  const std::string_view head = bytes.substr(0, 4096);
  const std::size_t start = head.find_first_not_of(" \t\r\n");
  return start != std::string_view::npos && head[start] == '{' &&
         head.find("\"rehearse capture ") != std::string_view::npos;
}

Result<Measurements> read_capture(std::string_view bytes, const std::string& path) {
  const json file = json::parse(bytes, nullptr, false);
  if (file.is_discarded() || !file.is_object())
    return Diagnostics{{path, "the JSON of a capture is damaged; measure the node again"}};
  if (text_in(file, "format") != "rehearse capture 1")
    return Diagnostics{{path, fmt::format("a capture of the format '{}'; this program reads "
                                          "'rehearse capture 1'",
                                          text_in(file, "format").substr(0, 40))}};
  return CaptureReader(file, path).read();
}

}  // namespace sim::calibrate
