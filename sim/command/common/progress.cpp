#include "sim/command/common/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "sim/command/common/command.h"
#include "sim/command/common/heartbeat.h"
#include "sim/output/output.h"

namespace sim::command {

namespace {
constexpr auto silent = std::chrono::milliseconds(500);
constexpr auto redraw = std::chrono::milliseconds(100);
constexpr auto log_line = std::chrono::seconds(60);
constexpr std::size_t bar_columns = 20;

bool is_terminal() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

ProgressListener listening;

void draw(std::string_view text) {
  [[maybe_unused]] const std::string ignored = output::write_all(STDERR_FILENO, text);
}
}  // namespace

void listen_to_progress(ProgressListener listener) {
  listening = std::move(listener);
}

Progress::Progress(std::string what, std::size_t total, bool quiet)
    : what_(std::move(what)),
      total_(total),
      terminal_(is_terminal()),
      quiet_(quiet),
      began_(Clock::now()),
      last_(began_) {
  end_heartbeat();
}

Progress::~Progress() {
  clear();
}

void Progress::clear() {
  if (drawn_) draw("\r\x1b[K");
  drawn_ = false;
}

void Progress::show(std::size_t done, const std::string& text, const Found& found) {
  const auto now = Clock::now();
  if (listening && now - told_ >= redraw) {
    told_ = now;
    listening(done, total_, text, found);
  }
  if (quiet_ || total_ == 0) return;
  if (now - began_ < silent) return;
  const double rate =
      static_cast<double>(done) / std::chrono::duration<double>(now - began_).count();
  if (terminal_) {
    if (now - last_ < redraw) return;
    const std::size_t filled = bar_columns * done / total_;
    std::string bar(filled, '#');
    bar.resize(bar_columns, '.');
    draw(fmt::format("\r{} {:3} % [{}] {}/{}  {:.0f}/s  {}\x1b[K", what_, 100 * done / total_, bar,
                     done, total_, rate, text));
    drawn_ = true;
  } else {
    const std::size_t tenth = 10 * done / total_;
    if (tenth == last_tenth_ && now - last_ < log_line) return;
    if (done == total_) return;  // the result follows
    last_tenth_ = tenth;
    note(fmt::format("{}: {} of {}, {:.0f}/s{}{}", what_, done, total_, rate,
                     text.empty() ? "" : ", ", text));
  }
  last_ = now;
}

}  // namespace sim::command
