// page_parts.cpp — d3.min.js has the parts of D3 that the scripts of the page use, and no others.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace {

const std::string page = REHEARSE_SOURCE_DIR "/sim/output/page/";

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::set<std::string> found(const std::string& text, const std::string& pattern) {
  std::set<std::string> all;
  const std::regex what(pattern);
  for (auto it = std::sregex_iterator(text.begin(), text.end(), what); it != std::sregex_iterator();
       ++it)
    all.insert((*it)[1]);
  return all;
}

}  // namespace

TEST_CASE("page: d3.min.js has the parts of D3 that the scripts use") {
  const std::set<std::string> used =
      found(text_of(page + "page.js") + text_of(page + "live.js"), R"(\bd3\.([A-Za-z]+))");
  std::string lists;
  for (const std::string& list :
       found(text_of(page + "d3-7.9.0/parts.js"), R"(export \{([^}]*)\})"))
    lists += list + ",";
  const std::set<std::string> exported = found(lists, R"(([A-Za-z]+))");
  CHECK(used == exported);
  // esbuild writes each export as `name:()=>local`.
  const std::set<std::string> bundled =
      found(text_of(page + "d3-7.9.0/d3.min.js"), R"(\b([A-Za-z]+):\(\)=>)");
  CHECK(std::ranges::includes(bundled, exported));
}
