// A document as text, JSON, CSV and a page.
#include "sim/output/document.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/output/documents/sweep_document.h"
#include "sim/output/documents/whatif_document.h"
#include "sim/output/page.h"
#include "sim/output/record.h"
#include "sim/output/table.h"
#include "tests/output/sample.h"
#include "tests/picture.h"

using namespace sim;
using namespace sim::output;

namespace {

Rows sample_rows() {
  return {"points",
          "two points",
          {{"name", "point", "", 0, true},
           {"time_s", "step", "s", 2},
           {"bubble", "bubble", "", 1, false, " %"},
           {"fits", "fits", ""}},
          {{"a, \"b\"", 1.256, 12.34, true}, {"c", nullptr, 3, false}}};
}

Document sample_document(const std::string& text) {
  Document document{text, text, {"name"}, {}};
  document.blocks.emplace_back(Note{"", text, true});
  Rows rows = sample_rows();
  rows.title = text;
  rows.cells[0][0] = text;
  document.blocks.emplace_back(std::move(rows));
  return document;
}

}  // namespace

TEST_CASE("output: a document as text has its notes and tables, a blank line apart") {
  Document document{"title", "", {}, {}};
  document.blocks.emplace_back(Note{"", "two points fit"});
  document.blocks.emplace_back(Heatmap{});
  document.blocks.emplace_back(sample_rows());
  Rows searched = sample_rows();
  searched.searched = true;
  document.blocks.emplace_back(searched);
  CHECK(text(document) ==
        "two points fit\n"
        "\n"
        "two points\n"
        "  point   step s  bubble  fits\n"
        "  a, \"b\"    1.26  12.3 %   yes\n"
        "  c                  3 %    no\n");
}

TEST_CASE("output: what is said once is text by its words and JSON by its keys") {
  Document document;
  document.blocks.emplace_back(Note{"", "only words"});
  document.blocks.emplace_back(Note{"", "both", false, "said"});
  document.blocks.emplace_back(Values{
      "", {value("gib", "memory", 12.345, "GiB"), value("fits", "", true), value("", "seen", 3)}});
  document.blocks.emplace_back(Data{"deep", {{"a", 1}}});
  document.blocks.emplace_back(Picture{"##\n"});
  Rows rows{"rows",
            "",
            {{"bytes", "size", "", 0, false, "", 1, Show::bytes},
             {"seconds", "time", "us", 1, false, "", 1e6},
             {"hidden"},
             {"", "change", "", 1, false, " %", 100, Show::change},
             {"rate", "rate", "", 4, false, "", 1, Show::general}},
            {{1 << 20, 1.5e-6, "x", 0.05, 123456.0}}};
  document.blocks.emplace_back(rows);
  CHECK(text(document) ==
        "only words\n\nboth\n\n  memory  12.35 GiB\n  seen    3\n\n##\n\n"
        "     size  time us  change     rate\n"
        "  1.0 MiB      1.5  +5.0 %  123,500\n");
  CHECK(line(result(document)) ==
        R"({"said":"both","gib":12.345,"fits":true,"deep":{"a":1},)"
        R"("rows":[{"bytes":1048576,"seconds":1.5e-06,"hidden":"x","rate":123456.0}]})");
  rows.name = whole;
  document.blocks.emplace_back(rows);
  CHECK(result(document).is_array());
}

TEST_CASE("output: lines fit their width, cells of words fold first") {
  const std::string words = "one two three four five six seven eight nine ten eleven twelve";
  Table table({"<what", "GiB", "<where"});
  table.row({words, "1.00", words + " " + words});
  for (const std::size_t columns : {60, 80, 100, 200}) {
    set_line_width(columns);
    const std::string all = table.text();
    for (std::size_t begin = 0; begin < all.size(); begin = all.find('\n', begin) + 1)
      CHECK(all.find('\n', begin) - begin <= columns);
  }
  set_line_width(0);
  CHECK(std::ranges::count(table.text(), '\n') == 2);
  set_line_width(100);
  CHECK(folded("a bb ccc", 4) == std::vector<std::string>{"a bb", "ccc"});
  CHECK(folded("abcdefgh ij", 4) == std::vector<std::string>{"abcdefgh", "ij"});
  CHECK(fold_lines("  " + words + "\nend\n", 40) ==
        "  one two three four five six seven\n      eight nine ten eleven twelve\nend\n");
}

