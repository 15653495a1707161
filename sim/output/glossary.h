// glossary.h — the terms that output uses, one sentence each.
//
// `rehearse doc TERM` prints a sentence; a page (page.h) shows it as a tooltip wherever its term is
// a heading. A term is added here when output begins to use it.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace sim::output {

struct Term {
  std::string_view name;  // as output spells it, in small letters except for abbreviations
  std::string_view line;  // one sentence
};

std::span<const Term> glossary();

// The term of that name, in letters of either case, with '_' or '-' for blanks; null: there is
// none.
const Term* find_term(std::string_view name);

// The terms that occur in `text` as whole words, in the order of the glossary.
std::vector<const Term*> terms_in(std::string_view text);

}  // namespace sim::output
