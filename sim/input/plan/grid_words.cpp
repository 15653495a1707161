#include "sim/input/plan/grid_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/input/plan/whatif.h"

namespace sim::input {

namespace {

namespace v1 = rehearse::v1;

// The name of the grid: its model's, if that can name a folder.
std::string name_of(const std::string& model) {
  const bool plain = !model.empty() && model.front() != '.' && model.find('/') == std::string::npos;
  return plain ? model : "sweep";
}

// Adds a `vary` block with one row, whose cell has all values.
void add_vary(const Vary& vary, const std::string& where, v1::Family& family, Source& source,
              Diagnostics& problems) {
  for (const std::string& value : vary.values)
    if (value.find_first_of(" \t|") != std::string::npos)
      problems.push_back(
          {where, fmt::format("'{}' has a blank or '|' and cannot vary", value.substr(0, 80))});
  v1::Vary& block = *family.add_vary();
  block.set_keys(vary.key);
  block.add_rows(fmt::format("{}", fmt::join(vary.values, "|")));
  for (const char* field : {"keys", "rows"}) source.place(block, field, where);
}

}  // namespace

Diagnostics read_words(const std::vector<std::string>& words, v1::Grid& grid, Source& source) {
  v1::Base& base = *grid.add_bases();
  base.mutable_plan();
  v1::Family& family = *grid.add_families();
  Diagnostics problems;
  std::string model;
  for (const std::string& word : words) {
    const Result<Vary> vary = parse_vary(word);
    if (!vary) {
      problems.insert(problems.end(), vary.errors().begin(), vary.errors().end());
      continue;
    }
    const std::string where = fmt::format("command line, {}", word.substr(0, 80));
    if (vary->values.size() > 1) {
      add_vary(*vary, where, family, source, problems);
      continue;
    }
    source.place(family, "set", where, family.set_size());
    family.add_set(fmt::format("{}={}", vary->key, vary->values.front()));
    if (vary->key == "model") model = vary->values.front();
  }
  const std::string name = name_of(model);
  grid.set_name(name);
  base.set_name(name);
  family.set_name(name);
  family.set_base(name);
  source.place(family, "name", "command line");
  return problems;
}

}  // namespace sim::input
