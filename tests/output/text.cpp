#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/output/csv.h"
#include "sim/output/document.h"
#include "sim/output/documents/run_text.h"
#include "sim/output/json.h"
#include "sim/output/output.h"
#include "sim/output/record.h"
#include "sim/output/table.h"
#include "tests/output/sample.h"
#include "tests/picture.h"

using namespace sim;

TEST_CASE("output: a table aligns its columns and ends its lines without blanks") {
  output::Table table({"<name", "GiB", "<note"});
  table.row({"weights", "8.00", ""});
  table.row({"grün", "12.50", "umlaut is one column"});
  CHECK(table.text("") ==
        "name       GiB  note\n"
        "weights   8.00\n"
        "grün     12.50  umlaut is one column\n");
}

TEST_CASE("output: a table that is too wide folds headings and words, then comes in parts") {
  const std::size_t before = output::line_width();
  output::set_line_width(30);
  output::Table folds({"<name", "tokens a second", "<note"});
  folds.row({"a", "8", "one two three"});
  CHECK(folds.text("") ==
        "name   tokens a  note\n"
        "         second\n"
        "a             8  one two three\n");
  output::set_line_width(24);
  output::Table parts({"<plan", "GiB", "steps", "percent"});
  parts.row({"tp=8 pp=4", "11.25", "1000", "99.5 %"});
  CHECK(parts.text("") ==
        "plan         GiB  steps\n"
        "tp=8 pp=4  11.25   1000\n"
        "\n"
        "plan       percent\n"
        "tp=8 pp=4   99.5 %\n");
  output::set_line_width(before);
}

TEST_CASE("output: words are folded at the last blank that leaves a line within its columns") {
  using Lines = std::vector<std::string>;
  CHECK(output::folded("one two three", 13) == Lines{"one two three"});
  CHECK(output::folded("one two three", 12) == Lines{"one two", "three"});
  CHECK(output::folded("one two three", 7) == Lines{"one two", "three"});
  CHECK(output::folded("one two three", 6) == Lines{"one", "two", "three"});
  CHECK(output::folded("one two three", 0) == Lines{"one two three"});
  CHECK(output::folded("", 4) == Lines{""});
  // A word longer than the line stands alone. Blanks at the end of a line are dropped.
  CHECK(output::folded("a incomprehensible b", 4) == Lines{"a", "incomprehensible", "b"});
  CHECK(output::folded("incomprehensible", 4) == Lines{"incomprehensible"});
  CHECK(output::folded("one   two", 5) == Lines{"one", "two"});
  CHECK(output::folded("one     ", 5) == Lines{"one"});
  CHECK(output::folded("incomprehensible   ", 4) == Lines{"incomprehensible"});
  CHECK(output::folded(" one", 3) == Lines{" one"});
  // An umlaut takes two bytes and one column.
  CHECK(output::folded("grün grün grün", 9) == Lines{"grün grün", "grün"});
  CHECK(output::folded("grün grün grün", 8) == Lines{"grün", "grün", "grün"});
}

TEST_CASE("output: a long line goes on four columns further in, where there is room for it") {
  const std::string words = "one two three four five six seven eight nine ten";  // 48 columns
  CHECK(output::fold_lines(words, 48) == words + "\n");
  CHECK(output::fold_lines(words, 0) == words + "\n");
  CHECK(output::fold_lines("a\n\n" + words + "\nb", 30) ==
        "a\n\n"
        "one two three four five six\n"
        "    seven eight nine ten\n"
        "b\n");
  // Continuation lines are indented and have four columns less: 26 of 30.
  CHECK(output::fold_lines("  " + words + " " + words, 30) ==
        "  one two three four five six\n"
        "      seven eight nine ten one\n"
        "      two three four five six\n"
        "      seven eight nine ten\n");
  // Continuation lines need at least 20 columns behind their indent of four: 24 in all, plus the
  // indent of the line.
  CHECK(output::fold_lines(words, 23) == words + "\n");
  CHECK(output::fold_lines(words, 24) ==
        "one two three four five\n"
        "    six seven eight nine\n"
        "    ten\n");
  CHECK(output::fold_lines("  " + words, 25) == "  " + words + "\n");
  CHECK(output::fold_lines("  " + words, 26) ==
        "  one two three four five\n"
        "      six seven eight nine\n"
        "      ten\n");
  CHECK(output::fold_lines("incomprehensibilities-of-one-word", 30) ==
        "incomprehensibilities-of-one-word\n");
  CHECK(output::fold_lines("", 30).empty());
}

