#include "sim/output/glossary.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "sim/output/document.h"

using namespace sim::output;

TEST_CASE("output: every term of the glossary is explained once, in one sentence") {
  std::set<std::string_view> names;
  for (const Term& term : glossary()) {
    INFO(term.name);
    CHECK(names.insert(term.name).second);
    CHECK(find_term(term.name) == &term);
    CHECK(term.line.back() == '.');
    CHECK(term.line.size() <= 180);
    CHECK(term.line.find(". ") == std::string_view::npos);
  }
}

TEST_CASE("output: a term is found in letters of either case, with blanks or dashes") {
  REQUIRE(find_term("Textbook_Bubble") != nullptr);
  CHECK(find_term("textbook-bubble") == find_term("textbook bubble"));
  CHECK(find_term("MFU") == find_term("mfu"));
  CHECK(find_term("bubbles") == nullptr);
  CHECK(find_term("") == nullptr);
}

TEST_CASE("output: terms are found in a text as whole words") {
  const auto found = terms_in("peak reserved, in a sub-stage: Bubble");
  std::set<std::string_view> names;
  for (const Term* term : found) names.insert(term->name);
  CHECK(names == std::set<std::string_view>{"bubble", "peak", "reserved", "stage"});
  CHECK(terms_in("speaks of stages").empty());
}

TEST_CASE("output: a page has the terms that its headings use") {
  Document document;
  document.blocks.emplace_back(
      Rows{"plans", "best plans", {{"peak", "reserved peak", "GiB"}}, {{Json(1.0)}}});
  const Json terms = to_json(document)["glossary"];
  REQUIRE(terms.size() == 2);
  CHECK(terms[0][0] == "peak");
  CHECK(terms[1][0] == "reserved");
  CHECK(terms[1][1] == std::string(find_term("reserved")->line));
}
