// page.cpp — the page of a report in a real browser, where Chromium is installed. Every chart has
// its marks, the console stays empty, and hostile text is escaped.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "tests/golden/program.h"
#include "tests/picture.h"

using golden::run;
using golden::text_of;
using picture::count;
namespace fs = std::filesystem;

namespace {

bool has_browser(const std::string& folder) {
  if (run("command -v chromium", folder).code == 0) return true;
  WARN("not tested here, not installed: chromium");
  return false;
}

struct Opened {
  std::string dom, said;
  int ready_ms = -1;
};

// The page after its script has run, and the messages on the console.
Opened open_page(const std::string& folder, const std::string& file) {
  const golden::Finished browser =
      run("timeout 120 chromium --headless --no-sandbox --disable-gpu --disable-quic "
          "--no-first-run --disable-background-networking --disable-component-update "
          "--disable-sync --user-data-dir=$(mktemp -d -p .) --enable-logging=stderr --dump-dom "
          "\"file://$PWD/" +
              file + "\"",
          folder);
  Opened opened{browser.out, "", -1};
  for (std::size_t at = 0; (at = browser.err.find("CONSOLE", at)) != std::string::npos; ++at)
    opened.said += browser.err.substr(at, browser.err.find('\n', at) - at) + "\n";
  const std::string mark = "data-ready=\"";
  if (const std::size_t at = browser.out.find(mark); at != std::string::npos)
    opened.ready_ms = std::atoi(browser.out.c_str() + at + mark.size());
  return opened;
}

std::string scratch(const std::string& name) {
  const std::string folder = golden::scratch(name);
  fs::copy(fs::path(REHEARSE_SOURCE_DIR) / "tests/golden/grid.textproto", folder);
  return folder;
}

// One section of the page, from the heading that holds `title`.
std::string section(const std::string& dom, const std::string& title) {
  const std::size_t at = dom.find(">" + title);  // the heading may have a tooltip
  return at == std::string::npos ? "" : dom.substr(at, dom.find("</section>", at) - at);
}

}  // namespace

TEST_CASE("golden: the page of a sweep holds every point in every chart and says nothing") {
  const std::string folder = scratch("page-sweep");
  REQUIRE(run("./rehearse sweep grid.textproto -o out -q", folder).code == 0);
  const golden::Finished made = run("./rehearse report out -o page.html", folder);
  INFO(made.err);
  REQUIRE(made.code == 0);
  const std::string page = text_of(folder + "/page.html");
  CHECK(page.find("http://") == page.find("http://www.w3.org"));  // only names of namespaces
  CHECK(page.size() < 1'000'000);
  if (!has_browser(folder)) return;
  const Opened opened = open_page(folder, "page.html");
  CHECK(opened.said.empty());
  CHECK(opened.ready_ms >= 0);
  // 72 points: tp 3 does not divide the heads. Replayed points have a memory.
  const std::string csv = text_of(folder + "/out/results.csv");
  const std::size_t fit = count(csv, ",fits,");
  const std::size_t oom = count(csv, ",oom,");
  REQUIRE(fit > 0);
  REQUIRE(oom > 0);
  // The circles and crosses of the legend are marks without a class.
  CHECK(count(section(opened.dom, "throughput against"), "class=\"mark\"") == fit);
  CHECK(count(section(opened.dom, "the closed-form estimate against the replay: memory"),
              "class=\"mark\"") == fit + oom);
  CHECK(count(section(opened.dom, "the best plan"), "class=\"cell mark\"") == 12);
  CHECK(count(section(opened.dom, "where memory runs out (points)"), "class=\"mark\"") >= 1);
  CHECK(count(section(opened.dom, "all points"), "<tr") >= 20);
}

// The number of elements decides how long a page takes to open, and is the same on every machine.
TEST_CASE("golden: a page of ten thousand points keeps its elements and its rows few") {
  constexpr int points = 10'000;
  const std::string folder = scratch("page-large");
  REQUIRE(run("./rehearse sweep grid.textproto -o out -q", folder).code == 0);
  // The records repeated, each with its own name and step time.
  std::istringstream lines(text_of(folder + "/out/results.jsonl"));
  std::vector<nlohmann::ordered_json> records;
  for (std::string line; std::getline(lines, line);)
    records.push_back(nlohmann::ordered_json::parse(line));
  std::string text;
  for (int i = 0; i < points; ++i) {
    nlohmann::ordered_json record = records[static_cast<std::size_t>(i) % records.size()];
    record["id"] = std::to_string(i);
    record["point"] = "golden/" + std::to_string(i);
    if (record["step_time_s"].is_number())
      record["step_time_s"] = record["step_time_s"].get<double>() * (1 + i * 7919 % 1000 / 3e3);
    text += record.dump() + "\n";
  }
  golden::write(folder + "/out/results.jsonl", text);
  REQUIRE(run("./rehearse report out -o page.html -q", folder).code == 0);
  CHECK(fs::file_size(folder + "/page.html") < 3'000'000);
  if (!has_browser(folder)) return;
  const Opened opened = open_page(folder, "page.html");
  CHECK(opened.said.empty());
  CHECK(opened.ready_ms >= 0);
  CHECK(count(section(opened.dom, "all points"), "<tr") < 500);
  // Each point is a mark in at most two charts.
  CHECK(count(opened.dom, "<") - count(opened.dom, "</") < 3 * points);
}