TEST_CASE(
    "output: columns give way to a line's width, the widest first, as far as they can be read") {
  const std::size_t before = output::line_width();
  const auto text = [](std::size_t columns, const output::Table& table, const char* indent = "") {
    output::set_line_width(columns);
    return table.text(indent);
  };
  output::Table words({"<plan", "<what is said of it", "GiB"});
  words.row({"a plan of many words", "it does not fit into memory", "8.00"});
  // 20 + 2 + 27 + 2 + 4 = 55 columns.
  const std::string whole =
      "plan                  what is said of it            GiB\n"
      "a plan of many words  it does not fit into memory  8.00\n";
  CHECK(text(55, words) == whole);
  CHECK(text(0, words) == whole);
  CHECK(text(54, words) ==
        "plan                  what is said of it           GiB\n"
        "a plan of many words  it does not fit into        8.00\n"
        "                      memory\n");
  CHECK(text(56, words, "  ") ==
        "  plan                  what is said of it           GiB\n"
        "  a plan of many words  it does not fit into        8.00\n"
        "                        memory\n");
  // Two columns of words share 36 columns: 14 + 2 + 14 + 2 + 4 = 36. In less width the table is
  // split: of 20 and 27 columns, 16 and 17 remain.
  CHECK(text(36, words) ==
        "plan            what is said     GiB\n"
        "                of it\n"
        "a plan of many  it does not     8.00\n"
        "words           fit into\n"
        "                memory\n");
  CHECK(text(35, words) ==
        "plan              what is said of\n"
        "                  it\n"
        "a plan of many    it does not fit\n"
        "words             into memory\n"
        "\n"
        "plan                   GiB\n"
        "a plan of many words  8.00\n");
  output::set_line_width(before);
}

TEST_CASE("output: a CSV field is quoted only where it must be") {
  CHECK(output::csv_line({"a", "1.5", ""}) == "a,1.5,\n");
  // A spreadsheet must not run a cell; numbers stay numbers.
  CHECK(output::csv_line({"=1+1", "-1.5", "+2e3", "-x", "@a"}) == "'=1+1,-1.5,+2e3,'-x,'@a\n");
  CHECK(output::csv_line({"=A1,B1"}) == "\"'=A1,B1\"\n");
  CHECK(output::csv_line({"a,b", "say \"no\"", "two\nlines"}) ==
        "\"a,b\",\"say \"\"no\"\"\",\"two\nlines\"\n");
}

TEST_CASE("output: the textbook bubble is (p-1)/(mv+p-1)") {
  program::Plan plan = sample::fits().plan;  // p 2, m 16/(2 x 1) = 8
  CHECK(answer::textbook_bubble(plan) == Approx(1.0 / 9.0));
  plan.pipeline.virtual_stages = 4;
  CHECK(answer::textbook_bubble(plan) == Approx(1.0 / 33.0));
  plan.mesh.pp = 1;
  CHECK(answer::textbook_bubble(plan) == 0);
}

TEST_CASE("output: the first line is the answer and the second what limits it") {
  const answer::Answer answer = sample::fits();
  // Tokens: 16 sequences x 4096 / 10 s / 8 GPUs = 819.2.
  CHECK(output::headline(answer) ==
        "fits: 140.0 TFLOP/s/GPU (Megatron-LM), 819 tokens/s/GPU, step 10.000 s, 22.0 "
        "of 38.0 GiB (57.9 %)");
  // Mean compute (8 + 10) / 2 = 9 of 10 s.
  CHECK(answer::limit(answer) ==
        "limited by compute 90.0 % of the step; then pipeline: fill and drain 10.0 %");
}

