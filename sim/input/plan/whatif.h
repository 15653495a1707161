// whatif.h — loads a table of variants (schema whatif.proto), and makes one of the settings that a
// command line varies.
//
// Invariant: names of variants are unique, and there are at most max_variants of them.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.h"

namespace sim::input {

constexpr std::size_t max_variants = 10'000;

struct Variant {
  std::string name;
  std::vector<std::string> settings;  // "key=value"
};

struct Vary {
  std::string key;
  std::vector<std::string> values;
};

struct WhatifFile {
  std::string plan;                   // "" when the file names none
  std::vector<std::string> settings;  // of the base and of every variant
  std::vector<Variant> variants;
};

Result<WhatifFile> load_whatif(const std::string& path);

// "key=v1,v2": commas inside of brackets and quotes separate nothing.
Result<Vary> parse_vary(const std::string& text);

// Every combination, the first key the slowest; a name is its settings: "tp=4 pp=2".
Result<std::vector<Variant>> combinations(const std::vector<Vary>& varies);

}  // namespace sim::input
