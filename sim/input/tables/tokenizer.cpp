#include "sim/input/tables/tokenizer.h"

#include <string>

#include "sim/base/ascii.h"
#include "sim/input/schema/tokenizer.pb.h"
#include "sim/input/text/locate.h"
#include "sim/input/text/textproto.h"

namespace sim::input {

std::optional<std::int64_t> vocabulary_of(std::string_view tokenizer) {
  rehearse::v1::Tokenizers table;
  Source source(repository_root() + "/models/tokenizers.textproto");
  if (!load(source, table).empty()) return {};
  const std::string name = lower(tokenizer);
  for (const rehearse::v1::Tokenizer& one : table.tokenizer())
    for (const std::string& pattern : one.pattern())
      if (name.find(pattern) != std::string::npos) return one.vocab();
  return {};
}

Diagnostics tokenizer_problems(const std::string& path) {
  rehearse::v1::Tokenizers table;
  Source source(path);
  return load(source, table);
}

}  // namespace sim::input