TEST_CASE("output: a picture wider than a line comes in parts") {
  Document document;
  document.blocks.emplace_back(Picture{"FFFF----BB\n0 0\n.FFFF----BB.\n"});
  const auto at = [&](std::size_t columns) {
    set_line_width(columns);
    const std::string all = text(document);
    set_line_width(100);
    return all;
  };
  for (const std::size_t whole : {0, 12, 100})
    CHECK(at(whole) == "FFFF----BB\n0 0\n.FFFF----BB.\n");
  CHECK(at(10) ==
        "columns 1 to 10\nFFFF----BB\n0 0\n.FFFF----B\n\n"
        "columns 11 to 12\n\n\nB.\n");
}

TEST_CASE("output: a table as JSON has the keys of its columns, as CSV their order") {
  const Rows rows = sample_rows();
  CHECK(line(to_json(rows)) == R"([{"name":"a, \"b\"","time_s":1.256,"bubble":12.34,"fits":true},)"
                               R"({"name":"c","time_s":null,"bubble":3,"fits":false}])");
  CHECK(csv(rows) == "name,time_s,bubble,fits\n\"a, \"\"b\"\"\",1.256,12.34,true\nc,,3,false\n");
}

TEST_CASE("output: columns of a page that repeat few words hold each once") {
  Rows rows{"t",
            "",
            {{"word", "word", "", 0, true},
             {"other", "other", "", 0, true},
             {"half", "half", "", 0},
             {"side", "side", "", 0, true}},
            {}};
  for (int i = 0; i < 40; ++i)
    rows.cells.push_back({i % 2 == 0 ? "even" : "odd", std::to_string(i), i < 10 ? 0 : 1,
                          i < 30 ? "left" : "right"});
  Document document;
  document.blocks.emplace_back(rows);
  const Json columns = to_json(document)["blocks"][0]["columns"];
  CHECK(columns[0]["words"] == Json::array({"even", "odd"}));
  CHECK(columns[0]["codes"].size() == 40);
  CHECK(columns[0]["codes"][3] == 1);
  CHECK(columns[1]["values"][39] == "39");
  CHECK(columns[2]["values_runs"] == Json::array({0, 10, 1, 30}));
  CHECK(columns[3]["codes_runs"] == Json::array({0, 30, 1, 10}));
}

TEST_CASE("output: text of a document cannot leave the data of its page") {
  for (const std::string text :
       {"</script><script>alert(1)</script>", "<!--<script>", "<img src=x onerror=alert(1)>",
        "\"onload=\"alert(1)", "]]>", "'\"><svg/onload=alert(1)>", "\xff\xfe not UTF-8", "@data@",
        "@title@ @script@"}) {
    INFO(text);
    const std::string html = page(sample_document(text));
    const std::string plain = page(sample_document("x"));
    // Hostile text adds no markup to the page.
    CHECK(std::ranges::count(html, '<') == std::ranges::count(plain, '<'));
    CHECK(html.find("<script>alert") == std::string::npos);
  }
  CHECK(escape_html("<a href=\"x\" title='y'>&") ==
        "&lt;a href=&quot;x&quot; title=&#39;y&#39;&gt;&amp;");
}

TEST_CASE("output: a page needs nothing from elsewhere and forbids it") {
  const std::string html = page(sample_document("x"));
  CHECK(html.find("default-src 'none'") != std::string::npos);
  for (const char* outside : {" src=", "@import", "url(http", "<link"}) {
    INFO(outside);
    CHECK(html.find(outside) == std::string::npos);
  }
  CHECK(html.find("Copyright 2010-2023 Mike Bostock") != std::string::npos);
}

