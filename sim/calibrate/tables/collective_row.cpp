#include "sim/calibrate/tables/collective_row.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <regex>
#include <utility>

#include "sim/base/ascii.h"
#include "sim/base/brief.h"
#include "sim/calibrate/rows/row_text.h"

namespace sim::calibrate {

namespace {

using collective::Kind;

std::optional<Kind> kind_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, Kind>, 8> names{{
      {"all_reduce", Kind::all_reduce},
      {"all_gather", Kind::all_gather},
      {"reduce_scatter", Kind::reduce_scatter},
      {"alltoall", Kind::all_to_all},
      {"all2all", Kind::all_to_all},
      {"sendrecv", Kind::ring_exchange},
      {"p2p sendrecv", Kind::ring_exchange},
      {"p2p_unidirectional", Kind::send_receive},
  }};
  // "sendrecv (p2p)": what follows in brackets is a remark.
  const std::string_view plain = name.substr(0, name.find(" ("));
  for (const auto& [known, kind] : names)
    if (plain == known) return kind;
  return std::nullopt;
}

// A whole number of a cell in [1, most]; 0 if there is none.
std::int64_t whole(const std::string& text, double most) {
  const std::optional<double> value = number(text);
  if (!value || *value < 1 || *value > most) return 0;
  return static_cast<std::int64_t>(*value);
}

// NICs of a node: "8x400Gb/s" or "8x50GB/s".
void read_nics(const std::string& network, CollectiveRow& out) {
  static const std::regex links(R"((\d{1,2})x(\d{1,4})G(b|B)/s)");
  std::smatch found;
  if (network.size() > 200 || !std::regex_search(network, found, links)) return;
  out.nics = std::stoi(found[1]);
  const std::int64_t rate = std::stoll(found[2]) * 1'000'000'000;
  out.nic = {found[3] == "b" ? rate / 8 : rate};
}

// The settings of NCCL that the column `algo` states; a reason if one of them is not modelled.
std::string read_settings(const std::string& algorithm, CollectiveRow& out) {
  const std::string plain = algorithm.substr(0, algorithm.find_first_of(" ;("));
  out.without_nvls = contains(algorithm, "NVLS disabled");
  if (plain == "Ring" || plain == "Tree" || plain == "NVLS") out.forced = plain;
  if (!plain.empty() && plain != "auto" && out.forced.empty())
    return "algorithm '" + brief(algorithm) + "' is not known";
  const std::size_t setting = algorithm.find("NCCL_");
  if (setting == std::string::npos) return "";
  return "a setting of NCCL that is not modelled: " + algorithm.substr(setting, 80);
}

double time_of(const input::TableRow& row, const CollectiveRow& read) {
  const auto cell = [&](std::string_view column) {
    const auto found = row.cells.find(column);
    return found == row.cells.end() ? 0.0 : number(found->second).value_or(0);
  };
  if (const double time = cell("time_us_oop"); time > 0) return time;
  const double bus = cell("busbw_oop");
  if (bus <= 0) return 0;
  return collective::bus_factor(read.kind, read.gpus) * static_cast<double>(read.bytes) / bus *
         1e-3;
}

// "VIA-Research/vTrain@f8dda84:trace/a100" is "VIA-Research/vTrain".
std::string short_source(const std::string& source) {
  return source.substr(0, std::min(source.find('@'), source.find(" (")));
}

}  // namespace

CollectiveRow collective_row(const input::TableRow& row) {
  const auto text = [&](std::string_view column) {
    const auto found = row.cells.find(column);
    return found == row.cells.end() ? std::string() : found->second;
  };
  CollectiveRow out;
  out.gpu = text("gpu");
  out.source = short_source(text("source"));
  out.nccl_version = text("nccl_version");
  constexpr double most_bytes = 1099511627776.0;  // 1 TiB
  out.gpus = static_cast<int>(whole(text("n_gpus"), 1 << 20));
  out.nodes = static_cast<int>(whole(text("nodes"), 1 << 20));
  out.bytes = whole(text("bytes"), most_bytes);
  out.multi_node_nvlink = contains(text("intra_net"), "MNNVL");
  out.network = text(out.nodes > 1 && !text("inter_net").empty() ? "inter_net" : "intra_net");
  out.host_timed =
      contains(text("notes") + text("algo"), "host-timed") || contains(text("notes"), "bench.py");
  const std::optional<Kind> kind = kind_of(text("collective"));
  if (!kind) {
    out.reason = "collective '" + brief(text("collective")) + "' is not compared";
    return out;
  }
  out.kind = *kind;
  if (out.bytes == 0) {
    out.reason = "no size is stated";
  } else if (out.gpus < 2 || out.nodes < 1 || out.gpus % out.nodes != 0) {
    out.reason = "no number of GPUs and nodes is stated";
  } else {
    out.reason = read_settings(text("algo"), out);
  }
  if (!out.reason.empty()) return out;
  if (out.nodes > 1 && !out.multi_node_nvlink) read_nics(text("inter_net"), out);
  out.measured_us = time_of(row, out);
  if (out.measured_us <= 0) out.reason = "no time is published";
  return out;
}

}  // namespace sim::calibrate
