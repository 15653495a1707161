#include "sim/calibrate/readers/trace_events.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "sim/base/ascii.h"
#include "sim/base/json_text.h"

namespace sim::calibrate {

namespace {

constexpr std::size_t max_events = 8'000'000;
constexpr std::size_t max_depth = 64;
constexpr std::size_t max_value = 1 << 16;
constexpr std::size_t max_kept = std::size_t{768} << 20;  // bytes of events and texts

// Kinds of events that are used. Other events are Python frames and arrows. Older profilers use
// other category names.
std::optional<EventKind> kind_of(std::string_view category, std::string_view name) {
  struct Category {
    std::string_view name;
    EventKind kind;
  };
  static constexpr Category wanted[] = {
      {"cpu_op", EventKind::operation},  {"Operator", EventKind::operation},
      {"kernel", EventKind::kernel},     {"Kernel", EventKind::kernel},
      {"cuda_runtime", EventKind::call}, {"Runtime", EventKind::call},
      {"cuda_driver", EventKind::call},  {"gpu_memcpy", EventKind::copy},
      {"gpu_memset", EventKind::copy},   {"Memcpy", EventKind::copy},
      {"Memset", EventKind::copy},       {"user_annotation", EventKind::annotation},
  };
  for (const Category& one : wanted)
    if (one.name == category) return one.kind;
  if (name.starts_with("ProfilerStep") && category != "gpu_user_annotation")
    return EventKind::annotation;
  return std::nullopt;
}

std::optional<Argument> argument_of(std::string_view key) {
  struct Key {
    std::string_view name;
    Argument argument;
  };
  static constexpr Key keys[] = {
      {"Input Dims", Argument::input_dims},           {"Input dims", Argument::input_dims},
      {"Input type", Argument::input_types},          {"Input Types", Argument::input_types},
      {"Concrete Inputs", Argument::concrete_inputs}, {"Collective name", Argument::collective},
      {"In msg nelems", Argument::in_elements},       {"Out msg nelems", Argument::out_elements},
      {"Group size", Argument::group_size},           {"Process Group Name", Argument::group_name},
      {"Process Group Ranks", Argument::group_ranks}, {"dtype", Argument::dtype},
  };
  for (const Key& one : keys)
    if (one.name == key) return one.argument;
  return std::nullopt;
}

// The bytes of a trace as valid JSON, piece by piece. Literals that JSON does not have become 0,
// stray bytes a blank or '?'.
class TamedBytes {
 public:
  explicit TamedBytes(ByteSource& source) : source_(source) {
    fill();
    look();
  }
  bool ended() const { return at_ == end_; }
  char now() const { return now_; }
  void step() {
    ++at_;
    if (end_ - at_ < longest_literal) fill();
    look();
  }

 private:
  static constexpr std::ptrdiff_t longest_literal = 9;  // "-Infinity"

  // Moves the rest of the buffer to the front and appends the next piece, until a whole literal
  // fits.
  void fill() {
    while (!dry_ && end_ - at_ < longest_literal) {
      const std::string_view more = source_.next();
      dry_ = more.empty();
      std::string joined(at_, end_);
      joined += more;
      buffer_ = std::move(joined);
      at_ = buffer_.data();
      end_ = at_ + buffer_.size();
    }
  }

  void look() {
    if (at_ == end_) return;
    const auto c = static_cast<unsigned char>(*at_);
    now_ = *at_;
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
    } else if (!quoted_ && (c == '-' || c == 'N' || c == 'I')) {
      look_at_literal(c);
    }
  }

  void look_at_literal(unsigned char c) {
    const std::string_view rest(at_, static_cast<std::size_t>(end_ - at_));
    if (c == '-' && rest.substr(1).starts_with("Infinity")) {
      now_ = ' ';
    } else if (rest.starts_with("NaN") || rest.starts_with("Infinity")) {
      now_ = '0';
      blanks_ = c == 'N' ? 2 : 7;
    }
  }

