// progress.h — progress of a long command on stderr: a bar on a terminal, a few lines in a log. It
// starts after half a second.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

namespace sim::command {

// What a command has found so far, as JSON; "": nothing.
using Found = std::function<std::string()>;
// Also gives every progress to `listener`, at most ten times a second: for commands inside another
// program's process. nullptr ends it. `found` may be empty.
using ProgressListener = std::function<void(std::size_t done, std::size_t total,
                                            const std::string& text, const Found& found)>;
void listen_to_progress(ProgressListener listener);

class Progress {
 public:
  Progress(std::string what, std::size_t total, bool quiet);
  ~Progress();

  // Shows `done` of the total; `text` adds details ("oom 37").
  void show(std::size_t done, const std::string& text, const Found& found = {});
  // Removes the bar.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  std::string what_;
  std::size_t total_;
  bool terminal_;
  bool quiet_;
  bool drawn_ = false;
  Clock::time_point began_, last_, told_;
  std::size_t last_tenth_ = 0;
};

}  // namespace sim::command
