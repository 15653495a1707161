#include "sim/input/launch/shell/test.h"

#include <charconv>
#include <optional>

namespace sim::shell {
namespace {

constexpr int max_depth = 16;

Answer both(Answer a, Answer b) {
  if ((a.known && !a.yes) || (b.known && !b.yes)) return {false, true};
  return {a.yes && b.yes, a.known && b.known};
}

Answer opposite(Answer a) {
  return {!a.yes, a.known};
}

Answer either(Answer a, Answer b) {
  return opposite(both(opposite(a), opposite(b)));
}

std::optional<long> number(const std::string& text) {
  long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

class Reader {
 public:
  Reader(const std::vector<Text>& words, bool patterns, const Environment& environment)
      : words_(words), patterns_(patterns), environment_(environment) {}

  Answer run() {
    if (words_.empty()) return {false, true};
    return alternatives();
  }

 private:
  bool is(std::size_t i, std::string_view word) const {
    return i < words_.size() && words_[i].bytes == word;
  }

  Answer alternatives() {
    Answer all = conjunctions();
    while (is(at_, "-o") || is(at_, "||")) {
      ++at_;
      all = either(all, conjunctions());
    }
    return all;
  }

  Answer conjunctions() {
    Answer all = primary();
    while (is(at_, "-a") || is(at_, "&&")) {
      ++at_;
      all = both(all, primary());
    }
    return all;
  }

  Answer primary() {
    if (at_ >= words_.size() || depth_ > max_depth) return {false, true};
    if (is(at_, "!") && at_ + 1 < words_.size()) {
      ++at_;
      ++depth_;
      const Answer answer = opposite(primary());
      --depth_;
      return answer;
    }
    if (is(at_, "(")) {
      ++at_;
      ++depth_;
      const Answer answer = alternatives();
      --depth_;
      if (is(at_, ")")) ++at_;
      return answer;
    }
    if (at_ + 2 < words_.size() && is_comparison(words_[at_ + 1].bytes)) {
      at_ += 3;
      return compare(words_[at_ - 3], words_[at_ - 2].bytes, words_[at_ - 1]);
    }
    const std::string& word = words_[at_].bytes;
    if (word.size() == 2 && word[0] == '-' && at_ + 1 < words_.size()) {
      at_ += 2;
      return unary(word[1], words_[at_ - 1]);
    }
    ++at_;
    return unary('n', words_[at_ - 1]);
  }

  static bool is_comparison(std::string_view word) {
    for (const std::string_view sign :
         {"=", "==", "!=", "=~", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
      if (word == sign) return true;
    return false;
  }

  Answer unary(char sign, const Text& operand) const {
    bool unsure = false;
    const auto text = environment_.tested(operand, unsure);
    if (sign == 'v')
      return {text && environment_.find(*text) != nullptr, text && environment_.find(*text)};
    if (sign != 'z' && sign != 'n') return {false, false};  // tests of files
    // A value from a program or the environment is more likely non-empty.
    if (!text) return {sign == 'n', false};
    return {text->empty() == (sign == 'z'), !unsure};
  }

  Answer compare(const Text& left, std::string_view sign, const Text& right) const {
    bool unsure = false;
    const auto a = environment_.tested(left, unsure);
    const auto b = environment_.tested(right, unsure);
    if (!a || !b || sign == "=~") return {sign == "!=" || sign == "-ne", false};
    if (sign == "=" || sign == "==" || sign == "!=") {
      const bool same = patterns_ ? matches(*a, *b) : *a == *b;
      return {same == (sign != "!="), !unsure};
    }
    if (sign == "<") return {*a < *b, !unsure};
    if (sign == ">") return {*a > *b, !unsure};
    const auto x = number(*a), y = number(*b);
    if (!x || !y) return {false, !unsure};
    const bool yes = sign == "-eq"   ? *x == *y
                     : sign == "-ne" ? *x != *y
                     : sign == "-lt" ? *x < *y
                     : sign == "-le" ? *x <= *y
                     : sign == "-gt" ? *x > *y
                                     : *x >= *y;
    return {yes, !unsure};
  }

  const std::vector<Text>& words_;
  const bool patterns_;
  const Environment& environment_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Answer test(const std::vector<Text>& words, bool patterns, const Environment& environment) {
  return Reader(words, patterns, environment).run();
}

}  // namespace sim::shell