  ByteSource& source_;
  std::string buffer_;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  bool dry_ = false;
  bool quoted_ = false, escaped_ = false;
  int blanks_ = 0;  // of a literal that is skipped
  char now_ = 0;
};

// Input iterator for nlohmann's parser. All copies share one position.
class Tamed {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  explicit Tamed(TamedBytes* bytes) : bytes_(bytes) {}
  char operator*() const { return bytes_->now(); }
  Tamed& operator++() {
    bytes_->step();
    return *this;
  }
  Tamed operator++(int) {
    ++*this;
    return *this;
  }
  // The parser compares an iterator only with the end.
  bool operator==(const Tamed& other) const { return ended() == other.ended(); }

 private:
  bool ended() const { return bytes_ == nullptr || bytes_->ended(); }
  TamedBytes* bytes_;
};

// Receives the events of nlohmann's parser. A stack of open objects and arrays gives the position
// in the file.
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
    if (capture_.on) {
      append((capture_.last == '{' ? "\"" : ",\"") + name + "\":");
      capture_.last = ':';
    } else if (in_event_ && depth_ == event_depth_) {
      open_.key = name;
    } else if (in_event_ && depth_ == event_depth_ + 1) {
      open_.argument = name;
    } else if (depth_ == 1) {
      top_key_ = name;
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    problem =
        fmt::format("byte {}: not JSON ({})", position, json_text(error.what()).substr(0, 120));
    return false;
  }

 private:
  bool open(char bracket) {
    if (++depth_ > max_depth) {
      problem = fmt::format("nested deeper than {}", max_depth);
      return false;
    }
    if (capture_.on) {
      append(capture_.last == ':' || capture_.last == '{' || capture_.last == '['
                 ? std::string(1, bracket)
                 : "," + std::string(1, bracket));
      capture_.last = bracket;
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
      open_.clear();
      return true;
    }
    if (in_event_ && depth_ == event_depth_ + 1 && open_.key == "args" && bracket == '{')
      return true;
    capture_.on = true;
    capture_.text.clear();
    capture_.depth = depth_;
    append(std::string(1, bracket));
    capture_.last = bracket;
    return true;
  }

  bool close(char bracket) {
    if (capture_.on) {
      append(std::string(1, bracket));
      capture_.last = bracket;
      if (depth_ == capture_.depth) {
        capture_.on = false;
        store(capture_.text, depth_ - 1);
      }
    } else if (in_event_ && depth_ == event_depth_) {
      in_event_ = false;
      if (!keep_event()) return false;
    } else if (events_depth_ == 2 && depth_ == 2) {
      events_depth_ = 0;  // after traceEvents
    }
    --depth_;
    return true;
  }

  bool number(const std::string& text, double value) {
    if (!capture_.on && in_event_ && depth_ == event_depth_) {
      if (open_.key == "ts") open_.event.start_us = value;
      if (open_.key == "dur") open_.event.duration_us = value;
    } else if (!capture_.on && in_event_ && depth_ == event_depth_ + 1) {
      if (std::abs(value) > 9e15) return true;
      const auto whole = static_cast<std::int64_t>(value);
      if (open_.argument == "External id" || open_.argument == "external id")
        open_.event.external = whole;
      if (open_.argument == "correlation") open_.event.correlation = whole;
      if (open_.argument == "stream" && std::abs(value) < 1e9)
        open_.event.stream = static_cast<int>(whole);
    }
    return scalar(text, false);
  }

  bool scalar(const std::string& text, bool quoted) {
    if (!capture_.on) {
      store(text, depth_);
      return true;
    }
    const bool first = capture_.last == ':' || capture_.last == '[';
    const std::string value = quoted ? "\"" + text + "\"" : text;
    append(first ? value : "," + value);
    capture_.last = 'v';
    return true;
  }

  // Stores a value; `at` is the depth of its parent.
  void store(const std::string& text, std::size_t at) {
    if (in_event_ && at == event_depth_) {
      keep(text);
    } else if (in_event_ && at == event_depth_ + 1) {
      if (const auto which = argument_of(open_.argument))
        open_.arguments.emplace_back(*which, text.substr(0, max_value));
    } else if (!in_event_ && at == 1 && file.top.size() < 64) {
      file.top[top_key_] = text.substr(0, max_value);
    }
  }

