#include "sim/input/tables/runs_csv.h"

#include <catch2/catch.hpp>

#include "sim/input/text/csv_rows.h"
#include "support.h"

using sim::input::load_runs;
using support::contains;
using support::problems;

namespace {

std::string broken(const std::string& text) {
  support::Scratch scratch;
  return problems(load_runs(scratch.write("runs.csv", text)));
}

}  // namespace

TEST_CASE("input: every table of measured runs loads without a broken row") {
  struct Case {
    const char* name;
    std::size_t rows;
  };
  for (const Case& one :
       {Case{"paper_grid", 159}, Case{"paper_points", 292}, Case{"training_runs", 826},
        Case{"vtrain_runs", 967}, Case{"megatron_ci_large", 56}, Case{"memory", 218}}) {
    const auto table =
        load_runs(support::in_repository(std::string("calibration/measured/") + one.name + ".csv"));
    CAPTURE(one.name, problems(table));
    REQUIRE(table);
    CHECK(table->rows.size() == one.rows);
    CHECK(table->unknown_columns.empty());
    for (const auto& row : table->rows) {
      CAPTURE(row.line);
      CHECK(row.problems.empty());
    }
  }
}

TEST_CASE("input: columns of runs also have the names of a plan's fields") {
  support::Scratch scratch;
  const auto table = load_runs(scratch.write("runs.csv",
                                             "row_id,gpu,gpus,tp,pp,micro_batch,global_batch,"
                                             "sequence\na,H100,64,4,2,1,512,8192\n"));
  CAPTURE(problems(table));
  REQUIRE(table);
  CHECK(table->unknown_columns.empty());
  CHECK(table->rows[0].number("mbs") == 1);
  CHECK(table->rows[0].number("gbs") == 512);
  CHECK(table->rows[0].number("seq") == 8192);
  CHECK(table->rows[0].number("n_gpus") == 64);
  CHECK(contains(broken("row_id,tp,pp,mbs,micro_batch\n"), "the column 'mbs' is there twice"));
}

TEST_CASE("input: cells keep quotes and commas and line ends") {
  support::Scratch scratch;
  const auto table =
      load_runs(scratch.write("runs.csv",
                              "row_id,gpu,tp,pp,extra,notes\r\n"
                              "a,\"A100, SXM\",2,1,\"{\"\"x\"\": \"\"y\"\"}\",\"two\nlines\"\r\n"
                              "\r\n"
                              "b,H100,,4.0,,"));
  CAPTURE(problems(table));
  REQUIRE(table);
  REQUIRE(table->rows.size() == 2);
  CHECK(table->rows[0].text("gpu") == "A100, SXM");
  CHECK(table->rows[0].text("extra") == "{\"x\": \"y\"}");
  CHECK(table->rows[0].text("notes") == "two\nlines");
  CHECK(table->rows[0].line == 2);
  CHECK(table->rows[1].line == 5);  // after two lines of a cell and a blank one
  CHECK(table->rows[0].number("tp") == 2.0);
  CHECK_FALSE(table->rows[1].number("tp"));
  CHECK(table->rows[1].number("pp") == 4.0);
  CHECK(table->rows[1].text("absent") == "");
}

TEST_CASE("input: a broken row is kept with what is wrong") {
  support::Scratch scratch;
  const auto table = load_runs(scratch.write("runs.csv",
                                             "row_id,gpu,tp,pp,my column\n"
                                             "a,A100,two,1,x\n"
                                             "b,A100,-1,inf,x\n"
                                             "c,A100,1\n"
                                             "a,A100,1,1,x\n"
                                             ",A100,1,1,x\n"
                                             "d,A100,1,1,x\n"));
  REQUIRE(table);
  REQUIRE(table->rows.size() == 6);
  CHECK(table->unknown_columns == std::vector<std::string>{"my column"});
  CHECK(table->rows[0].problems == std::vector<std::string>{"line 2: tp 'two' is not a number"});
  CHECK(table->rows[1].problems == std::vector<std::string>{"line 3: tp '-1' is not zero or more",
                                                            "line 3: pp 'inf' is not a number"});
  CHECK(table->rows[2].problems == std::vector<std::string>{"line 4: 3 cells for 5 columns"});
  CHECK(table->rows[3].problems == std::vector<std::string>{"line 5: row_id 'a' is there twice"});
  CHECK(table->rows[4].problems == std::vector<std::string>{"line 6: the row has no row_id"});
  CHECK(table->rows[5].problems.empty());
}

TEST_CASE("input: tables that are not of the schema are refused") {
  CHECK(contains(broken(""), "the table is empty"));
  CHECK(contains(broken("row_id,gpu,tp\n"), "runs.csv:1: the column 'pp' is missing"));
  CHECK(
      contains(broken("row_id,gpu,tp,pp,heds\n"), "unknown column 'heds'; did you mean 'heads'?"));
  // An unknown column of four letters gets a suggestion; a shorter one is near to too many names. A
  // column that is already there is not suggested, nor is a name three letters off.
  CHECK(contains(broken("row_id,gpu,tp,pp,tpk\n"), "unknown column 'tpk'; did you mean 'topk'?"));
  CHECK_FALSE(contains(broken("row_id,gpu,tp,pp,gb\n"), "'gb'"));
  CHECK_FALSE(contains(broken("row_id,gpu,tp,pp,heads,heds\n"), "'heds'"));
  CHECK(contains(broken("row_id,gpu,tp,pp,experxx\n"), "did you mean 'experts'?"));
  CHECK_FALSE(contains(broken("row_id,gpu,tp,pp,expexxx\n"), "did you mean"));
  CHECK(contains(broken("row_id,gpu,tp,pp,tp\n"), "the column 'tp' is there twice"));
  CHECK(
      contains(broken("row_id,gpu,tp,pp\na,b\"c,1,1\n"), "runs.csv:2: not CSV: a quotation mark"));
  CHECK(contains(broken("row_id,gpu,tp,pp\na,\"b,1,1\n"), "is not closed"));
  CHECK(contains(broken("row_id,gpu,tp,pp\n\xff\n"), "not UTF-8"));
  CHECK(contains(problems(load_runs("/nowhere/runs.csv")), "No such file"));
  CHECK(contains(broken(std::string(100'000, ',')), "more than 512 cells"));
  CHECK(contains(broken(std::string(1000, '\0')), "the column 'tp' is missing"));
}

TEST_CASE("input: a row behind a lone carriage return has the line that it stands in") {
  const auto rows = sim::input::csv_rows("a,b\n1,2\r3,4\r\n5,6\n", "cells.csv");
  REQUIRE(rows);
  REQUIRE(rows->size() == 4);
  const int lines[] = {1, 2, 2, 3};
  for (std::size_t i = 0; i < 4; ++i) CHECK((*rows)[i].line == lines[i]);
}
