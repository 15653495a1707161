// quotes.cpp — finds the end of quoted and bracketed text.
#include "sim/input/launch/shell/syntax.h"

namespace sim::shell {

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_name(char c) {
  return is_name_start(c) || (c >= '0' && c <= '9');
}
bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

namespace {

constexpr int max_depth = 64;

std::size_t skip_brackets(std::string_view text, std::size_t at, char open, char close, int depth);

std::size_t skip_double(std::string_view text, std::size_t at, int depth) {
  for (++at; at < text.size() && text[at] != '"';) {
    if (text[at] == '\\') {
      at += 2;
    } else if (text[at] == '`' || (text[at] == '$' && at + 1 < text.size() &&
                                   (text[at + 1] == '(' || text[at + 1] == '{'))) {
      at = text[at] == '`' ? skip_quoted(text, at)
                           : skip_brackets(text, at + 1, text[at + 1],
                                           text[at + 1] == '(' ? ')' : '}', depth + 1);
    } else {
      ++at;
    }
  }
  return at + 1;
}

// REQUIRES: `at` is the opening bracket.
std::size_t skip_brackets(std::string_view text, std::size_t at, char open, char close, int depth) {
  if (depth > max_depth) return text.size();
  int nested = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '\\') {
      at += 2;
      continue;
    }
    if (c == '\'') {
      const std::size_t end = text.find('\'', at + 1);
      at = end == std::string_view::npos ? text.size() : end + 1;
      continue;
    }
    if (c == '"') {
      at = skip_double(text, at, depth + 1);
      continue;
    }
    if (c == open) ++nested;
    if (c == close && --nested == 0) return at + 1;
    ++at;
  }
  return text.size();
}

}  // namespace

std::size_t skip_quoted(std::string_view text, std::size_t at) {
  const auto within = [&](std::size_t end) { return end > text.size() ? text.size() : end; };
  const char c = text[at];
  if (c == '\\') return within(at + 2);
  if (c == '\'' || c == '`') {
    for (++at; at < text.size() && text[at] != c; ++at)
      if (c == '`' && text[at] == '\\') ++at;
    return within(at + 1);
  }
  if (c == '"') return within(skip_double(text, at, 0));
  if (c == '$' && at + 1 < text.size()) {
    const char next = text[at + 1];
    if (next == '(') return within(skip_brackets(text, at + 1, '(', ')', 0));
    if (next == '{') return within(skip_brackets(text, at + 1, '{', '}', 0));
    if (next == '\'') return skip_quoted(text, at + 1);
  }
  return within(at + 1);
}

std::size_t skip_brackets(std::string_view text, std::size_t at) {
  return skip_brackets(text, at, '(', ')', 0);
}

}  // namespace sim::shell
