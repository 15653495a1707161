// brief.cpp — what a message quotes has at most 200 bytes; apostrophes begin no quotation.
#include "sim/base/brief.h"

#include <catch2/catch.hpp>
#include <string>

using namespace sim;

TEST_CASE("base: a quoted text has at most 200 bytes, whole characters and a sign of more") {
  CHECK(brief(std::string(200, 'a')) == std::string(200, 'a'));
  CHECK(brief(std::string(201, 'a')) == std::string(200, 'a') + "...");
  CHECK(brief(std::string(199, 'a') + "\u00e9 and more") == std::string(199, 'a') + "...");
  CHECK(brief(std::string(198, 'a') + "\u00e9 and more") == std::string(198, 'a') + "\u00e9...");
  CHECK(brief("") == "");
}

TEST_CASE("base: quotations in a message are cut, and nothing else is") {
  const std::string all(300, 'x'), few = std::string(200, 'x') + "...";
  for (const std::string quote : {"'", "\""}) {
    CHECK(with_brief_quotes("no " + quote + all + quote + " is known") ==
          "no " + quote + few + quote + " is known");
    CHECK(with_brief_quotes(quote + all) == quote + few);  // without an end
    CHECK(with_brief_quotes(quote + quote + " and " + quote) == quote + quote + " and " + quote);
  }
  CHECK(with_brief_quotes("the cluster's " + all + " and the plan's") ==
        "the cluster's " + all + " and the plan's");
  CHECK(with_brief_quotes("'it's " + all + "' it is") ==
        "'it's " + std::string(195, 'x') + "...' it is");
  CHECK(with_brief_quotes("/" + all) == "/" + all);
}
