// records.h — results.jsonl: one complete record per point, on the disk as it comes, safe against a
// kill at any moment.
//
// Invariants
//  (1) A record is one line, written by one append and checked; a line that a kill cut short is the
//      last one and is dropped when the file is opened again.
//  (2) A record begins with {"id":"<16 hex digits>", the hash of everything its answer depends on,
//      and ends with its checksum (XXH3 of the record without it). A record that does not have its
//      checksum is damaged: its point is made anew. The same id never has two different records.
//  (3) One writer at a time (flock).
//  (4) finish() leaves the records in the order of the grid, whatever order they came in.
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
  unfinished,  // there are records and nobody said whether to go on or to start over
  finished,    // so are those of a sweep that ended
  foreign,     // records of other points, which going on would drop
  mixed,       // two different records of one id
};

class RecordFile {
 public:
  // fresh: a folder that holds records is refused, as `finished` where results.csv is beside them,
  // else as `unfinished`. go_on: what is there is kept; records of other points are refused as
  // `foreign`, and so is a results.csv alone, which is of other work. take_over: goes on and drops
  // those. overwrite: starts over.
  enum class Mode { fresh, go_on, take_over, overwrite };

  RecordFile() = default;
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;
  ~RecordFile();

  // Creates the folder and the file; takes the lock. `ids` are the points of the grid in order.
  // `readable` says whether the caller can use a record of the file; one that it cannot use counts
  // as damaged.
  using Check = std::function<bool(std::string_view line)>;
  RecordProblem open(const std::string& folder, Mode mode, const std::vector<std::string>& ids,
                     const Check& readable = {});
  // Appends a record with its checksum; the line has no '\n' and no checksum yet.
  RecordProblem append(const std::string& id, const std::string& line);
  // Rewrites the file in order of the grid, keeping only its points.
  RecordProblem finish();

  // The record of an id with its checksum, without '\n'; null when there is none.
  const std::string* find(const std::string& id) const;
  std::size_t dropped_bytes() const { return dropped_; }  // of a record cut short
  std::size_t foreign() const { return foreign_; }        // records that the grid does not have
  std::size_t damaged() const { return damaged_; }        // lines that are not as they were written
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
  bool had_bytes_ = false;
  bool rewrite_ = false;  // the file holds lines that finish() must leave out
};

// The id at the start of a record, "" when it is none.
std::string_view record_id(std::string_view line);

// A record as it is written: with its checksum as the last member. REQUIRES: an object in one line.
std::string sealed(std::string_view line);
// Whether a line is as sealed() made it.
bool is_sound(std::string_view line);

// Whether a record says that the simulator failed on its point; opening the file again drops it, so
// that --resume tries once more.
bool is_failure(std::string_view line);

}  // namespace sim::study