TEST_CASE("output: running out of memory is told by place and amounts") {
  const answer::Answer answer = sample::out_of_memory();
  CHECK(output::headline(answer) ==
        "out of memory: stage 1 at step 1, microbatch 0, forward of layer 3 (layer forward): asked "
        "for 2.00 GiB, 1.00 GiB of 38.00 GiB free");
  CHECK(answer::limit(answer) == "limited by memory: activations hold 30.00 of 38.00 GiB");
}

TEST_CASE("output: an out-of-memory event prints in the words of PyTorch") {
  const answer::Answer answer = sample::out_of_memory();
  // Stage 1 begins at rank 1 x tp x cp x dp = 4, which is GPU 4 of its node of 8.
  CHECK(answer::pytorch_message(answer, answer.run.classes[1]) ==
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 4 has a total capacity of 40.00 GiB "
        "of which 1024.00 MiB is free. Including non-PyTorch memory, this process has 39.00 GiB "
        "memory in use. Of the allocated memory 36.00 GiB is allocated by PyTorch, and 1024.00 MiB "
        "is reserved by PyTorch but unallocated.");
}

TEST_CASE("output: the text of a run names every part that it should") {
  const std::string text = output::text(output::answer_document(sample::fits()));
  for (const char* part :
       {"where the step goes", "time by stage", "memory by stage", "CUDA context 1.00 GiB",
        "throughput by convention", "textbook (1F1B) (p-1)/(mv+p-1) 11.1 % with p 2, m 8, v 1",
        "closed-form estimate (arXiv 2411.06465, first stage): 18.50 GiB", "replay: fits"}) {
    INFO(part);
    CHECK(text.find(part) != std::string::npos);
  }
  const std::string oom = output::text(output::answer_document(sample::out_of_memory()));
  for (const char* part : {"out of memory on stage 1, 1.500 s after the start",
                           "one retry (cached blocks were given back)", "PyTorch would say",
                           "replay: runs out of memory"}) {
    INFO(part);
    CHECK(oom.find(part) != std::string::npos);
  }
  CHECK(oom.find("throughput") == std::string::npos);  // there is none
}

TEST_CASE("output: accounts of every class in JSON sum to the step time") {
  const output::Json json = output::to_json(sample::fits());
  for (const auto& who : json["rank_classes"]) {
    std::int64_t sum = 0;
    for (const auto& [name, value] : who["accounts"].items()) sum += value.get<std::int64_t>();
    CHECK(who["accounts"].contains("pipeline_fill_drain_ps"));
    CHECK(who["peak_held_bytes"].contains("master_weights"));
    CHECK(sum == json["step_time_ps"].get<std::int64_t>());
  }
  const output::Json whole = output::document("run", json);
  CHECK(whole["schema"] == "rehearse/run/2");
  CHECK(whole["result"]["throughput"][0]["convention"] == "paper");
}

TEST_CASE("output: of a replay without tensors JSON knows the time of classes, not their memory") {
  answer::Answer answer = sample::fits();
  const output::Json placed = output::to_json(answer)["rank_classes"];
  answer.run.memory = engine::MemoryDetail::none;
  const output::Json timed = output::to_json(answer)["rank_classes"];
  REQUIRE(timed.size() == placed.size());
  for (std::size_t i = 0; i < timed.size(); ++i) {
    REQUIRE(timed[i].size() == placed[i].size());
    for (const char* key : {"stage", "cp_rank", "ranks", "layers", "parameters", "accounts",
                            "busy_ps", "bubble", "capacity_bytes", "outside_allocator"}) {
      INFO(key);
      CHECK_FALSE(placed[i].at(key).is_null());
      CHECK(timed[i].at(key) == placed[i].at(key));
    }
    for (const char* key :
         {"static_bytes", "peak_allocated_bytes", "peak_reserved_bytes", "peak_active_bytes",
          "needed_bytes", "peak_place", "peak_held_bytes", "reserved_at_peak_bytes",
          "largest_free_block_at_peak_bytes", "allocation_retries"}) {
      INFO(key);
      CHECK_FALSE(placed[i].at(key).is_null());
      CHECK(timed[i].at(key).is_null());
    }
  }
}

