#include "sim/input/launch/python/tokens.h"

#include <fmt/format.h>

#include <array>

namespace sim::python {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Operators of several characters, the longest first.
constexpr std::array<std::string_view, 23> long_symbols = {
    "**=", "//=", ">>=", "<<=", "...", "**", "//", ">>", "<<", "->", ":=", "==",
    "!=",  "<=",  ">=",  "+=",  "-=",  "*=", "/=", "%=", "@=", "|=", "&="};

class Scanner {
 public:
  Scanner(std::string_view text, SyntaxProblem& problem) : text_(text), problem_(problem) {}

  std::vector<Token> run() {
    begin_line();
    while (at_ < text_.size() && problem_.message.empty()) step();
    if (!open_.empty() && problem_.message.empty())
      fail(fmt::format("'{}' is never closed", text_[open_.back()]), open_.back());
    add(Token::Kind::line_end, at_);
    for (; indents_.size() > 1; indents_.pop_back()) add(Token::Kind::dedent, at_);
    add(Token::Kind::end, at_);
    return std::move(tokens_);
  }

 private:
  char here(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  void add(Token::Kind kind, std::size_t from, std::string text = "") {
    tokens_.push_back({kind, std::move(text), from, at_});
  }

  void fail(std::string message, std::size_t at) {
    problem_ = {std::move(message), at};
    at_ = text_.size();
  }

  void step() {
    const char c = here();
    if (c == '\n') {
      ++at_;
      if (!open_.empty()) return;
      if (!tokens_.empty() && tokens_.back().kind != Token::Kind::line_end)
        add(Token::Kind::line_end, at_ - 1);
      return begin_line();
    }
    if (c == ' ' || c == '\t' || c == '\r' || c == '\f') {
      ++at_;
    } else if (c == '\\' && (here(1) == '\n' || (here(1) == '\r' && here(2) == '\n'))) {
      at_ += here(1) == '\n' ? 2 : 3;
    } else if (c == '#') {
      while (at_ < text_.size() && here() != '\n') ++at_;
    } else if (is_digit(c) || (c == '.' && is_digit(here(1)))) {
      number();
    } else if (is_letter(c)) {
      word();
    } else if (c == '"' || c == '\'') {
      string(at_, "");
    } else {
      symbol();
    }
  }

  // The indentation of a line that is neither empty nor a comment opens or closes blocks.
  void begin_line() {
    std::size_t width = 0, i = at_;
    for (; i < text_.size() && (text_[i] == ' ' || text_[i] == '\t'); ++i)
      width = text_[i] == '\t' ? (width / 8 + 1) * 8 : width + 1;
    if (i >= text_.size() || text_[i] == '\n' || text_[i] == '\r' || text_[i] == '#') return;
    at_ = i;
    if (width > indents_.back()) {
      indents_.push_back(width);
      add(Token::Kind::indent, at_);
    }
    while (width < indents_.back()) {
      indents_.pop_back();
      add(Token::Kind::dedent, at_);
    }
    if (width != indents_.back()) fail("this line is indented as no block above it is", at_);
  }

  void number() {
    const std::size_t from = at_;
    std::string digits;
    while (is_letter(here()) || is_digit(here()) || here() == '.' ||
           ((here() == '+' || here() == '-') && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E') &&
            at_ > from && !text_.substr(from).starts_with("0x"))) {
      if (here() != '_') digits += here();
      ++at_;
    }
    add(Token::Kind::number, from, digits);
  }

  void word() {
    const std::size_t from = at_;
    while (is_letter(here()) || is_digit(here())) ++at_;
    const std::string text(text_.substr(from, at_ - from));
    const bool is_prefix = text.size() <= 2 && (here() == '"' || here() == '\'') &&
                           text.find_first_not_of("rRbBuUfF") == std::string::npos;
    if (is_prefix) return string(from, text);
    add(Token::Kind::name, from, text);
  }

  // A string from its first quote; `prefix`: its letters before it.
  void string(std::size_t from, const std::string& prefix) {
    const bool is_raw = prefix.find_first_of("rR") != std::string::npos;
    const bool is_pattern = prefix.find_first_of("fF") != std::string::npos;
    const char quote = here();
    const bool is_long = here(1) == quote && here(2) == quote;
    const std::size_t size = is_long ? 3 : 1;
    at_ += size;
    std::string content;
    while (true) {
      if (at_ >= text_.size() || (!is_long && here() == '\n'))
        return fail("this string has no closing quote", from);
      if (here() == quote && (!is_long || (here(1) == quote && here(2) == quote))) break;
      if (here() == '\\' && at_ + 1 < text_.size()) {
        if (is_raw || (here(1) != '\n' && here(1) != quote && here(1) != '\\')) content += '\\';
        if (here(1) != '\n') content += here(1);
        at_ += 2;
        continue;
      }
      content += here();
      ++at_;
    }
    at_ += size;
    add(is_pattern ? Token::Kind::pattern : Token::Kind::string, from, std::move(content));
  }

  void symbol() {
    const std::size_t from = at_;
    const std::string_view rest = text_.substr(at_);
    for (const std::string_view one : long_symbols)
      if (rest.starts_with(one)) {
        at_ += one.size();
        return add(Token::Kind::symbol, from, std::string(one));
      }
    const char c = here();
    if (std::string_view("()[]{},:;.=+-*/%<>@&|^~!").find(c) == std::string_view::npos)
      return fail(fmt::format("Python has no character '{}' here", c == '\0' ? ' ' : c), at_);
    if (c == '(' || c == '[' || c == '{') open_.push_back(at_);
    if (c == ')' || c == ']' || c == '}') {
      const std::string_view pairs = "()[]{}";
      if (open_.empty() || pairs[pairs.find(text_[open_.back()]) + 1] != c)
        return fail(fmt::format("'{}' closes no bracket", c), at_);
      open_.pop_back();
    }
    ++at_;
    add(Token::Kind::symbol, from, std::string(1, c));
  }

  std::string_view text_;
  SyntaxProblem& problem_;
  std::size_t at_ = 0;
  std::vector<Token> tokens_;
  std::vector<std::size_t> open_;           // brackets
  std::vector<std::size_t> indents_ = {0};  // widths of the blocks
};

}  // namespace

std::vector<Token> tokens_of(std::string_view text, SyntaxProblem& problem) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  return Scanner(text, problem).run();
}

}  // namespace sim::python
