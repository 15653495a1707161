// glossary.h — the terms of the output, with one sentence each.
//
// `rehearse doc TERM` prints the sentence. A page (page.h) shows it as a tooltip on headings with
// the term. A new term in the output needs an entry here.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace sim::output {

struct Term {
  std::string_view name;  // as in the output, in lower case except abbreviations
  std::string_view line;  // one sentence
};

std::span<const Term> glossary();

// The term with that name, in any case, with '_' or '-' for blanks; nullptr if there is none.
const Term* find_term(std::string_view name);

// The terms that occur in `text` as whole words, in the order of the glossary.
std::vector<const Term*> terms_in(std::string_view text);

}  // namespace sim::output