TEST_CASE("output: every chart of a sweep names a table and columns that are there") {
  std::vector<Json> records;
  records.push_back(record({"0123456789abcdef", "a", "f"}, sample::fits()));
  records.push_back(record({"0123456789abcde0", "b", "f"}, sample::out_of_memory()));
  for (const Json& one : records) CHECK(record_problem(one).empty());
  const Document document = sweep_document("s", records);
  const auto has = [&](const std::string& table, const std::string& key) {
    INFO(table << "." << key);
    const Rows* rows = document.table(table);
    REQUIRE(rows != nullptr);
    CHECK(std::ranges::count(rows->columns, key, &Column::key) == 1);
  };
  int charts = 0;
  for (const Block& block : document.blocks) {
    if (const auto* map = std::get_if<Heatmap>(&block)) {
      ++charts;
      for (const std::string& key : map->axes) has(map->table, key);
      for (const std::string& key : map->values) has(map->table, key);
    }
    if (const auto* series = std::get_if<Series>(&block)) {
      ++charts;
      has(series->table, series->x);
      for (const std::string& key : series->y) has(series->table, key);
    }
  }
  CHECK(charts == 4);
}

TEST_CASE("output: what is no record is said, key by key") {
  Json good = record({"0123456789abcdef", "a", "f"}, sample::fits());
  CHECK(record_problem(good).empty());
  CHECK(record_problem(Json::array()) == "is no record");
  for (const auto& [key, value] : good.items()) {
    if (key == "id") continue;
    Json bad = good;
    bad[key] = Json::object();
    INFO(key);
    CHECK_FALSE(record_problem(bad).empty());
    bad.erase(key);
    CHECK_FALSE(record_problem(bad).empty());
  }
  Json oom = record({"0123456789abcdef", "a", "f"}, sample::out_of_memory());
  CHECK(record_problem(oom).empty());
  for (const char* key : {"stage", "step", "pass", "fragmentation_alone"}) {
    Json bad = oom;
    bad["out_of_memory"][key] = nullptr;
    INFO(key);
    CHECK_FALSE(record_problem(bad).empty());
  }
}

TEST_CASE("output: why a variant differs is told by the three accounts that differ most") {
  WhatifRow base;
  base.name = "base";
  base.fits = true;
  base.step = 2;
  base.accounts.assign(static_cast<std::size_t>(engine::Account::count_), 0.1);
  WhatifRow same = base, other = base, two = base;
  same.name = "same";
  other.name = "other";
  other.step = 3.07;
  other.accounts[0] += 0.5;
  other.accounts[1] += 0.3;
  other.accounts[2] -= 0.06;
  other.accounts[4] += 0.33;
  two.name = "two";
  two.step = 2.5;
  two.accounts[4] += 0.5;
  two.accounts[1] += 0.001;  // below a fiftieth of the difference
  two.links = {{"NVLink", "node 0", "tp", 0.5, 0.25, false},
               {"NIC", "port 3", "dp", 0.75, 0.5, true}};
  const std::size_t before = line_width();
  set_line_width(200);
  const std::string said = text(whatif_document({base, same, other, two}));
  set_line_width(before);
  CAPTURE(said);
  const auto has = [&](const char* words) { return said.find(words) != std::string::npos; };
  CHECK(has("no difference"));
  CHECK(
      has("step +1.070 s: compute +0.500 s, data-parallel communication +0.330 s, tensor-parallel "
          "communication +0.300 s\n"));
  CHECK(has("step +0.500 s: data-parallel communication +0.500 s\n"));
  CHECK(has("port 3 75.0 % (dp); node 0 50.0 % (tp)"));
  WhatifRow fails = base, none;
  fails.name = "fails";
  fails.fits = false;
  fails.reason = "stage 0 at set-up";
  none.name = "none";
  none.problem = "tp 3 does not divide 16 heads";
  const std::vector<WhatifRow> all = {base, same, other, two, fails, none};
  picture::same("output/pictures/whatif.json", result(whatif_document(all)).dump(1) + "\n");
  picture::same("output/pictures/whatif-page.json", to_json(whatif_page(all)).dump(1) + "\n");
}
