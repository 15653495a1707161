#include "sim/base/brief.h"

#include <cstddef>

#include "sim/base/ascii.h"

namespace sim {

namespace {

bool is_letter_or_digit(char c) {
  return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9');
}

}  // namespace

std::string brief(std::string_view text) {
  constexpr std::size_t most = 200;
  if (text.size() <= most) return std::string(text);
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

std::string with_brief_quotes(std::string_view message) {
  // An apostrophe stands within a word; a quotation begins before one and ends after one.
  const auto in_word = [&](std::size_t i) {
    return i < message.size() && is_letter_or_digit(message[i]);
  };
  std::string all;
  for (std::size_t i = 0; i < message.size();) {
    const char quote = message[i++];
    all += quote;
    if ((quote != '\'' && quote != '"') || (i > 1 && in_word(i - 2))) continue;
    std::size_t end = message.find(quote, i);
    while (end != message.npos && in_word(end + 1)) end = message.find(quote, end + 1);
    if (end == message.npos) end = message.size();
    all += brief(message.substr(i, end - i));
    i = end;
    if (i < message.size()) all += message[i++];
  }
  return all;
}

}  // namespace sim
