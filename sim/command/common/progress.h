// progress.h — how far a long command is, on stderr: a bar on a terminal, a sparse line in a log,
// nothing before half a second has passed.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace sim::command {

class Progress {
 public:
  Progress(std::string what, std::size_t total, bool quiet);
  ~Progress();

  // `done` of the total; `text` is what else there is to say ("oom 37").
  void show(std::size_t done, const std::string& text);
  // Takes the bar away.
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
