#include "sim/input/launch/shell/arithmetic.h"

#include <array>
#include <cstddef>

#include "sim/input/launch/shell/syntax.h"

namespace sim::shell {
namespace {

constexpr int max_depth = 32;
constexpr int max_lookups = 1000;

struct Operator {
  std::string_view sign;
  int binds;  // higher binds tighter
};
// Longer operators come before their prefixes.
constexpr std::array operators{
    Operator{"**", 11}, Operator{"<<", 8}, Operator{">>", 8}, Operator{"<=", 7}, Operator{">=", 7},
    Operator{"==", 6},  Operator{"!=", 6}, Operator{"&&", 2}, Operator{"||", 1}, Operator{"*", 10},
    Operator{"/", 10},  Operator{"%", 10}, Operator{"+", 9},  Operator{"-", 9},  Operator{"<", 7},
    Operator{">", 7},   Operator{"&", 5},  Operator{"^", 4},  Operator{"|", 3},
};

using Value = std::optional<std::int64_t>;

std::int64_t wrap(std::uint64_t value) {
  return static_cast<std::int64_t>(value);
}

Value power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0 || exponent > 64) return {};
  std::uint64_t result = 1;
  for (std::int64_t i = 0; i < exponent; ++i) result *= static_cast<std::uint64_t>(base);
  return wrap(result);
}

Value apply(std::string_view sign, std::int64_t a, std::int64_t b) {
  const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
  if (sign == "+") return wrap(x + y);
  if (sign == "-") return wrap(x - y);
  if (sign == "*") return wrap(x * y);
  if (sign == "/" || sign == "%") {
    if (b == 0 || (a == INT64_MIN && b == -1)) return {};
    return sign == "/" ? a / b : a % b;
  }
  if (sign == "**") return power(a, b);
  if (sign == "<<") return wrap(x << (y & 63));
  if (sign == ">>") return a >> (y & 63);
  if (sign == "<") return a < b;
  if (sign == ">") return a > b;
  if (sign == "<=") return a <= b;
  if (sign == ">=") return a >= b;
  if (sign == "==") return a == b;
  if (sign == "!=") return a != b;
  if (sign == "&") return wrap(x & y);
  if (sign == "|") return wrap(x | y);
  if (sign == "^") return wrap(x ^ y);
  if (sign == "&&") return a != 0 && b != 0;
  return a != 0 || b != 0;
}

class Reader {
 public:
  Reader(std::string_view text, const Lookup& lookup, int depth)
      : text_(text), lookup_(lookup), depth_(depth) {}

  Value run() {
    const Value value = choice();
    skip();
    return at_ == text_.size() && depth_ <= max_depth ? value : Value();
  }

 private:
  void skip() {
    while (at_ < text_.size() && (is_blank(text_[at_]) || text_[at_] == '\n')) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Value choice() {
    if (++depth_ > max_depth) return {};
    const Value condition = binary(0);
    if (!take('?')) return --depth_, condition;
    const Value yes = choice();
    const bool colon = take(':');
    const Value no = choice();
    --depth_;
    if (!condition || !colon) return {};
    return *condition != 0 ? yes : no;
  }

  const Operator* operator_here() {
    skip();
    for (const Operator& one : operators)
      if (text_.substr(at_).starts_with(one.sign)) return &one;
    return nullptr;
  }

  Value binary(int weakest) {
    if (++depth_ > max_depth) return {};
    Value left = unary();
    for (const Operator* one = operator_here(); one && one->binds > weakest;
         one = operator_here()) {
      at_ += one->sign.size();
      const Value right = binary(one->sign == "**" ? one->binds - 1 : one->binds);
      left = left && right ? apply(one->sign, *left, *right) : Value();
    }
    --depth_;
    return left;
  }

  Value unary() {
    skip();
    if (at_ >= text_.size() || depth_ > max_depth) return {};
    const char c = text_[at_];
    if (c == '-' || c == '+' || c == '!' || c == '~') {
      ++at_;
      ++depth_;
      const Value value = unary();
      --depth_;
      if (!value) return {};
      if (c == '-') return wrap(0 - static_cast<std::uint64_t>(*value));
      if (c == '!') return *value == 0;
      return c == '~' ? ~*value : *value;
    }
    if (c == '(') {
      ++at_;
      const Value value = choice();
      return take(')') ? value : Value();
    }
    if (c >= '0' && c <= '9') return number();
    if (is_name_start(c)) return variable();
    return {};
  }

  Value number() {
    int base = 10;
    if (text_[at_] == '0' && at_ + 1 < text_.size()) {
      const bool hexadecimal = text_[at_ + 1] == 'x' || text_[at_ + 1] == 'X';
      base = hexadecimal ? 16 : 8;
      at_ += hexadecimal ? 2 : 1;
    }
    std::uint64_t value = 0;
    for (; at_ < text_.size() && is_name(text_[at_]); ++at_) {
      const char c = text_[at_];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : base;
      if (digit >= base) return {};
      value = value * static_cast<std::uint64_t>(base) + static_cast<std::uint64_t>(digit);
    }
    if (at_ < text_.size() && text_[at_] == '.') return {};
    return wrap(value);
  }

  Value variable() {
    const std::size_t start = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    const auto text = lookup_(std::string(text_.substr(start, at_ - start)));
    if (!text) return {};
    if (text->empty()) return 0;
    return Reader(*text, lookup_, depth_ + 1).run();
  }

  std::string_view text_;
  const Lookup& lookup_;
  int depth_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::int64_t> arithmetic(std::string_view expression, const Lookup& value_of) {
  // A variable may refer to other variables, recursively: bound the depth.
  int left = max_lookups;
  const Lookup counted = [&](const std::string& name) {
    return --left < 0 ? std::nullopt : value_of(name);
  };
  return Reader(expression, counted, 0).run();
}

}  // namespace sim::shell
