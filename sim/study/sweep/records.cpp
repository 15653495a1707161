#include "sim/study/sweep/records.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cassert>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>
#include <utility>

#include "sim/base/machine_error.h"
#include "sim/output/output.h"

namespace sim::study {

namespace {
constexpr std::string_view head = "{\"id\":\"";
constexpr std::size_t id_digits = 16;
constexpr std::string_view seal = ",\"checksum\":\"";
constexpr std::size_t seal_bytes = seal.size() + 16 + 2;
// A record has a few kilobytes, a file with a million points a few gigabytes.
constexpr off_t file_bytes_max = off_t{1} << 33;

bool read_all(int descriptor, std::string& text) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return false;
  if (status.st_size > file_bytes_max) {
    errno = EFBIG;
    return false;
  }
  text.resize(static_cast<std::size_t>(status.st_size));
  std::size_t at = 0;
  while (at < text.size()) {
    const ssize_t got =
        ::pread(descriptor, text.data() + at, text.size() - at, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) break;
    at += static_cast<std::size_t>(got);
  }
  text.resize(at);
  return true;
}
}  // namespace

std::string_view record_id(std::string_view line) {
  if (line.size() <= head.size() + id_digits || line.substr(0, head.size()) != head) return {};
  const std::string_view id = line.substr(head.size(), id_digits);
  if (id.find_first_not_of("0123456789abcdef") != std::string_view::npos) return {};
  if (line.substr(head.size() + id_digits, 1) != "\"") return {};
  return id;
}

std::string sealed(std::string_view line) {
  assert(line.size() >= 2 && line.back() == '}');
  return fmt::format("{}{}{:016x}\"}}", line.substr(0, line.size() - 1), seal,
                     XXH3_64bits(line.data(), line.size()));
}

bool is_sound(std::string_view line) {
  if (line.size() < seal_bytes + 1) return false;
  const std::string whole = std::string(line.substr(0, line.size() - seal_bytes)) + "}";
  return sealed(whole) == line;
}

bool is_failure(std::string_view line) {
  return line.find("\"outcome\":\"failed\"") != std::string_view::npos;
}

RecordFile::~RecordFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

RecordProblem RecordFile::fail(RecordProblem problem, std::string message) {
  message_ = std::move(message);
  return problem;
}

// Locks the file with flock(2). A finishing writer replaces the file, so the name is checked again
// after locking.
RecordProblem RecordFile::lock() {
  using namespace std::chrono_literals;
  const auto patience = std::chrono::steady_clock::now() + 1s;
  for (int attempt = 0; attempt < 100; ++attempt) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (descriptor_ < 0 && errno == EINTR) continue;
    if (descriptor_ < 0) return fail(RecordProblem::io, path_ + ": " + std::strerror(errno));
    int locked = 0;
    do {
      locked = ::flock(descriptor_, LOCK_EX | LOCK_NB);
    } while (locked != 0 && errno == EINTR);
    if (locked != 0) {
      if (errno == EWOULDBLOCK) {
        // Workers of a killed sweep hold the lock until they notice its end.
        if (std::chrono::steady_clock::now() >= patience)
          return fail(RecordProblem::locked, path_ + " is being written by another process");
        ::close(std::exchange(descriptor_, -1));
        std::this_thread::sleep_for(20ms);
        continue;
      }
      // Some network file systems have no locks; then the user must avoid two writers.
      if (errno != ENOLCK && errno != EOPNOTSUPP && errno != ENOSYS) {
        return fail(RecordProblem::io, path_ + ": " + std::strerror(errno));
      }
    }
    struct stat ours {};
    struct stat named {};
    if (::fstat(descriptor_, &ours) == 0 && ::stat(path_.c_str(), &named) == 0 &&
        ours.st_ino == named.st_ino && ours.st_dev == named.st_dev) {
      return RecordProblem::none;
    }
    ::close(descriptor_);
    descriptor_ = -1;
  }
  return fail(RecordProblem::locked, path_ + " is being replaced by another process");
}

FolderContents contents_of(const std::string& folder) {
  if (file_exists(folder + "/results.jsonl")) return FolderContents::sweep;
  if (!file_exists(folder + "/results.csv")) return FolderContents::none;
  return file_exists(folder + "/plan.json") ? FolderContents::plan : FolderContents::foreign_table;
}

RecordProblem RecordFile::open(const std::string& folder, Mode mode,
                               const std::vector<std::string>& ids, const Check& readable) {
  assert(descriptor_ < 0);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return fail(RecordProblem::io, folder + ": " + error.message());
  path_ = folder + "/results.jsonl";
  ids_ = ids;
  const FolderContents there = contents_of(folder);
  if ((mode == Mode::fresh || mode == Mode::go_on) &&
      (there == FolderContents::foreign_table || there == FolderContents::plan))
    return fail(RecordProblem::foreign,
                folder +
                    "/results.csv stands without the records of a sweep: it is of other work, "
                    "which would be lost");
  if (const RecordProblem problem = lock(); problem != RecordProblem::none) return problem;
  if (const RecordProblem problem = read_back(readable);
      problem != RecordProblem::none && mode != Mode::overwrite)
    return problem;
  if (mode != Mode::overwrite) return keep_what_is_there(folder, mode);
  records_.clear();
  arrival_.clear();
  dropped_ = foreign_ = damaged_ = 0;
  std::filesystem::remove(folder + "/results.csv", error);
  rewrite_ = false;
  while (::ftruncate(descriptor_, 0) != 0) {  // also if what is there could not be read
    if (errno == EINTR) continue;
    return fail(RecordProblem::io, path_ + ": " + std::strerror(errno));
  }
  return RecordProblem::none;
}

