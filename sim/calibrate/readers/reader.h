// reader.h — the catalog of readers, one per format of measurements.
//
// A source is read into memory and unpacked if it is gzip or tar. The first reader that recognises
// it reads it. Large compressed traces are read piece by piece. Readers take bytes and never open
// files. Their time and memory are bounded on any input (limits below). They count the records that
// they cannot use.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.h"
#include "sim/calibrate/readers/measurement.h"
#include "sim/calibrate/readers/table_columns.h"

namespace sim::calibrate {

class ByteSource;

constexpr std::int64_t max_source_bytes = std::int64_t{1} << 30;    // on disk
constexpr std::int64_t max_unpacked_bytes = std::int64_t{1} << 30;  // after gzip

struct Reader {
  std::string_view name, summary, source;
  // Looks only at the beginning.
  bool (*recognises)(std::string_view bytes, const std::string& path);
  Result<Measurements> (*read)(std::string_view bytes, const std::string& path);
  // Reads a compressed file piece by piece, without holding it in memory; may be nullptr.
  Result<Measurements> (*read_stream)(ByteSource& bytes, const std::string& path) = nullptr;
  bool is_trace = false;                      // read_trace_file() reads it, too
  std::span<const TableColumn> columns = {};  // of a table
};
const std::vector<Reader>& readers();

// Reads and unpacks a file. If no reader recognises it, the error lists all formats.
struct Source {
  Measurements measurements;
  const Reader* reader = nullptr;
};
Result<Source> read_source(const std::string& path);
// The reader of a file by its beginning; nullptr if there is none, or the file cannot be read.
const Reader* reader_of(const std::string& path);
// The command that reads a source with this reader: "rehearse compare train.log PLAN".
std::string command_for(const Reader& reader, const std::string& path);
// True if a reader recognises the bytes, which are not packed.
bool is_measured(std::string_view bytes, const std::string& path);
Result<Source> read_bytes(std::string_view bytes, const std::string& path);

// The files of a tar archive in order, at most 10,000; empty if it is not an archive.
struct Member {
  std::string name;
  std::string_view bytes;
};
std::vector<Member> members(std::string_view archive);

// The readers, each in a file of its own name.
bool is_kernel_table(std::string_view bytes, const std::string& path);
Result<Measurements> read_kernel_table(std::string_view bytes, const std::string& path);
bool is_operation_table(std::string_view bytes, const std::string& path);
Result<Measurements> read_operation_table(std::string_view bytes, const std::string& path);
bool is_nccl_table(std::string_view bytes, const std::string& path);
Result<Measurements> read_nccl_table(std::string_view bytes, const std::string& path);
bool is_profiler_trace(std::string_view bytes, const std::string& path);
Result<Measurements> read_profiler_trace(std::string_view bytes, const std::string& path);
Result<Measurements> read_profiler_stream(ByteSource& bytes, const std::string& path);
bool is_nccl_tests(std::string_view bytes, const std::string& path);
Result<Measurements> read_nccl_tests(std::string_view bytes, const std::string& path);
bool is_megatron_log(std::string_view bytes, const std::string& path);
Result<Measurements> read_megatron_log(std::string_view bytes, const std::string& path);
bool is_torchtitan_log(std::string_view bytes, const std::string& path);
Result<Measurements> read_torchtitan_log(std::string_view bytes, const std::string& path);
bool is_composer_log(std::string_view bytes, const std::string& path);
Result<Measurements> read_composer_log(std::string_view bytes, const std::string& path);
bool is_chakra_trace(std::string_view bytes, const std::string& path);
Result<Measurements> read_chakra_trace(std::string_view bytes, const std::string& path);
bool is_nsight_export(std::string_view bytes, const std::string& path);
Result<Measurements> read_nsight_export(std::string_view bytes, const std::string& path);
bool is_capture(std::string_view bytes, const std::string& path);
Result<Measurements> read_capture(std::string_view bytes, const std::string& path);
bool is_memory_snapshot(std::string_view bytes, const std::string& path);
Result<Measurements> read_memory_snapshot(std::string_view bytes, const std::string& path);

// Helpers of the readers.
std::string first_line(std::string_view bytes);
double positive(std::string_view text);  // 0 if it is not a finite number above 0
// The date of microseconds since 1970, such as "2024-08-15"; "" if they are not a date.
std::string date_of(double microseconds);
// Whether equal collectives of a run, by their times, include waiting for other ranks: fewer than
// five of them, or their lower quartile is more than 10 % above the shortest. The transfer itself
// takes the same time each time, so without waiting the times have a floor.
bool waits_for_peers(std::vector<double> seconds);
std::int64_t positive_whole(std::string_view text, std::int64_t limit = std::int64_t{1} << 40);

}  // namespace sim::calibrate
