#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <optional>

#include "sim/calibrate/readers/packed_bytes.h"
#include "sim/calibrate/readers/reader.h"
#include "sim/input/text/textproto.h"

namespace sim::calibrate {

const std::vector<Reader>& readers() {
  static const std::vector<Reader> all = {
      {"gemm.csv", "matrix products and attention by shape", "calibration/measured/README.md",
       is_kernel_table, read_kernel_table, nullptr, false, kernel_table_columns()},
      {"op_profiles.csv", "operations of Megatron-LM by hidden size and micro batch",
       "calibration/measured/README.md", is_operation_table, read_operation_table, nullptr, false,
       operation_table_columns()},
      {"nccl.csv", "collectives by size", "calibration/measured/README.md", is_nccl_table,
       read_nccl_table, nullptr, false, collective_table_columns()},
      {"capture", "a node measured by the script of `rehearse capture` (JSON)",
       "calibration/capture/README.md", is_capture, read_capture},
      {"profiler trace", "PyTorch profiler (Kineto, Chrome JSON), also .gz",
       "pytorch.org/docs/stable/profiler.html", is_profiler_trace, read_profiler_trace,
       read_profiler_stream, true},
      {"nccl-tests", "output of nccl-tests, or a log of bus bandwidths",
       "github.com/NVIDIA/nccl-tests doc/PERFORMANCE.md", is_nccl_tests, read_nccl_tests},
      {"Megatron-LM log", "iteration times of Megatron-LM, NeMo or Megatron-DeepSpeed",
       "github.com/NVIDIA/Megatron-LM megatron/training/training.py", is_megatron_log,
       read_megatron_log},
      {"torchtitan log", "tokens per second and memory of torchtitan",
       "github.com/pytorch/torchtitan torchtitan/components/metrics.py", is_torchtitan_log,
       read_torchtitan_log},
      {"Composer log", "throughput and memory of MosaicML Composer and LLM Foundry",
       "github.com/mosaicml/composer composer/callbacks/speed_monitor.py", is_composer_log,
       read_composer_log},
      {"memory snapshot", "torch.cuda.memory._dump_snapshot (pickle)",
       "pytorch.org/docs/stable/torch_cuda_memory.html", is_memory_snapshot, read_memory_snapshot},
      {"Nsight Systems", "SQLite export: nsys export --type sqlite",
       "docs.nvidia.com/nsight-systems, Exporting", is_nsight_export, read_nsight_export, nullptr,
       true},
      {"Chakra trace", "execution trace in protobuf (.et) or JSON, also .gz",
       "github.com/mlcommons/chakra schema/protobuf/et_def.proto", is_chakra_trace,
       read_chakra_trace, nullptr, true},
  };
  return all;
}

const Reader* reader_of(const std::string& path) {
  const Result<std::string> raw = input::read_file(path, max_source_bytes);
  if (!raw) return nullptr;
  PackedBytes packed(*raw);
  const std::string_view head = is_gzip(*raw) ? packed.look(1 << 16) : std::string_view(*raw);
  const auto found = std::ranges::find_if(
      readers(), [&](const Reader& reader) { return reader.recognises(head, path); });
  return found == readers().end() ? nullptr : &*found;
}

std::string command_for(const Reader& reader, const std::string& path) {
  if (reader.name == "memory snapshot") return "rehearse memory replay " + path;
  if (reader.name.ends_with(" log")) return fmt::format("rehearse compare {} PLAN", path);
  return fmt::format("rehearse calibrate {}{}", path, reader.is_trace ? " --plan PLAN" : "");
}

bool is_measured(std::string_view bytes, const std::string& path) {
  return std::ranges::any_of(readers(),
                             [&](const Reader& reader) { return reader.recognises(bytes, path); });
}

Result<Source> read_bytes(std::string_view bytes, const std::string& path) {
  std::vector<std::string> names;
  for (const Reader& reader : readers()) {
    names.emplace_back(reader.name);
    if (!reader.recognises(bytes, path)) continue;
    Result<Measurements> read = reader.read(bytes, path);
    if (!read) return read.errors();
    return Source{*read, &reader};
  }
  if (bytes.empty()) return Diagnostics{{path, "the file is empty"}};
  return Diagnostics{
      {path, fmt::format("holds no measurements that are known; there are {}; "
                         "`rehearse doc gemm.csv` lists the columns of a table; a "
                         "table of runs has row_id, tp and pp (`rehearse init runs`)",
                         fmt::join(names, ", "))}};
}

std::vector<Member> members(std::string_view archive) {
  // Format ustar: blocks of 512 bytes; name at 0, size in octal at 124, kind at 156, magic at 257.
  constexpr std::size_t block = 512;
  std::vector<Member> files;
  std::size_t at = 0;
  while (at + block <= archive.size() && files.size() < 10'000) {
    const std::string_view head = archive.substr(at, block);
    if (head.substr(257, 5) != "ustar") break;
    std::size_t size = 0;
    for (const char c : head.substr(124, 11))
      if (c >= '0' && c <= '7') size = size * 8 + static_cast<std::size_t>(c - '0');
    at += block;
    if (size > archive.size() - at) break;
    const std::string_view name = head.substr(0, std::min<std::size_t>(100, head.find('\0')));
    if (head[156] == '0' || head[156] == '\0')
      files.push_back({std::string(name), archive.substr(at, size)});
    at += std::min((size + block - 1) / block * block, archive.size() - at);
  }
  return files;
}

namespace {

// Reads a compressed file piece by piece, if a reader recognises its beginning and supports that.
std::optional<Result<Source>> read_in_pieces(const std::string& raw, const std::string& path) {
  if (!is_gzip(raw)) return std::nullopt;
  PackedBytes bytes(raw);
  const std::string_view head = bytes.look(1 << 16);
  for (const Reader& reader : readers()) {
    if (!reader.recognises(head, path)) continue;
    if (!reader.read_stream) return std::nullopt;
    Result<Measurements> read = reader.read_stream(bytes, path);
    if (!bytes.problem().empty()) return Result<Source>(Diagnostics{{path, bytes.problem()}});
    if (!read) return Result<Source>(read.errors());
    return Result<Source>(Source{*read, &reader});
  }
  return std::nullopt;
}

}  // namespace

Result<Source> read_source(const std::string& path) {
  const Result<std::string> raw = input::read_file(path, max_source_bytes);
  if (!raw) return raw.errors();
  if (auto read = read_in_pieces(*raw, path)) return *read;
  const Result<std::string> plain = unpacked(*raw, path);
  if (!plain) return plain.errors();
  const std::vector<Member> files = members(*plain);
  if (files.empty()) return read_bytes(*plain, path);
  Source all;
  Diagnostics problems;
  for (const Member& file : files) {
    const std::string name = fmt::format("{}({})", path, file.name);
    const Result<std::string> bytes = unpacked(std::string(file.bytes), name);
    const Result<Source> one = bytes ? read_bytes(*bytes, name) : bytes.errors();
    if (!one) {
      problems.insert(problems.end(), one.errors().begin(), one.errors().end());
      continue;
    }
    all.reader = one->reader;
    all.measurements.add(one->measurements);
  }
  if (!all.reader) return problems;
  if (!problems.empty())
    all.measurements.passed["files of the archive that no reader knows"] +=
        static_cast<std::int64_t>(problems.size());
  return all;
}

std::string first_line(std::string_view bytes) {
  std::string_view line = bytes.substr(0, std::min<std::size_t>(bytes.size(), 4096));
  line = line.substr(0, line.find('\n'));
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return std::string(line);
}

double positive(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return 0;
  return std::isfinite(value) && value > 0 ? value : 0;
}

std::string date_of(double microseconds) {
  // Only dates from 2010 to 2100: some traces count from the start of the machine.
  if (!(microseconds > 1.26e15 && microseconds < 4.1e15)) return "";
  const auto day =
      std::chrono::floor<std::chrono::days>(std::chrono::sys_time<std::chrono::microseconds>(
          std::chrono::microseconds(static_cast<std::int64_t>(microseconds))));
  const std::chrono::year_month_day date(day);
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
}

bool waits_for_peers(std::vector<double> seconds) {
  constexpr std::size_t least = 5;
  constexpr double of_floor = 1.10;
  if (seconds.size() < least) return true;
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 4] > of_floor * seconds.front();
}

std::int64_t positive_whole(std::string_view text, std::int64_t limit) {
  const double value = positive(text);
  return value >= 1 && value <= static_cast<double>(limit) && value == std::floor(value)
             ? static_cast<std::int64_t>(value)
             : 0;
}

}  // namespace sim::calibrate