TEST_CASE("golden: the page of a run draws its pipeline, its memory and its time") {
  const std::string folder = scratch("page-run");
  const golden::Finished made =
      run("./rehearse run llama-2-7b-64 global_batch=64 --report page.html -q", folder);
  INFO(made.err);
  REQUIRE(made.code == 0);
  CHECK(made.out == run("./rehearse run llama-2-7b-64 global_batch=64 -q", folder).out);
  REQUIRE(run("./rehearse report llama-2-7b-64 global_batch=64 -o other.html -q", folder).code ==
          0);
  CHECK(text_of(folder + "/page.html") == text_of(folder + "/other.html"));
  if (!has_browser(folder)) return;
  const Opened opened = open_page(folder, "page.html");
  CHECK(opened.said.empty());
  // Forward and backward passes of 16 microbatches on four stages, and the optimizer after the
  // last.
  CHECK(count(section(opened.dom, "the pipeline"), "class=\"mark\"") >= 4 * 32);
  CHECK(count(section(opened.dom, "memory over time by"), "class=\"mark\"") >= 5);
  CHECK(count(section(opened.dom, "memory over time by"), "mark peak") == 1);
  CHECK(count(section(opened.dom, "where the step"), "class=\"mark\"") >= 4);
  CHECK(count(section(opened.dom, "how busy"), "class=\"mark\"") >= 1);
  // The fabric with its cables: eight nodes of eight NICs each.
  CHECK(count(section(opened.dom, "how busy the links are</h2>"), "<line") >= 64);
}

