// records.h — results.jsonl: one complete record per point, written as it arrives, safe against a
// kill at any moment.
//
// Invariants
// (1) A record is one line, written by one append and checked. A torn line is always the last one
//     and is dropped when the file is opened again.
// (2) A record begins with {"id":"<16 hex digits>", a hash of everything that its answer depends
//     on. It ends with its checksum (XXH3 of the record without it). A record with a wrong checksum
//     is damaged and computed again. One id never has two different records.
// (3) There is one writer at a time (flock).
// (4) finish() sorts the records in the order of the grid.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sim::study {

enum class RecordProblem {
  none,
  io,          // disk full, no permission
  locked,      // another process is writing
  unfinished,  // records exist and the mode neither resumes nor overwrites
  finished,    // the same, and the sweep had finished
  foreign,     // records of other points, which resuming would drop
  mixed,       // two different records of one id
};

// What a folder of results holds: nothing, records of a sweep, the answer of a search, or a
// results.csv of other work, which a sweep must not replace.
enum class FolderContents { none, sweep, plan, foreign_table };
FolderContents contents_of(const std::string& folder);

class RecordFile {
 public:
  // fresh: refuses a folder with records, as `finished` if results.csv exists, else as
  // `unfinished`. go_on: keeps the records. Refuses records of other points as `foreign`, and also
  // a results.csv without records. take_over: as go_on, but drops foreign records. overwrite:
  // starts over.
  enum class Mode { fresh, go_on, take_over, overwrite };

  RecordFile() = default;
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;
  ~RecordFile();

  // Creates the folder and the file and takes the lock. `ids` are the points of the grid in order.
  // `readable` tells whether the caller can use a record; unusable records count as damaged.
  using Check = std::function<bool(std::string_view line)>;
  RecordProblem open(const std::string& folder, Mode mode, const std::vector<std::string>& ids,
                     const Check& readable = {});
  // Appends a record with its checksum. REQUIRES: the line has no '\n' and no checksum.
  RecordProblem append(const std::string& id, const std::string& line);
  // Rewrites the file in the order of the grid, with only its points.
  RecordProblem finish();

  // The record of an id with its checksum, without '\n'; nullptr if there is none.
  const std::string* find(const std::string& id) const;
  std::size_t dropped_bytes() const { return dropped_; }  // of a torn record
  std::size_t foreign() const { return foreign_; }        // records of points outside of the grid
  std::size_t damaged() const { return damaged_; }        // lines with a wrong checksum
  const std::string& path() const { return path_; }
  const std::string& message() const { return message_; }  // of the last problem

 private:
  RecordProblem fail(RecordProblem problem, std::string message);
  RecordProblem lock();
  RecordProblem read_back(const Check& readable);
  RecordProblem keep_what_is_there(const std::string& folder, Mode mode);

  int descriptor_ = -1;
  std::string path_, message_;
  std::vector<std::string> ids_;
  std::map<std::string, std::string, std::less<>> records_;
  std::vector<std::string> arrival_;  // ids in the order of the file
  std::size_t dropped_ = 0, foreign_ = 0, damaged_ = 0;
  bool rewrite_ = false;  // the file has lines that finish() must leave out
};

// The id at the start of a record; "" if the line is not a record.
std::string_view record_id(std::string_view line);

// The record with its checksum as the last member. REQUIRES: `line` is a JSON object in one line.
std::string sealed(std::string_view line);
// Whether the checksum of a line is right.
bool is_sound(std::string_view line);

// Whether a record is a failure of the simulator. Opening the file again drops it, so --resume
// tries again.
bool is_failure(std::string_view line);

}  // namespace sim::study
