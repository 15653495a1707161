// records.h — results.jsonl: one complete record per point, on the disk as it comes, safe against a
// kill at any moment.
//
// Invariants
//  (1) A record is one line, written by one append and checked; a line that a kill cut short is the
//      last one and is dropped when the file is opened again.
//  (2) A record begins with {"id":"<16 hex digits>", the hash of everything its answer depends on.
//      The same id never has two different records.
//  (3) One writer at a time (flock).
//  (4) finish() leaves the records in the order of the grid, whatever order they came in.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sim::search {

enum class RecordProblem {
  none,
  io,          // disk full, no permission
  locked,      // another process is writing
  unfinished,  // there are records and nobody said whether to go on or to start over
  mixed,       // two different records of one id, or one that is none
};

class RecordFile {
 public:
  enum class Mode { fresh, go_on, overwrite };

  RecordFile() = default;
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;
  ~RecordFile();

  // Creates the folder and the file; takes the lock. `ids` are the points of the grid in order:
  // fresh: an existing file is replaced if it is a finished sweep (as many records as lines of a
  // results.csv beside it), else the problem is `unfinished`.
  // go_on: `check` says what is wrong with a record of the file, "" if nothing; such a file is
  // refused with the line.
  using Check = std::function<std::string(std::string_view line)>;
  RecordProblem open(const std::string& folder, Mode mode, const std::vector<std::string>& ids,
                     const Check& check = {});
  // Appends a record; the line has no '\n'.
  RecordProblem append(const std::string& id, const std::string& line);
  // Rewrites the file in order of the grid, keeping only its points.
  RecordProblem finish();

  // The record of an id, without '\n'; null when there is none.
  const std::string* find(const std::string& id) const;
  std::size_t dropped_bytes() const { return dropped_; }  // of a record cut short
  std::size_t foreign() const { return foreign_; }        // records that the grid does not have
  const std::string& path() const { return path_; }
  const std::string& message() const { return message_; }  // of the last problem

 private:
  RecordProblem fail(RecordProblem problem, std::string message);
  RecordProblem lock();
  RecordProblem read_back(const Check& check);

  int descriptor_ = -1;
  std::string path_, message_;
  std::vector<std::string> ids_;
  std::map<std::string, std::string, std::less<>> records_;
  std::vector<std::string> arrival_;  // ids in the order of the file
  std::size_t dropped_ = 0, foreign_ = 0;
  bool had_bytes_ = false;
  bool rewrite_ = false;  // the file holds lines that finish() must leave out
};

// The id at the start of a record, "" when it is none.
std::string_view record_id(std::string_view line);

// Whether a record says that the simulator failed on its point; opening the file again drops it, so
// that --resume tries once more.
bool is_failure(std::string_view line);

}  // namespace sim::search
