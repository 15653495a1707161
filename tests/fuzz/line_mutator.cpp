// line_mutator.cpp — how libFuzzer changes texts: half of the time as any bytes, otherwise by what
// such formats are made of. A line goes, comes twice or trades places with another; a number
// becomes one at the edge of its type; a piece between separators (a cell, a value, a word) goes or
// repeats.
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace {

using Random = std::minstd_rand;

std::size_t below(Random& random, std::size_t n) {
  return n == 0 ? 0 : random() % n;
}

// Begin of each piece that `ends` closes, and the end of the text.
std::vector<std::size_t> pieces(const std::string& text, bool (*ends)(char)) {
  std::vector<std::size_t> at{0};
  for (std::size_t i = 0; i < text.size(); ++i)
    if (ends(text[i])) at.push_back(i + 1);
  if (at.back() != text.size()) at.push_back(text.size());
  return at;
}

std::string change_piece(const std::string& text, Random& random, bool (*ends)(char)) {
  const std::vector<std::size_t> at = pieces(text, ends);
  if (at.size() < 2) return text;
  const std::size_t i = below(random, at.size() - 1), j = below(random, at.size() - 1);
  const auto piece = [&](std::size_t k) { return text.substr(at[k], at[k + 1] - at[k]); };
  std::string out = text;
  switch (random() % 4) {
    case 0:
      return out.erase(at[i], at[i + 1] - at[i]);
    case 1:
      return out.insert(at[i], piece(i));
    case 2:
      return out.insert(at[j], piece(i));
    default:
      return out.replace(at[i], at[i + 1] - at[i], piece(j));
  }
}

std::string change_number(const std::string& text, Random& random) {
  static const char* const edges[] = {"0",
                                      "-1",
                                      "1",
                                      "2147483647",
                                      "2147483648",
                                      "4294967296",
                                      "9223372036854775807",
                                      "9223372036854775808",
                                      "1e308",
                                      "1e-308",
                                      "nan",
                                      "inf",
                                      "-0",
                                      "0.5",
                                      "1e19",
                                      "65536"};
  std::vector<std::size_t> begins;
  const auto digit = [&](std::size_t i) {
    return std::isdigit(static_cast<unsigned char>(text[i]));
  };
  for (std::size_t i = 0; i < text.size(); ++i)
    if (digit(i) && (i == 0 || !digit(i - 1))) begins.push_back(i);
  if (begins.empty()) return text;
  const std::size_t begin = begins[below(random, begins.size())];
  std::size_t end = begin;
  while (end < text.size() && digit(end)) ++end;
  std::string out = text;
  return out.replace(begin, end - begin, edges[below(random, std::size(edges))]);
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  Random random(seed);
  std::string text(reinterpret_cast<const char*>(data), size);
  switch (random() % 6) {
    case 0:
      text = change_piece(text, random, [](char c) { return c == '\n'; });
      break;
    case 1:
      text = change_piece(text, random,
                          [](char c) { return std::strchr(" ,:=;{}[]<>\"\t\n", c) != nullptr; });
      break;
    case 2:
      text = change_number(text, random);
      break;
    default:
      return LLVMFuzzerMutate(data, size, most);
  }
  size = std::min(text.size(), most);
  std::copy_n(text.begin(), size, data);
  return size;
}
