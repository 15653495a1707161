// trace_text.cpp — parses the text of an allocator trace and reports all of its errors.
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <unordered_map>

#include "sim/allocator/recorded/replay.h"
#include "sim/base/text.h"

namespace sim::allocator {
namespace {

using CommandKind = TraceCommand::Kind;

constexpr std::size_t most_problems = 20;
constexpr int most_streams = 1 << 16;
constexpr std::int64_t largest_capacity = largest_request;

struct Word {
  std::string_view text;
  int column = 0;
};

struct Form {
  std::string_view word;
  CommandKind kind;
  std::size_t fewest;  // words after the command
  std::size_t most;
  const char* usage;
};

constexpr Form forms[] = {
    {"a", CommandKind::allocate, 2, 3, "a ID SIZE [STREAM]"},
    {"f", CommandKind::free, 1, 1, "f ID"},
    {"r", CommandKind::record_stream, 2, 2, "r ID STREAM"},
    {"s", CommandKind::complete_stream, 1, 1, "s STREAM or s *"},
    {"e", CommandKind::empty_cache, 0, 0, "e"},
    {"m", CommandKind::memory_fraction, 1, 1, "m FRACTION"},
    {"x", CommandKind::outside_use, 1, 1, "x BYTES"},
    {"c", CommandKind::change_options, 1, 1, "c OPTIONS"},
    {"pb", CommandKind::begin_pool, 1, 1, "pb POOL"},
    {"pe", CommandKind::end_pool, 1, 1, "pe POOL"},
    {"pr", CommandKind::release_pool, 1, 1, "pr POOL"},
    {"k", CommandKind::reset_peaks, 0, 0, "k"},
    {"d", CommandKind::dump, 0, 0, "d"},
};

std::vector<Word> split_words(std::string_view line) {
  std::vector<Word> words;
  std::size_t i = 0;
  while (i < line.size()) {
    while (i < line.size() && (line[i] == ' ' || line[i] == '\t')) ++i;
    const std::size_t begin = i;
    while (i < line.size() && line[i] != ' ' && line[i] != '\t') ++i;
    if (i > begin) words.push_back({line.substr(begin, i - begin), static_cast<int>(begin) + 1});
  }
  return words;
}

template <class T>
bool read_number(std::string_view text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

std::string quoted(std::string_view text) {
  std::string shown = "\"";
  for (const char c : text.substr(0, 40)) shown += (c >= ' ' && c < 127) ? c : '?';
  return shown + (text.size() > 40 ? "...\"" : "\"");
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view name, Rules rules)
      : rest_(text), name_(name), rules_(rules) {}

  Result<Trace> parse() {
    std::string_view line;
    if (!next_line(line)) {
      line_number_ = 1;
      fail(1, "the trace is empty; line 1 is \"# capacity=BYTES conf=OPTIONS\"");
      return errors_;
    }
    header(line);
    if (trace_.header.empty()) return std::move(errors_);  // the file is no trace
    while (next_line(line) && errors_.size() <= most_problems) {
      if (!line.empty() && line.front() != '#') command(line);
    }
    if (errors_.empty()) return std::move(trace_);
    if (errors_.size() > most_problems) errors_.back().message = "and more; these are the first 20";
    return std::move(errors_);
  }

 private:
  bool next_line(std::string_view& line) {
    if (rest_.empty()) return false;
    const std::size_t end = rest_.find('\n');
    line = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    ++line_number_;
    return true;
  }

  void fail(int column, const std::string& message) {
    if (errors_.size() > most_problems) return;
    errors_.push_back(
        {name_ + ":" + std::to_string(line_number_) + ":" + std::to_string(column), message});
  }

  void append(Diagnostics more) {
    for (Diagnostic& error : more) {
      if (errors_.size() <= most_problems) errors_.push_back(std::move(error));
    }
  }

  std::string here() const { return name_ + ":" + std::to_string(line_number_); }

  void header(std::string_view line) {
    const std::vector<Word> words = split_words(line);
    constexpr std::string_view capacity = "capacity=";
    constexpr std::string_view conf = "conf=";
    if (words.size() != 3 || words[0].text != "#" || !words[1].text.starts_with(capacity) ||
        !words[2].text.starts_with(conf)) {
      fail(1, "line 1 must be \"# capacity=BYTES conf=OPTIONS\", with - for no options");
      return;
    }
    trace_.header = std::string(line);
    const std::string_view bytes = words[1].text.substr(capacity.size());
    if (!read_number(bytes, trace_.capacity) || trace_.capacity < 0 ||
        trace_.capacity > largest_capacity) {
      fail(words[1].column + static_cast<int>(capacity.size()),
           quoted(bytes) + " is not a capacity in bytes");
    }
    auto options = parse_options(words[2].text.substr(conf.size()), rules_, {}, here(),
                                 words[2].column + static_cast<int>(conf.size()));
    if (!options) return append(options.errors());
    trace_.options = *options;
    current_ = *options;
  }

  void command(std::string_view line) {
    const std::vector<Word> words = split_words(line);
    if (words.empty()) return;
    const Form* form = nullptr;
    for (const Form& candidate : forms) {
      if (candidate.word == words[0].text) form = &candidate;
    }
    if (form == nullptr) {
      fail(words[0].column,
           "unknown command " + quoted(words[0].text) + "; known are a f r s e m x c pb pe pr k d");
      return;
    }
    if (words.size() < form->fewest + 1 || words.size() > form->most + 1) {
      fail(words[0].column, std::string("expected \"") + form->usage + "\"");
      return;
    }
    TraceCommand out;
    out.kind = form->kind;
    out.text = std::string(line);
    if (arguments(words, out)) trace_.commands.push_back(std::move(out));
  }

  bool arguments(const std::vector<Word>& words, TraceCommand& out) {
    switch (out.kind) {
      case CommandKind::allocate:
        return allocate(words, out);
      case CommandKind::free:
        return live(words[1], out, /*ends=*/true);
      case CommandKind::record_stream:
        return live(words[1], out, /*ends=*/false) && stream(words[2], out.number);
      case CommandKind::complete_stream:
        if (words[1].text != "*") return stream(words[1], out.number);
        out.kind = CommandKind::complete_all;
        return true;
      case CommandKind::memory_fraction:
        return fraction(words[1], out);
      case CommandKind::outside_use:
        return bytes(words[1], out.bytes);
      case CommandKind::change_options:
        return change(words[1], out);
      case CommandKind::begin_pool:
      case CommandKind::end_pool:
      case CommandKind::release_pool:
        return pool(words[1], out);
      default:
        return true;
    }
  }

  bool bytes(const Word& word, std::int64_t& out) {
    if (read_number(word.text, out) && out >= 0 && out <= largest_request) return true;
    fail(word.column, quoted(word.text) + " is not a number of bytes from 0 to 2^50");
    return false;
  }

  bool stream(const Word& word, int& out) {
    if (read_number(word.text, out) && out >= 0 && out < most_streams) return true;
    fail(word.column, quoted(word.text) + " is not a stream number from 0 to 65535");
    return false;
  }

  // The state of an ID at the present line: its number, and whether it is allocated.
  struct Name {
    int index = 0;
    bool live = false;
    int line = 0;  // of the last change
  };

  bool allocate(const std::vector<Word>& words, TraceCommand& out) {
    const bool sized = bytes(words[2], out.bytes);
    const bool placed = words.size() < 4 || stream(words[3], out.number);
    const auto [it, fresh] = names_.try_emplace(std::string(words[1].text));
    Name& name = it->second;
    if (fresh) name.index = trace_.names++;
    if (name.live) {
      fail(words[1].column,
           quoted(words[1].text) + " is still allocated, since line " + std::to_string(name.line));
      return false;
    }
    name.live = true;
    name.line = line_number_;
    out.name = name.index;
    return sized && placed;
  }

  bool live(const Word& word, TraceCommand& out, bool ends) {
    const auto it = names_.find(std::string(word.text));
    if (it == names_.end()) {
      fail(word.column, quoted(word.text) + " was never allocated");
      return false;
    }
    Name& name = it->second;
    if (!name.live) {
      fail(word.column,
           quoted(word.text) + " was already freed, in line " + std::to_string(name.line));
      return false;
    }
    if (ends) {
      name.live = false;
      name.line = line_number_;
    }
    out.name = name.index;
    return true;
  }

  bool fraction(const Word& word, TraceCommand& out) {
    if (read_number(word.text, out.fraction) && out.fraction >= 0.0 && out.fraction <= 1.0) {
      return true;
    }
    fail(word.column, quoted(word.text) + " is not a fraction from 0 to 1");
    return false;
  }

  bool change(const Word& word, TraceCommand& out) {
    auto options = parse_options(word.text, rules_, current_, here(), word.column);
    if (!options) {
      append(options.errors());
      return false;
    }
    current_ = *options;
    out.options = static_cast<int>(trace_.changes.size());
    trace_.changes.push_back(current_);
    return true;
  }

  struct PoolUse {
    int open = 0;
    int users = 0;
  };

  bool pool(const Word& word, TraceCommand& out) {
    if (!read_number(word.text, out.number) || out.number < 1 || out.number >= most_streams) {
      fail(word.column, quoted(word.text) + " is not a pool number from 1 to 65535");
      return false;
    }
    PoolUse& use = pools_[out.number];
    if (out.kind == CommandKind::begin_pool) {
      ++use.open;
      ++use.users;
      return true;
    }
    int& count = out.kind == CommandKind::end_pool ? use.open : use.users;
    if (count == 0) {
      fail(word.column,
           "pool " + std::string(word.text) +
               (out.kind == CommandKind::end_pool ? " is not open" : " has no user left"));
      return false;
    }
    --count;
    return true;
  }

  std::string_view rest_;
  std::string name_;
  Rules rules_;
  int line_number_ = 0;
  Trace trace_;
  Options current_;
  std::unordered_map<std::string, Name> names_;
  std::map<int, PoolUse> pools_;
  Diagnostics errors_;
};

}  // namespace

Result<Trace> parse_trace(std::string_view text, std::string_view name, Rules rules) {
  return Parser(text, name, rules).parse();
}

}  // namespace sim::allocator
