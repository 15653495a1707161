// reader.h — the catalog of formats that measurements come in.
//
// A source is read whole, unpacked when it is gzip or a tar of one kind, and given to the first
// reader that recognises it. Readers take bytes and never open files; they are bounded in time and
// memory on any input (limits below), and what they cannot use they count.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.h"
#include "sim/calibrate/readers/measurement.h"

namespace sim::calibrate {

class ByteSource;

constexpr std::int64_t max_source_bytes = std::int64_t{1} << 30;    // on disk
constexpr std::int64_t max_unpacked_bytes = std::int64_t{1} << 30;  // after gzip

struct Reader {
  std::string_view name, summary, source;
  // Looks at the beginning only.
  bool (*recognises)(std::string_view bytes, const std::string& path);
  Result<Measurements> (*read)(std::string_view bytes, const std::string& path);
  // The same of a file that is larger than memory should have to hold; may be missing.
  Result<Measurements> (*read_stream)(ByteSource& bytes, const std::string& path) = nullptr;
};
const std::vector<Reader>& readers();

// Reads the file and unpacks it; one that no reader recognises is an error that lists them.
struct Source {
  Measurements measurements;
  const Reader* reader = nullptr;
};
Result<Source> read_source(const std::string& path);
Result<Source> read_bytes(std::string_view bytes, const std::string& path);

// The files of a tar archive, in order, at most 10,000; nothing when it is none.
struct Member {
  std::string name;
  std::string_view bytes;
};
std::vector<Member> members(std::string_view archive);

// The readers, each in a file of its name.
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
bool is_memory_snapshot(std::string_view bytes, const std::string& path);
Result<Measurements> read_memory_snapshot(std::string_view bytes, const std::string& path);

// Helpers of readers.
std::string first_line(std::string_view bytes);
double positive(std::string_view text);  // 0 when it is no finite number above 0
// "2024-08-15" of microseconds since 1970, "" when they are no date.
std::string date_of(double microseconds);
double median(std::vector<double> values);  // 0 of nothing
std::int64_t positive_whole(std::string_view text, std::int64_t limit = std::int64_t{1} << 40);

}  // namespace sim::calibrate
