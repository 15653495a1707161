// writers.h — one command for each kind of file that the program writes. Tests kill them
// (half_written.cpp) and disturb their system calls (disturbed_writers.cpp).
#pragma once

#include <string>
#include <vector>

namespace golden {

struct Writer {
  std::string command;             // quiet; writes `out` in the folder of the test
  std::vector<std::string> files;  // what it writes there
  bool only_new = false;           // it refuses to replace a file of another kind
};

const std::vector<Writer>& writers();

// A scratch folder with what these commands read: two shards of a sweep, a table of failures.
std::string writers_scratch(const std::string& name);

// The folder before a command runs: each file that it may replace is there, with other content.
void place_old(const Writer& writer, const std::string& folder);
inline const std::string old_text = "old\n";

// Whether `left` has only lines of `whole`, and perhaps the old one; the last may be cut off.
bool holds_records(const std::string& left, const std::string& whole);

}  // namespace golden
