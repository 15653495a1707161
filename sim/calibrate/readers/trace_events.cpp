#include "sim/calibrate/readers/trace_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>

namespace sim::calibrate {

namespace {

constexpr std::size_t max_events = 8'000'000;
constexpr std::size_t max_depth = 64;
constexpr std::size_t max_value = 1 << 16;
constexpr std::size_t max_kept = std::size_t{768} << 20;  // bytes of events

// Categories whose events say something; the rest is Python frames and arrows.
bool is_wanted(std::string_view category) {
  static constexpr std::array<std::string_view, 9> wanted = {
      "cpu_op",  "Operator",   "kernel",     "Kernel",     "cuda_runtime",
      "Runtime", "gpu_memcpy", "gpu_memset", "cuda_driver"};
  return std::find(wanted.begin(), wanted.end(), category) != wanted.end();
}

// The bytes of a trace as JSON, without a copy of them: literals that JSON does not have become 0,
// stray bytes a blank or '?'.
class Tamed {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  explicit Tamed(std::string_view rest) : rest_(rest) { look(); }

  char operator*() const { return now_; }
  Tamed& operator++() {
    rest_.remove_prefix(1);
    look();
    return *this;
  }
  Tamed operator++(int) {
    Tamed before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Tamed& other) const { return rest_.size() == other.rest_.size(); }

 private:
  void look() {
    if (rest_.empty()) return;
    const auto c = static_cast<unsigned char>(rest_[0]);
    now_ = rest_[0];
    if (blanks_ > 0) {
      --blanks_;
      now_ = ' ';
    } else if (escaped_) {
      escaped_ = false;
    } else if (quoted_ && c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      quoted_ = !quoted_;
    } else if (c < 0x20 && (quoted_ || (c != '\n' && c != '\r' && c != '\t'))) {
      now_ = ' ';
    } else if (c >= 0x80) {
      now_ = '?';
    } else if (!quoted_ && c == '-' && rest_.substr(1).starts_with("Infinity")) {
      now_ = ' ';
    } else if (!quoted_ && (rest_.starts_with("NaN") || rest_.starts_with("Infinity"))) {
      now_ = '0';
      blanks_ = c == 'N' ? 2 : 7;
    }
  }

  std::string_view rest_;
  bool quoted_ = false, escaped_ = false;
  int blanks_ = 0;  // of a literal that is passed over
  char now_ = 0;
};

// Listens to nlohmann's parser. Where in the file a value is: a stack of what was opened.
class Listener : public nlohmann::json_sax<nlohmann::json> {
 public:
  TraceFile file;
  std::string problem;

