// words.h — a reader for the texts that the program and rehearse-network exchange: words and
// numbers separated by blanks.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <system_error>

namespace sim::network {

// Reads words and numbers one after the other. After the first error every result is invalid.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  bool word(std::string_view expected) {
    skip_space();
    good_ = good_ && rest_.starts_with(expected);
    if (good_) rest_.remove_prefix(expected.size());
    return good_;
  }

  template <class T>
  T number() {
    skip_space();
    T value{};
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    good_ = good_ && error == std::errc{};
    if (good_) rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return good_ ? value : T{};
  }

  // Reads the number of following items. Each item takes at least two bytes of the remaining text.
  std::size_t count() {
    const auto n = number<std::uint64_t>();
    good_ = good_ && n <= rest_.size() / 2;
    return good_ ? static_cast<std::size_t>(n) : 0;
  }

  bool good() const { return good_; }
  bool at_end() {
    skip_space();
    return good_ && rest_.empty();
  }

 private:
  void skip_space() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n')) {
      rest_.remove_prefix(1);
    }
  }

  std::string_view rest_;
  bool good_ = true;
};

}  // namespace sim::network
