// nsight.cpp — reads reports of Nsight Systems exported to SQLite.
//
// Tables (docs.nvidia.com/nsight-systems, "SQLite Export Schema Reference"):
// - StringIds (id, value)
// - CUPTI_ACTIVITY_KIND_KERNEL (start, end, correlationId, shortName, demangledName), in
//   nanoseconds
// - CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId, nameId)
// - TARGET_INFO_GPU (name, totalMemory)
// - NVTX_EVENTS (start, end, text, globalTid)
//
// PyTorch's emit_nvtx(record_shapes=True) names ranges "aten::mm, seq = 5, sizes = [[8, 4], [4,
// 2]]". A launch inside of a range belongs to its operator.
//
// The file is untrusted: it is opened in memory, read only, with an untrusted schema. Every query
// ends after a bounded number of steps.
#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/calibrate/readers/reader.h"
#include "sim/calibrate/readers/trace_events.h"
#include "sim/calibrate/rows/row_text.h"

namespace sim::calibrate {

namespace {

constexpr int steps_between_looks = 1'000'000;
constexpr int most_looks = 4'000;  // 4e9 steps of SQLite's virtual machine
constexpr std::size_t max_rows = 8'000'000;
// Names of kernels have at most a few kilobytes. A file may name one text in millions of rows, so
// the sum is bounded, too.
constexpr int max_text_bytes = 1 << 16;
constexpr std::int64_t max_all_text_bytes = std::int64_t{4} << 30;

struct Close {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

class Database {
 public:
  // Opens the database. Returns "" or the reason why it cannot be read.
  std::string open(std::string_view bytes) {
    sqlite3* raw = nullptr;
    if (sqlite3_open_v2(":memory:", &raw, SQLITE_OPEN_READWRITE, nullptr) != SQLITE_OK) {
      sqlite3_close(raw);
      return "SQLite could not start";
    }
    database_.reset(raw);
    sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
    sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
    sqlite3_limit(raw, SQLITE_LIMIT_LENGTH, 1 << 24);  // also of rows that are not read
    sqlite3_limit(raw, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_progress_handler(raw, steps_between_looks, look, &looks_);
    // SQLite never writes to the bytes of a read-only database.
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
    const auto size = static_cast<sqlite3_int64>(bytes.size());
    if (sqlite3_deserialize(raw, "main", data, size, size, SQLITE_DESERIALIZE_READONLY) !=
        SQLITE_OK)
      return sqlite3_errmsg(raw);
    return "";
  }

  bool has(const std::string& table, const std::string& column) {
    bool found = false;
    each("SELECT 1 FROM pragma_table_info('" + table + "') WHERE name = '" + column + "'",
         [&](sqlite3_stmt*) { found = true; });
    return found;
  }

  // Calls `row` for each row of the result. Returns "" or SQLite's error.
  std::string each(const std::string& query, const std::function<void(sqlite3_stmt*)>& row) {
    sqlite3_stmt* raw = nullptr;
    if (sqlite3_prepare_v2(database_.get(), query.c_str(), -1, &raw, nullptr) != SQLITE_OK)
      return sqlite3_errmsg(database_.get());
    const std::unique_ptr<sqlite3_stmt, Finalize> statement(raw);
    for (std::size_t rows = 0;; ++rows) {
      const int state = sqlite3_step(raw);
      if (state == SQLITE_DONE) return "";
      if (state != SQLITE_ROW) return sqlite3_errmsg(database_.get());
      if (rows >= max_rows) return fmt::format("more than {} rows", max_rows);
      if (std::string problem = bound_text(raw); !problem.empty()) return problem;
      row(raw);
    }
  }

 private:
  static int look(void* looks) { return ++*static_cast<int*>(looks) > most_looks ? 1 : 0; }

  std::string bound_text(sqlite3_stmt* row) {
    for (int c = 0; c < sqlite3_column_count(row); ++c) {
      if (sqlite3_column_type(row, c) != SQLITE_TEXT) continue;
      const int bytes = sqlite3_column_bytes(row, c);
      if (bytes > max_text_bytes)
        return fmt::format("a text of {} bytes; the most is {}", bytes, max_text_bytes);
      text_bytes_ += bytes;
    }
    if (text_bytes_ <= max_all_text_bytes) return "";
    return fmt::format("more than {} GiB of text", max_all_text_bytes >> 30);
  }

  std::unique_ptr<sqlite3, Close> database_;
  std::int64_t text_bytes_ = 0;
  int looks_ = 0;
};

std::string text(sqlite3_stmt* row, int column) {
  const auto* value = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
  return value ? std::string(value, static_cast<std::size_t>(sqlite3_column_bytes(row, column)))
               : std::string();
}

double micro(sqlite3_stmt* row, int column) {
  return static_cast<double>(sqlite3_column_int64(row, column)) * 1e-3;
}

// An NVTX range with an operator and its sizes.
struct Range {
  double start, end;
  std::string thread, name, sizes;
};

std::vector<Range> ranges(Database& database) {
  std::vector<Range> all;
  if (!database.has("NVTX_EVENTS", "text")) return all;
  database.each(
      "SELECT start, end, globalTid, text FROM NVTX_EVENTS WHERE text LIKE 'aten::%sizes = %' AND "
      "end IS NOT NULL ORDER BY start",
      [&](sqlite3_stmt* row) {
        const std::string label = text(row, 3);
        const std::size_t sizes = label.find("sizes = ");
        std::string list = label.substr(sizes + 8);
        list = list.substr(0, list.rfind(']') + 1);
        all.push_back(
            {micro(row, 0), micro(row, 1), text(row, 2), label.substr(0, label.find(',')), list});
      });
  return all;
}

const char* type_of(const std::string& kernel) {
  if (contains(kernel, "bf16") || contains(kernel, "bfloat16")) return "[\"c10::BFloat16\"]";
  if (contains(kernel, "f16") || contains(kernel, "h16") || contains(kernel, "half") ||
      contains(kernel, "_h"))
    return "[\"c10::Half\"]";
  if (contains(kernel, "e4m3") || contains(kernel, "fp8")) return "[\"Float8\"]";
  return "[\"float\"]";
}

// The innermost range around a launch: the last range that began before it and has not ended.
const Range* around(const std::vector<Range>& all, double at, const std::string& thread) {
  auto it = std::upper_bound(all.begin(), all.end(), at,
                             [](double value, const Range& r) { return value < r.start; });
  for (int looked = 0; it != all.begin() && looked < 256; ++looked) {
    --it;
    if (it->end >= at && it->thread == thread) return &*it;
  }
  return nullptr;
}

std::string read_device(Database& database, TraceFile& file) {
  if (!database.has("TARGET_INFO_GPU", "name")) return "";
  const char* memory = database.has("TARGET_INFO_GPU", "totalMemory") ? "totalMemory" : "0";
  std::string name;
  database.each(fmt::format("SELECT name, {} FROM TARGET_INFO_GPU LIMIT 1", memory),
                [&](sqlite3_stmt* row) {
                  name = text(row, 0);
                  const nlohmann::json device = {
                      {{"name", name}, {"totalGlobalMem", sqlite3_column_int64(row, 1)}}};
                  file.top["deviceProperties"] =
                      device.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
                });
  return name;
}

void read_start(Database& database, TraceFile& file) {
  if (!database.has("TARGET_INFO_SESSION_START_TIME", "utcEpochNs")) return;
  database.each("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME LIMIT 1",
                [&](sqlite3_stmt* row) {
                  file.top["baseTimeNanoseconds"] = fmt::format("{}", sqlite3_column_int64(row, 0));
                });
}

struct Launch {
  double start;
  std::string thread;
};

// The launches by correlation, as calls of the file. Returns "" or the database's error.
std::string read_launches(Database& database, TraceFile& file,
                          std::map<std::int64_t, Launch>& launches) {
  if (!database.has("CUPTI_ACTIVITY_KIND_RUNTIME", "nameId")) return "";
  return database.each(
      "SELECT r.start, r.end, r.globalTid, r.correlationId, s.value FROM "
      "CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId ORDER BY r.start",
      [&](sqlite3_stmt* row) {
        TraceEvent e;
        e.kind = EventKind::call;
        e.start_us = micro(row, 0);
        e.duration_us = micro(row, 1) - e.start_us;
        e.thread = file.texts->keep(text(row, 2));
        e.name = file.texts->keep(text(row, 4));
        e.correlation = sqlite3_column_int64(row, 3);
        launches[e.correlation] = {e.start_us, std::string(e.thread)};
        file.events.push_back(std::move(e));
      });
}

// Adds a kernel and, if it is the first of its range, the range as its operator.
void add_kernel(TraceEvent kernel, const std::vector<Range>& known, const Range* range,
                std::set<const Range*>& claimed, TraceFile& file) {
  if (range != nullptr) {
    kernel.external = range - known.data();
    if (claimed.insert(range).second) {
      TraceEvent op;
      op.name = file.texts->keep(range->name);
      op.external = kernel.external;
      file.events.push_back(op);
      file.add_argument(Argument::input_dims, range->sizes);
      file.add_argument(Argument::input_types, type_of(std::string(kernel.name)));
    }
  }
  file.events.push_back(std::move(kernel));
}

// The kernels and their operators. Returns "" or the database's error.
std::string read_kernels(Database& database, const std::map<std::int64_t, Launch>& launches,
                         TraceFile& file) {
  const std::vector<Range> known = ranges(database);
  std::set<const Range*> claimed;
  const bool streams = database.has("CUPTI_ACTIVITY_KIND_KERNEL", "streamId");
  return database.each(
      fmt::format("SELECT k.start, k.end, k.correlationId, s.value, {} FROM "
                  "CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.shortName ORDER BY "
                  "k.start",
                  streams ? "k.streamId" : "0"),
      [&](sqlite3_stmt* row) {
        TraceEvent e;
        e.kind = EventKind::kernel;
        e.start_us = micro(row, 0);
        e.duration_us = micro(row, 1) - e.start_us;
        e.name = file.texts->keep(text(row, 3));
        e.correlation = sqlite3_column_int64(row, 2);
        e.stream = streams ? sqlite3_column_int(row, 4) : -1;
        if (!(e.duration_us > 0)) return;
        const auto launch = launches.find(e.correlation);
        const Range* range = launch == launches.end()
                                 ? nullptr
                                 : around(known, launch->second.start, launch->second.thread);
        add_kernel(std::move(e), known, range, claimed, file);
      });
}

}  // namespace

bool is_nsight_export(std::string_view bytes, const std::string&) {
  return bytes.starts_with("SQLite format 3");
}

Result<TraceFile> read_nsight_events(std::string_view bytes, const std::string& path) {
  Database database;
  std::string problem = database.open(bytes);
  if (!problem.empty()) return Diagnostics{{path, problem}};
  if (!database.has("CUPTI_ACTIVITY_KIND_KERNEL", "shortName") ||
      !database.has("StringIds", "value"))
    return Diagnostics{{path,
                        "no table CUPTI_ACTIVITY_KIND_KERNEL: export it with `nsys export "
                        "--type sqlite` from a report with --trace=cuda"}};
  TraceFile file;
  read_device(database, file);
  read_start(database, file);
  std::map<std::int64_t, Launch> launches;
  problem = read_launches(database, file, launches);
  if (problem.empty()) problem = read_kernels(database, launches, file);
  if (!problem.empty()) return Diagnostics{{path, problem}};
  return file;
}

Result<Measurements> read_nsight_export(std::string_view bytes, const std::string& path) {
  const Result<TraceFile> file = read_nsight_events(bytes, path);
  if (!file) return file.errors();
  return measurements_of(*file, path);
}

}  // namespace sim::calibrate