  void keep(const std::string& text) {
    if (open_.key == "ph") open_.phase = text;
    if (open_.key == "cat") open_.category = text;
    if (open_.key == "name") open_.name = text;
    if (open_.key == "tid") open_.thread = text;
  }

  // Stores the event that ends here if its kind is used. False if there are too many.
  bool keep_event() {
    const auto kind = kind_of(open_.category, open_.name);
    if (open_.phase != "X" || !kind) return true;
    if (file.events.size() >= max_events) {
      problem = fmt::format("more than {} events", max_events);
      return false;
    }
    open_.event.kind = *kind;
    open_.event.name = file.texts->keep(open_.name);
    open_.event.thread = file.texts->keep(open_.thread);
    file.events.push_back(open_.event);
    for (const auto& [which, text] : open_.arguments) file.add_argument(which, text);
    const std::size_t kept = file.texts->bytes() + file.events.size() * sizeof(TraceEvent) +
                             file.arguments.size() * sizeof(file.arguments.front());
    if (kept > max_kept) {
      problem = fmt::format("events of more than {} MiB", max_kept >> 20);
      return false;
    }
    return true;
  }

  void append(const std::string& text) {
    if (capture_.text.size() < max_value) capture_.text += text;
  }

  std::size_t depth_ = 0;
  std::size_t events_depth_ = 0;  // of the array of events; 0: outside of it
  std::string top_key_;
  // The event that is being read.
  struct OpenEvent {
    TraceEvent event;
    std::string phase, category, name, thread;
    std::vector<std::pair<Argument, std::string>> arguments;
    std::string key, argument;  // last keys of the event and of its arguments

    void clear() {
      event = {};
      for (std::string* text : {&phase, &category, &name, &thread, &key}) text->clear();
      arguments.clear();
    }
  };
  bool in_event_ = false;
  std::size_t event_depth_ = 0;
  OpenEvent open_;
  // A value that is stored as text.
  struct Capture {
    bool on = false;
    std::size_t depth = 0;
    std::string text;
    char last = 0;  // what the text ends with
  };
  Capture capture_;
};

}  // namespace

std::string_view Texts::keep(std::string_view text) {
  if (text.empty()) return {};
  auto there = texts_.find(text);
  if (there == texts_.end()) {
    there = texts_.emplace(text).first;
    bytes_ += text.size() + 80;
  }
  return *there;
}

std::int64_t bytes_of_type(std::string_view type) {
  if (contains(type, "16") || contains(type, "half")) return 2;
  if (contains(type, "float8") || contains(type, "byte") || contains(type, "char")) return 1;
  if (contains(type, "double") || contains(type, "long")) return 8;
  return 4;
}

std::string_view TraceFile::argument(const TraceEvent& event, Argument which) const {
  for (std::size_t i = 0; i < event.arguments; ++i)
    if (const auto& one = arguments[event.first_argument + i]; one.first == which)
      return one.second;
  return {};
}

void TraceFile::add_argument(Argument which, std::string_view text) {
  TraceEvent& event = events.back();
  if (event.arguments == 0) event.first_argument = static_cast<std::uint32_t>(arguments.size());
  if (event.arguments == static_cast<std::uint8_t>(Argument::count_)) return;
  arguments.emplace_back(which, texts->keep(text));
  ++event.arguments;
}

Result<TraceFile> read_trace_events(ByteSource& bytes, const std::string& path) {
  Listener listener;
  TamedBytes tamed(bytes);
  const bool whole = nlohmann::json::sax_parse(Tamed(&tamed), Tamed(nullptr), &listener);
  if (!whole || !listener.problem.empty()) return Diagnostics{{path, listener.problem}};
  return std::move(listener.file);
}

Result<TraceFile> read_trace_events(std::string_view bytes, const std::string& path) {
  PlainBytes plain(bytes);
  return read_trace_events(plain, path);
}

}  // namespace sim::calibrate
