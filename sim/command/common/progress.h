// progress.h — progress of a long command on stderr: a bar on a terminal, a few lines in a log. It
// starts after half a second.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace sim::command {

class Progress {
 public:
  Progress(std::string what, std::size_t total, bool quiet);
  ~Progress();

  // Shows `done` of the total; `text` adds details ("oom 37").
  void show(std::size_t done, const std::string& text);
  // Removes the bar.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  std::string what_;
  std::size_t total_;
  bool terminal_;
  bool quiet_;
  bool drawn_ = false;
  Clock::time_point began_, last_;
  std::size_t last_tenth_ = 0;
};

}  // namespace sim::command
