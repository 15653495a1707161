#include "sim/input/launch/shell/environment.h"

#include <charconv>

namespace sim::shell {

const Variable* Environment::find(std::string_view name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? nullptr : &found->second;
}

void Environment::unset(std::string_view name) {
  if (const auto found = variables_.find(name); found != variables_.end()) variables_.erase(found);
}

Text Environment::unknown(std::string_view name, bool unset, std::size_t at) {
  constexpr std::size_t longest = 80;
  const std::string key = (unset ? "u" : "k") + std::string(name.substr(0, longest));
  const auto [entry, added] = numbers_.try_emplace(key, unknowns_.size());
  if (added) unknowns_.push_back({std::string(name.substr(0, longest)), unset});
  Text text;
  text.put('\x01' + std::to_string(entry->second) + '\x02', at);
  return text;
}

const Environment::Unknown* Environment::unknown_at(std::string_view bytes, std::size_t& at) const {
  const std::size_t end = std::min(bytes.find('\x02', at), bytes.size());
  std::size_t number = unknowns_.size();
  std::from_chars(bytes.data() + at + 1, bytes.data() + end, number);
  at = std::min(end + 1, bytes.size());
  return number < unknowns_.size() ? &unknowns_[number] : nullptr;
}

Word Environment::word(const Text& text) const {
  Word word;
  word.at = text.at.empty() ? 0 : text.at.front();
  for (std::size_t i = 0; i < text.bytes.size();) {
    if (text.bytes[i] != '\x01') {
      word.text += text.bytes[i++];
    } else if (const Unknown* unknown = unknown_at(text.bytes, i)) {
      word.text += unknown->name;
      word.unknowns.push_back(unknown->name);
    }
  }
  return word;
}

std::optional<std::string> Environment::tested(const Text& text, bool& unsure) const {
  std::string value;
  for (std::size_t i = 0; i < text.bytes.size();) {
    if (text.bytes[i] != '\x01') {
      value += text.bytes[i++];
      continue;
    }
    const Unknown* unknown = unknown_at(text.bytes, i);
    if (!unknown || !unknown->unset) return {};
    unsure = true;
  }
  return value;
}

namespace {

// One past the ']' of the set at `at`. `in`: true if the set contains c.
std::size_t read_set(std::string_view pattern, std::size_t at, char c, bool& in) {
  std::size_t i = at + 1;
  const bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (negated) ++i;
  in = false;
  for (bool first = true; i < pattern.size() && (first || pattern[i] != ']'); first = false) {
    const bool range = i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']';
    const char last = range ? pattern[i + 2] : pattern[i];
    in = in || (c >= pattern[i] && c <= last);
    i += range ? 3 : 1;
  }
  in = in != negated;
  return std::min(i + 1, pattern.size());
}

}  // namespace

std::vector<Text> Text::parts() const {
  constexpr std::string_view blanks = " \t\r\n";
  std::vector<Text> all;
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t start = bytes.find_first_not_of(blanks, i);
    if (start == std::string::npos) break;
    i = std::min(bytes.find_first_of(blanks, start), bytes.size());
    all.push_back(part(start, i - start));
  }
  return all;
}

bool matches(std::string_view text, std::string_view pattern) {
  std::size_t t = 0, p = 0, star = std::string_view::npos, retry = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = t;
      continue;
    }
    bool same = false;
    std::size_t next = p + 1;
    if (p < pattern.size()) {
      if (pattern[p] == '[') {
        next = read_set(pattern, p, text[t], same);
      } else {
        same = pattern[p] == '?' || pattern[p] == text[t];
      }
    }
    if (same) {
      ++t;
      p = next;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace sim::shell