TEST_CASE("golden: reports are readable in light, in dark and on 400 px, and small") {
  const std::string folder = scratch("page-readable");
  REQUIRE(run("./rehearse report llama-2-7b-64 global_batch=64 -o run.html -q", folder).code == 0);
  REQUIRE(run("./rehearse report llama-3.1-70b-64 -o oom.html -q", folder).code == 2);
  REQUIRE(run("./rehearse report llama-3.1-70b-512 schedule=zb-1p -o split.html -q", folder).code ==
          0);
  REQUIRE(run("./rehearse report gpt3-175b-1024 llama-3.1-70b-512 mixtral-8x7b-64 -o several.html "
              "-q",
              folder)
              .code == 0);
  REQUIRE(run("./rehearse sweep model=llama-2-7b cluster=dgx-h100 gpus=16 global_batch=32 "
              "sequence=4096 tp=1,2,4 pp=1,2 micro_batch=1,2 -o out --report sweep.html -q",
              folder)
              .code == 0);
  for (const char* page : {"run.html", "oom.html", "split.html"})
    CHECK(fs::file_size(folder + "/" + page) < 400'000);
  CHECK(text_of(folder + "/several.html").find("llama-3.1-70b-512") != std::string::npos);
  if (!has_browser(folder)) return;
  const golden::Finished tried =
      run("timeout 300 python3 \"" REHEARSE_SOURCE_DIR
          "/tests/browser/report_test.py\" run.html oom.html split.html several.html sweep.html",
          folder);
  INFO(tried.out << tried.err);
  CHECK(tried.code == 0);
}

TEST_CASE("golden: the page of plan draws every plan that was replayed, and says what was cut") {
  const std::string folder = scratch("page-plan");
  const std::string command =
      "./rehearse plan llama-3.1-8b dgx-h100 --gpus 8 --batch 16 --sequence 8192 zero=1,3 pp=1,2 "
      "--json -q";
  const golden::Finished made = run(command + " --report page.html", folder);
  INFO(made.err);
  REQUIRE(made.code == 0);
  const auto result = nlohmann::json::parse(made.out)["result"];
  if (!has_browser(folder)) return;
  const Opened opened = open_page(folder, "page.html");
  CHECK(opened.said.empty());
  CHECK(opened.ready_ms >= 0);
  const std::size_t marks =
      count(section(opened.dom, "throughput against memory"), "class=\"mark\"");
  CHECK(marks >= result["plans"].size());
  CHECK(marks <= result["space"]["replayed"].get<std::size_t>());
  // The heading, and placeholders for the rows that are not in view above and below.
  CHECK(count(section(opened.dom, "time against memory"), "<tr") == 3 + result["front"].size());
  const std::string cut = section(opened.dom, "the space");
  for (const char* key : {"plans", "impossible", "cut_by_time", "cut_by_memory", "replayed"})
    CHECK(cut.find(">" + result["space"][key].dump() + "<") != std::string::npos);
  CHECK(opened.dom.find("--tensor-model-parallel-size") != std::string::npos);
}

TEST_CASE("golden: the page of validate draws every row that states a throughput") {
  const std::string folder = scratch("page-validate");
  const golden::Finished made =
      run("./rehearse validate calibration/measured/training_runs.csv --where "
          "source_group=narayanan2021-table1 -q --report page.html",
          folder);
  INFO(made.err);
  REQUIRE(made.code == 0);
  if (!has_browser(folder)) return;
  const Opened opened = open_page(folder, "page.html");
  CHECK(opened.said.empty());
  CHECK(count(opened.dom, "class=\"mark\"") >= 2);
  CHECK(count(opened.dom, "class=\"interval\"") >= 1);
}

TEST_CASE("golden: the page of whatif draws the time and the memory of every variant") {
  const std::string folder = scratch("page-whatif");
  const std::string command =
      "./rehearse whatif llama-2-7b-64 global_batch=64 --vary node.nic_bandwidth=100Gb/s,400Gb/s "
      "--vary recompute=none,full -q";
  const golden::Finished made = run(command + " --report page.html", folder);
  INFO(made.err);
  REQUIRE(made.code == 0);
  CHECK(made.out == run(command, folder).out);
  CHECK(text_of(folder + "/page.html").size() < 1'000'000);
  if (!has_browser(folder)) return;
  const Opened opened = open_page(folder, "page.html");
  CHECK(opened.said.empty());
  CHECK(count(section(opened.dom, "where the step"), "class=\"mark\"") >= 5);
  CHECK(count(section(opened.dom, "memory: reserved"), "class=\"mark\"") == 5);
}

TEST_CASE("golden: the page of a campaign draws its seeds, its time, and what its first seed did") {
  const std::string folder = scratch("page-campaign");
  const std::string command =
      "./rehearse campaign --step-time 10 --gpus 64 --mtbf 3h --checkpoint-write 60s "
      "--restart 10min --days 5 --seeds 20 --vary interval";
  const golden::Finished made = run(command + " --report page.html", folder);
  INFO(made.err);
  REQUIRE(made.code == 0);
  CHECK(made.out == run(command, folder).out);
  CHECK(text_of(folder + "/page.html").size() < 1'000'000);
  CHECK(run(command + "=10min,1h --report other.html", folder).code == 64);
  CHECK(!fs::exists(folder + "/other.html"));
  if (!has_browser(folder)) return;
  const Opened opened = open_page(folder, "page.html");
  CHECK(opened.said.empty());
  CHECK(opened.ready_ms >= 0);
  CHECK(count(section(opened.dom, "goodput: how many seeds"), "class=\"mark\"") >= 2);
  CHECK(count(section(opened.dom, "what each seed gave up"), "class=\"mark\"") == 20);
  CHECK(count(section(opened.dom, "seed 1: what it did when"), "class=\"mark\"") >= 20);
  CHECK(count(section(opened.dom, "where the time went"), "class=\"mark\"") == 5);
  CHECK(count(section(opened.dom, "work lost and time down"), "class=\"mark\"") == 2);
  CHECK(count(section(opened.dom, "what an interval gives up"), "class=\"interval\"") == 13);
}

TEST_CASE("golden: text of a hostile folder stays text in the page") {
  const std::string folder = scratch("page-hostile");
  REQUIRE(run("./rehearse sweep grid.textproto -o out -q", folder).code == 0);
  const std::string evil = "</script><script>document.title=`owned`</script><img src=x>";
  std::string lines = text_of(folder + "/out/results.jsonl");
  for (const std::string word : {"llama-2-7b", "abci-a", "golden/"}) {
    for (std::size_t at = 0; (at = lines.find(word, at)) != std::string::npos; at += evil.size())
      lines.replace(at, word.size(), evil);
  }
  golden::write(folder + "/out/results.jsonl", lines);
  REQUIRE(run("mv out '<script>x'", folder).code == 0);
  const golden::Finished made = run("./rehearse report '<script>x' -o page.html -q", folder);
  INFO(made.err);
  REQUIRE(made.code == 0);
  const std::string page = text_of(folder + "/page.html");
  CHECK(page.find(evil) == std::string::npos);
  CHECK(page.find("<title>Sweep: &lt;script&gt;x</title>") != std::string::npos);
  if (!has_browser(folder)) return;
  const Opened opened = open_page(folder, "page.html");
  CHECK(opened.said.empty());
  CHECK(opened.dom.find("<title>owned") == std::string::npos);
  CHECK(opened.dom.find("<img") == std::string::npos);
  CHECK(opened.dom.find("&lt;/script&gt;&lt;script&gt;document.title") != std::string::npos);
}

TEST_CASE("golden: a damaged folder behind a report is refused by line") {
  const std::string folder = scratch("page-damaged");
  CHECK(run("./rehearse report out", folder).code != 0);
  fs::create_directories(folder + "/out");
  const golden::Finished none = run("./rehearse report out", folder);
  CHECK(none.code == 66);
  for (const char* text :
       {"{", "[]", "{\"id\":\"x\"}", "null", "{\"id\":1,\"outcome\":{\"a\":1}}", ""}) {
    golden::write(folder + "/out/results.jsonl", std::string(text) + "\n");
    const golden::Finished bad = run("./rehearse report out", folder);
    INFO(text << "\n" << bad.err);
    CHECK(bad.code == 65);
    CHECK(bad.err.find("out/results.jsonl:1: error:") != std::string::npos);
  }
  CHECK_FALSE(fs::exists(folder + "/report.html"));
}
