// whatif.h — loads variants of a plan (schema whatif.proto), or builds them from the command line.
//
// `rehearse whatif` evaluates the base plan and each variant. Names of variants are unique, and
// there are at most max_variants of them.
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
  std::string plan;                   // "": not named in the file
  std::vector<std::string> settings;  // for the base and all variants
  std::vector<Variant> variants;
};

Result<WhatifFile> load_whatif(const std::string& path);

// Parses "key=v1,v2". Commas inside brackets or quotes do not separate values.
Result<Vary> parse_vary(const std::string& text);

// Parses "key=value key=value", a variant that is named after its settings. Blanks inside brackets
// or quotes do not separate settings.
Result<Variant> parse_variant(const std::string& text);

// All combinations; the first key changes slowest. A variant is named after its settings: "tp=4
// pp=2".
Result<std::vector<Variant>> combinations(const std::vector<Vary>& varies);

}  // namespace sim::input
