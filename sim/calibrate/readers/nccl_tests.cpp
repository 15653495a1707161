// nccl_tests.cpp — reads the output of nccl-tests, also with mpirun's prefixes and NCCL's log in
// between. Also reads bigscience's all_reduce benchmark, which prints durations as text.
//
// A line of nccl-tests: size count type [redop] [root] time algbw busbw #wrong time algbw busbw
// #wrong. The first four numbers are out of place (NVIDIA/nccl-tests doc/PERFORMANCE.md explains
// the columns).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "sim/base/median.h"
#include "sim/calibrate/readers/lines.h"
#include "sim/calibrate/readers/reader.h"
#include "sim/calibrate/rows/row_text.h"

namespace sim::calibrate {

namespace {

using collective::Kind;

struct Layout {
  int ranks = 0;
  std::set<std::string> hosts;
  std::string gpu;
  std::optional<Kind> kind;
};

std::optional<Kind> kind_of(std::string_view line) {
  if (contains(line, "all_reduce_perf")) return Kind::all_reduce;
  if (contains(line, "all_gather_perf")) return Kind::all_gather;
  if (contains(line, "reduce_scatter_perf")) return Kind::reduce_scatter;
  if (contains(line, "broadcast_perf")) return Kind::broadcast;
  if (contains(line, "alltoall_perf")) return Kind::all_to_all;
  if (contains(line, "sendrecv_perf")) return Kind::send_receive;
  return std::nullopt;
}

// Reads "#  Rank  0 Group  0 Pid 1234 on node1 device  0 [0x07] NVIDIA A100-SXM4-80GB".
void read_rank(std::string_view line, Layout& layout) {
  const std::vector<std::string_view> words = split_words(line);
  const auto on = std::find(words.begin(), words.end(), "on");
  if (on == words.end() || on + 1 == words.end()) return;
  // Several processes may print the same header, and the log may not show every rank.
  const std::size_t label = line.find("Rank");
  const std::vector<std::string_view> after = label == std::string_view::npos
                                                  ? std::vector<std::string_view>{}
                                                  : split_words(line.substr(label + 4));
  const double rank = after.empty() ? -1 : number(after.front()).value_or(-1);
  if (rank >= 0 && rank < 1 << 20)
    layout.ranks = std::max(layout.ranks, static_cast<int>(rank) + 1);
  if (layout.hosts.size() < 1 << 16) layout.hosts.emplace(*(on + 1));
  const std::size_t bracket = line.find(']');
  if (bracket != std::string_view::npos && layout.gpu.empty())
    layout.gpu = std::string(trimmed(line.substr(bracket + 1, 64)));
}

struct Line {
  std::int64_t bytes = 0;
  double seconds = 0, factor = 0;  // factor: bus bandwidth / algorithm bandwidth
};

std::optional<Line> data_line(std::string_view line) {
  const std::vector<std::string_view> words = split_words(line);
  if (words.size() < 6) return std::nullopt;
  const std::int64_t bytes = positive_whole(words[0], std::int64_t{1} << 44);
  if (bytes == 0 || positive_whole(words[1], std::int64_t{1} << 44) == 0) return std::nullopt;
  // The type is a word. In most tests redop and root follow, then the first time.
  if (number(words[2])) return std::nullopt;
  std::size_t at = 3;
  if (!number(words[at])) {
    ++at;
    if (at < words.size() && words[at].find('.') == std::string_view::npos) ++at;  // root
  }
  if (at + 2 >= words.size()) return std::nullopt;
  Line out;
  out.bytes = bytes;
  out.seconds = positive(words[at]) * 1e-6;
  const double algorithm = positive(words[at + 1]), bus = positive(words[at + 2]);
  if (algorithm >= 0.1) out.factor = bus / algorithm;
  if (out.seconds == 0) return std::nullopt;
  return out;
}

// Number of ranks from the factor: 2(n-1)/n for an all-reduce, (n-1)/n for the others.
int ranks_of(Kind kind, double factor) {
  const double n = kind == Kind::all_reduce ? 2 / (2 - factor) : 1 / (1 - factor);
  return n > 1.5 && n < 1e5 ? static_cast<int>(std::lround(n)) : 0;
}

// Reads the output of bigscience's all_reduce_bench.py: each rank prints its size and the seconds
// of one all-reduce.
void read_durations(std::string_view bytes, Measurements& out, const std::string& path) {
  std::vector<double> seconds;
  double gigabytes = 0;
  int ranks = 0;
  for_lines(bytes, [&](std::string_view line) {
    const std::size_t size = line.find(" data size: ");
    if (size != std::string_view::npos) {
      ranks = std::min(ranks + 1, 1 << 20);
      const std::vector<std::string_view> words = split_words(line.substr(size + 12));
      if (words.size() == 2 && words[1] == "GB") gigabytes = positive(words[0]);
    }
    const std::vector<std::string_view> words = split_words(line);
    if (words.size() == 3 && words[0] == "duration:" && words[2] == "sec") {
      const double value = positive(words[1]);
      if (value > 0 && seconds.size() < 1'000'000) seconds.push_back(value);
    }
  });
  if (seconds.empty() || gigabytes < 1e-9 || gigabytes > 1e5 || ranks < 2) return;
  CollectiveSample sample;
  sample.source = path;
  sample.ranks = ranks;
  sample.nodes = 0;
  sample.bytes = {static_cast<std::int64_t>(gigabytes * 1e9)};
  sample.seconds = median(seconds);
  sample.host_timed = true;
  out.collectives.push_back(sample);
  out.facts.push_back(fmt::format("all-reduce of {:.1f} GB over {} ranks: {:.3f} s (median of {})",
                                  gigabytes, ranks, sample.seconds, seconds.size()));
}

}  // namespace

bool is_nccl_tests(std::string_view bytes, const std::string&) {
  const std::string_view head = bytes.substr(0, 1 << 20);
  return head.find("algbw") != std::string_view::npos ||
         (head.find(" data size: ") != std::string_view::npos &&
          bytes.find("algo throughput:") != std::string_view::npos);
}

Result<Measurements> read_nccl_tests(std::string_view bytes, const std::string& path) {
  Measurements out;
  Layout layout;
  std::vector<Line> lines;
  for_lines(bytes, [&](std::string_view line) {
    line = without_prefix(line);
    if (const auto kind = kind_of(line)) layout.kind = kind;
    if (contains(line, " Rank ") && contains(line, " device ")) read_rank(line, layout);
    if (line.empty() || line[0] == '#') return;
    const auto data = data_line(line);
    if (data && lines.size() < 1'000'000) lines.push_back(*data);
  });
  // Rates are printed with two digits, so the largest size gives the most exact factor.
  double factor = 0;
  std::int64_t largest = 0;
  for (const Line& line : lines) {
    if (line.factor == 0 || line.bytes < largest) continue;
    largest = line.bytes;
    factor = line.factor;
  }
  const Kind kind = layout.kind.value_or(factor > 1.005 ? Kind::all_reduce : Kind::all_gather);
  const int ranks = layout.ranks > 1 ? layout.ranks : ranks_of(kind, factor);
  out.device = layout.gpu;
  for (const Line& line : lines) {
    CollectiveSample sample;
    sample.kind = kind;
    sample.source = path;
    sample.gpu = layout.gpu;
    sample.ranks = ranks;
    sample.nodes = static_cast<int>(layout.hosts.size());
    sample.bytes = {line.bytes};
    sample.seconds = line.seconds;
    if (ranks < 2) {
      ++out.passed["the number of ranks is not stated"];
      continue;
    }
    out.collectives.push_back(std::move(sample));
  }
  if (!out.collectives.empty())
    out.facts.push_back(
        fmt::format("{} on {} ranks{}, {} sizes", collective::name(kind), ranks,
                    layout.hosts.empty() ? "" : fmt::format(" of {} nodes", layout.hosts.size()),
                    out.collectives.size()));
  if (lines.empty()) read_durations(bytes, out, path);
  if (out.collectives.empty() && out.passed.empty())
    return Diagnostics{{path, "no line with a size and its time: is it the output of nccl-tests?"}};
  return out;
}

}  // namespace sim::calibrate