TEST_CASE("output: a record has the same values in JSON and in CSV") {
  const output::Json json = output::record({"0123456789abcdef", "toy/tp2", "toy"}, sample::fits());
  CHECK(output::line(json).rfind("{\"id\":\"0123456789abcdef\",\"point\":\"toy/tp2\"", 0) == 0);
  CHECK(output::csv_header().rfind(
            "point,outcome,reason,step_time_s,tflops_gpu_paper,tokens_s_gpu,bubble_pct,"
            "peak_allocated_gib,peak_reserved_gib,estimate_gib,estimate_says_fits,",
            0) == 0);
  CHECK(output::csv_row(json).rfind("toy/tp2,fits,,10.0,150.0,819.2,10.0,20.0,22.0,18.5,1,", 0) ==
        0);
}

TEST_CASE("output: the columns of a record are words, counts and numbers with a point") {
  const output::Json json = output::record({"0123456789abcdef", "toy/tp2", "toy"}, sample::fits());
  for (const output::Column& column : output::record_columns()) {
    INFO(column.key);
    REQUIRE(json.contains(column.key));
    const output::Json& value = json[column.key];
    if (value.is_null()) continue;
    CHECK(column.left == value.is_string());
    // A count has no decimals. A quantity with a unit has some.
    if (value.is_number_integer()) CHECK(column.digits == 0);
    if (!column.unit.empty()) CHECK(column.digits > 0);
    CHECK_FALSE(column.heading.empty());
  }
}

TEST_CASE("output: a record of a run that does not fit has no step time") {
  const output::Json json =
      output::record({"0123456789abcdef", "toy/tp2", "toy"}, sample::out_of_memory());
  CHECK(output::csv_row(json).rfind(
            "toy/tp2,oom,\"stage 1 at step 1, microbatch 0, forward of layer 3 (layer forward): "
            "asked for 2.00 GiB, 1.00 GiB of 38.00 GiB free\",,,,,20.0,22.0,18.5,1,",
            0) == 0);
  const output::Json impossible =
      output::record({"0123456789abcdef", "toy/tp3", "toy"}, "impossible",
                     "tp 3 does not divide 16 heads", sample::fits().plan, "toy-cluster");
  CHECK(output::csv_row(impossible)
            .rfind("toy/tp3,impossible,tp 3 does not divide 16 heads,,,,,,,,,toy,toy,toy-cluster,",
                   0) == 0);
}

TEST_CASE("output: a file is replaced at once or not at all") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(REHEARSE_BINARY_DIR) / "report_output";
  fs::create_directories(folder);
  const std::string path = (folder / "file").string();
  REQUIRE(output::write_file(path, "one").empty());
  REQUIRE(output::write_file(path, "two").empty());
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  CHECK(text.str() == "two");
  CHECK_FALSE(fs::exists(path + ".new"));
  CHECK(output::write_file((folder / "no" / "such").string(), "x").find("No such file") !=
        std::string::npos);
  CHECK(output::write_file("/dev/full", "x") == "/dev/full: No space left on device");
}

TEST_CASE("output: everybody may read what is written, and its owner may change it") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(REHEARSE_BINARY_DIR) / "report_output";
  fs::create_directories(folder);
  const std::string whole = (folder / "whole").string(), grown = (folder / "grown").string();
  fs::remove(whole);
  fs::remove(grown);
  const mode_t before = ::umask(0);
  REQUIRE(output::write_file(whole, "x").empty());
  output::Stream stream;
  REQUIRE(stream.open(grown).empty());
  REQUIRE(stream.close().empty());
  ::umask(before);
  CHECK(fs::status(whole).permissions() == fs::perms{0644});
  CHECK(fs::status(grown).permissions() == fs::perms{0644});
}

TEST_CASE("output: a stream keeps its first failure until it is closed") {
  output::Stream stream;
  REQUIRE(stream.open("/dev/full").empty());
  stream.write("x");
  CHECK(stream.close() == "/dev/full: No space left on device");
}

TEST_CASE("output: the text of a run is as it was") {
  picture::same("output/pictures/run.txt", output::text(output::answer_document(sample::fits())));
  picture::same("output/pictures/run-oom.txt",
                output::text(output::answer_document(sample::out_of_memory())));
}
