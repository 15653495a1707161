#include "sim/command/common/heartbeat.h"

#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>

namespace sim::command {

namespace {

constexpr int period_s = 15;
volatile std::sig_atomic_t seconds = 0;

// Builds a line without allocating memory.
class FixedLine {
 public:
  void add(std::string_view text) {
    for (const char c : text)
      if (size_ < bytes_.size()) bytes_[size_++] = c;
  }
  void add(long number) {
    std::array<char, 20> digits;
    std::size_t count = 0;
    do {
      digits[count++] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number > 0);
    while (count > 0) add(std::string_view(&digits[--count], 1));
  }
  void write() const { [[maybe_unused]] const ssize_t n = ::write(2, bytes_.data(), size_); }

 private:
  std::array<char, 120> bytes_;
  std::size_t size_ = 0;
};

// Calls only async-signal-safe functions (signal-safety(7)); getrusage(2) is a plain system call.
void tell(int) {
  seconds = seconds + period_s;
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  FixedLine line;
  line.add("rehearse: at work for ");
  line.add(static_cast<long>(seconds));
  line.add(" s, with ");
  line.add(usage.ru_maxrss / 1024);
  line.add(" MiB; Ctrl-C ends it\n");
  line.write();
}

void set_timer(int period) {
  struct itimerval timer {};
  timer.it_interval.tv_sec = timer.it_value.tv_sec = period;
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace

void start_heartbeat() {
  struct sigaction action {};
  action.sa_handler = tell;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGALRM, &action, nullptr);
  set_timer(period_s);
}

void end_heartbeat() {
  set_timer(0);
}

}  // namespace sim::command