  bool null() override { return scalar("null", false); }
  bool boolean(bool value) override { return scalar(value ? "true" : "false", false); }
  bool number_integer(number_integer_t value) override {
    return number(fmt::format("{}", value), static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number(fmt::format("{}", value), static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    return number(text, value);
  }
  bool string(string_t& value) override { return scalar(value, true); }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return open('{'); }
  bool end_object() override { return close('}'); }
  bool start_array(std::size_t) override { return open('['); }
  bool end_array() override { return close(']'); }
  bool key(string_t& name) override {
    if (capturing_) {
      append((last_ == '{' ? "\"" : ",\"") + name + "\":");
      last_ = ':';
    } else if (in_event_ && depth_ == event_depth_) {
      event_key_ = name;
    } else if (in_event_ && depth_ == event_depth_ + 1) {
      argument_ = name;
    } else if (depth_ == 1) {
      top_key_ = name;
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    problem = fmt::format("byte {}: not JSON ({})", position,
                          std::string_view(error.what()).substr(0, 120));
    return false;
  }

 private:
  bool open(char bracket) {
    if (++depth_ > max_depth) {
      problem = fmt::format("nested deeper than {}", max_depth);
      return false;
    }
    if (capturing_) {
      append(last_ == ':' || last_ == '{' || last_ == '[' ? std::string(1, bracket)
                                                          : "," + std::string(1, bracket));
      last_ = bracket;
      return true;
    }
    if (depth_ == 1) {
      events_depth_ = bracket == '[' ? 1 : 0;
      return true;
    }
    if (depth_ == 2 && events_depth_ == 0 && bracket == '[' && top_key_ == "traceEvents") {
      events_depth_ = 2;
      return true;
    }
    if (events_depth_ != 0 && depth_ == events_depth_ + 1 && bracket == '{') {
      in_event_ = true;
      event_depth_ = depth_;
      event_ = {};
      event_key_.clear();
      return true;
    }
    if (in_event_ && depth_ == event_depth_ + 1 && event_key_ == "args" && bracket == '{')
      return true;
    capturing_ = true;
    captured_.clear();
    capture_depth_ = depth_;
    append(std::string(1, bracket));
    last_ = bracket;
    return true;
  }

  bool close(char bracket) {
    if (capturing_) {
      append(std::string(1, bracket));
      last_ = bracket;
      if (depth_ == capture_depth_) {
        capturing_ = false;
        store(captured_, depth_ - 1);
      }
    } else if (in_event_ && depth_ == event_depth_) {
      in_event_ = false;
      if (event_.phase == "X" && is_wanted(event_.category)) {
        if (file.events.size() >= max_events) {
          problem = fmt::format("more than {} events", max_events);
          return false;
        }
        for (const auto& [name, value] : event_.arguments) kept_ += name.size() + value.size() + 96;
        kept_ += sizeof(TraceEvent);
        if (kept_ > max_kept) {
          problem = fmt::format("events of more than {} MiB", max_kept >> 20);
          return false;
        }
        file.events.push_back(std::move(event_));
      }
    } else if (events_depth_ == 2 && depth_ == 2) {
      events_depth_ = 0;  // after traceEvents
    }
    --depth_;
    return true;
  }

  bool number(const std::string& text, double value) {
    if (!capturing_ && in_event_ && depth_ == event_depth_) {
      if (event_key_ == "ts") event_.start_us = value;
      if (event_key_ == "dur") event_.duration_us = value;
    }
    return scalar(text, false);
  }

  bool scalar(const std::string& text, bool quoted) {
    if (!capturing_) {
      store(text, depth_);
      return true;
    }
    const bool first = last_ == ':' || last_ == '[';
    const std::string value = quoted ? "\"" + text + "\"" : text;
    append(first ? value : "," + value);
    last_ = 'v';
    return true;
  }

  // `at`: the depth of what the value is a member of.
  void store(const std::string& text, std::size_t at) {
    if (in_event_ && at == event_depth_) {
      keep(text);
    } else if (in_event_ && at == event_depth_ + 1) {
      event_.arguments[argument_] = text.substr(0, max_value);
    } else if (!in_event_ && at == 1 && file.top.size() < 64) {
      file.top[top_key_] = text.substr(0, max_value);
    }
  }

  void keep(const std::string& text) {
    if (event_key_ == "ph") event_.phase = text;
    if (event_key_ == "cat") event_.category = text;
    if (event_key_ == "name") event_.name = text;
    if (event_key_ == "tid") event_.thread = text;
  }

  void append(const std::string& text) {
    if (captured_.size() < max_value) captured_ += text;
  }

  std::size_t depth_ = 0;
  std::size_t events_depth_ = 0;  // of the array of events; 0: not inside
  bool in_event_ = false;
  std::size_t event_depth_ = 0;
  TraceEvent event_;
  std::string event_key_, argument_, top_key_;
  bool capturing_ = false;  // a value that is kept as text
  std::size_t capture_depth_ = 0;
  std::string captured_;
  char last_ = 0;
  std::size_t kept_ = 0;
};

}  // namespace

std::string_view TraceEvent::argument(std::string_view key) const {
  const auto found = arguments.find(key);
  return found == arguments.end() ? std::string_view{} : std::string_view(found->second);
}

Result<TraceFile> read_trace_events(std::string_view bytes, const std::string& path) {
  Listener listener;
  const bool whole = nlohmann::json::sax_parse(Tamed(bytes), Tamed(std::string_view{}), &listener);
  if (!whole || !listener.problem.empty()) return Diagnostics{{path, listener.problem}};
  return std::move(listener.file);
}

}  // namespace sim::calibrate