// Checks existing records against the mode. Only torn lines are lost.
RecordProblem RecordFile::keep_what_is_there(const std::string& folder, Mode mode) {
  const std::size_t held = records_.size() + foreign_ + damaged_;
  if (mode == Mode::fresh && held > 0) {
    // results.csv is written last; without it the sweep did not finish.
    const bool ended = std::filesystem::exists(folder + "/results.csv");
    return fail(ended ? RecordProblem::finished : RecordProblem::unfinished,
                fmt::format("{} holds {} records of a sweep that {}", path_, held,
                            ended ? "is done" : "did not end"));
  }
  if (mode == Mode::go_on && foreign_ > 0) {
    return fail(RecordProblem::foreign,
                fmt::format("{} holds {} records of other points, machines or versions, which "
                            "would be lost",
                            path_, foreign_));
  }
  if (dropped_ == 0) return RecordProblem::none;
  struct stat status {};
  const bool cut = ::fstat(descriptor_, &status) == 0 &&
                   ::ftruncate(descriptor_, status.st_size - static_cast<off_t>(dropped_)) == 0;
  return cut ? RecordProblem::none : fail(RecordProblem::io, path_ + ": " + std::strerror(errno));
}

RecordProblem RecordFile::read_back(const Check& readable) {
  std::string text;
  if (!read_all(descriptor_, text)) {
    return fail(RecordProblem::io, path_ + ": " + std::strerror(errno));
  }
  const std::size_t last = text.rfind('\n');
  const std::size_t keep = last == std::string::npos ? 0 : last + 1;
  dropped_ = text.size() - keep;
  const std::set<std::string, std::less<>> known(ids_.begin(), ids_.end());
  for (std::size_t begin = 0; begin < keep;) {
    const std::size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const std::string id(record_id(line));
    // Older versions wrote no checksums, so such records of other points are foreign, not damaged.
    const bool foreign = known.count(id) == 0 && !id.empty() &&
                         (is_sound(line) || line.find(seal) == std::string::npos);
    const bool damaged = !foreign && (!is_sound(line) || (readable && !readable(line)));
    foreign_ += foreign ? 1 : 0;
    damaged_ += damaged ? 1 : 0;
    if (foreign || damaged || is_failure(line)) {
      rewrite_ = true;
      continue;
    }
    const auto [there, is_new] = records_.emplace(id, line);
    if (is_new)
      arrival_.push_back(id);
    else
      rewrite_ = true;
    if (there->second != line) {
      return fail(RecordProblem::mixed, path_ + " holds two different results of " + id);
    }
  }
  return RecordProblem::none;
}

RecordProblem RecordFile::append(const std::string& id, const std::string& line) {
  assert(descriptor_ >= 0);
  assert(record_id(line) == id);
  assert(line.find('\n') == std::string::npos);
  const std::string record = sealed(line);
  const std::string bytes = record + "\n";
  // One write with O_APPEND: it is complete at the end of the file, or short if the disk is full.
  ssize_t written = 0;
  do {
    written = ::write(descriptor_, bytes.data(), bytes.size());
  } while (written < 0 && errno == EINTR);
  if (written < 0) return fail(RecordProblem::io, path_ + ": " + std::strerror(errno));
  if (static_cast<std::size_t>(written) < bytes.size()) {
    return fail(RecordProblem::io, path_ + ": disk full after " + std::to_string(written) + " of " +
                                       std::to_string(bytes.size()) + " bytes of a record");
  }
  if (records_.emplace(id, record).second) arrival_.push_back(id);
  return RecordProblem::none;
}

const std::string* RecordFile::find(const std::string& id) const {
  const auto there = records_.find(id);
  return there == records_.end() ? nullptr : &there->second;
}

RecordProblem RecordFile::finish() {
  assert(descriptor_ >= 0);
  std::vector<std::string> wanted;
  for (const std::string& id : ids_) {
    if (records_.count(id) == 1) wanted.push_back(id);
  }
  if (wanted == arrival_ && !rewrite_) {
    while (::fsync(descriptor_) != 0 && errno != EINVAL) {
      if (errno == EINTR) continue;
      return fail(RecordProblem::io, path_ + ": " + std::strerror(errno));
    }
    return RecordProblem::none;
  }
  std::string text;
  for (const std::string& id : wanted) text += records_.at(id) + "\n";
  const std::string problem = output::write_file(path_, text);
  if (!problem.empty()) return fail(RecordProblem::io, problem);
  return RecordProblem::none;
}

}  // namespace sim::study
