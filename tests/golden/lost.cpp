// lost.cpp — no file is overwritten: inputs, finished sweeps, records of other grids. Signals and
// errors are reported in the requested format.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/golden/program.h"

using golden::grid;
using golden::grid_scratch;
using golden::run;
using golden::text_of;
namespace fs = std::filesystem;

namespace {
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
}  // namespace

TEST_CASE("golden: no output is one of the command's inputs") {
  const std::string folder = golden::scratch("inputs");
  const std::string plan = text_of(folder + "/workloads/llama-2-7b-64.textproto");
  golden::write(folder + "/plan.textproto", plan);
  fs::create_hard_link(folder + "/plan.textproto", folder + "/other-name");
  for (const char* option : {"--trace plan.textproto", "--memory-plot ./plan.textproto",
                             "--memory-snapshot other-name", "--report plan.textproto"}) {
    const golden::Finished finished =
        run(std::string("./rehearse run plan.textproto ") + option, folder);
    INFO(option << "\n" << finished.err);
    CHECK(finished.code == 65);
    CHECK(has(finished.err, "is an input, and --"));
    CHECK(text_of(folder + "/plan.textproto") == plan);
  }
  const std::string rows = text_of(folder + "/calibration/measured/gemm.csv");
  golden::write(folder + "/gemm.csv", rows);
  for (const char* command :
       {"validate gemm.csv --csv gemm.csv", "calibrate gemm.csv -o gemm.csv"}) {
    CHECK(run(std::string("./rehearse ") + command, folder).code == 65);
    CHECK(text_of(folder + "/gemm.csv") == rows);
  }
  const golden::Finished both =
      run("./rehearse run plan.textproto --trace out --memory-plot ./out", folder);
  CHECK(both.code == 64);
  CHECK(has(both.err, "--trace and --memory-plot would write the same file"));
  const golden::Finished nowhere = run("./rehearse run plan.textproto --trace no/such", folder);
  CHECK(nowhere.code == 74);
}

TEST_CASE("golden: residuals take the place of those that were read, and of nothing else") {
  const std::string folder = golden::scratch("residuals");
  fs::remove(folder + "/calibration");  // a link to the repository's
  fs::create_directory(folder + "/calibration");
  for (const fs::directory_entry& entry :
       fs::directory_iterator(std::string(REHEARSE_SOURCE_DIR) + "/calibration"))
    fs::create_symlink(entry.path(), fs::path(folder) / "calibration" / entry.path().filename());
  fs::remove(folder + "/calibration/residuals");
  const std::string name = "calibration/residuals/runs.textproto", runs = folder + "/" + name;
  fs::create_directory(folder + "/calibration/residuals");
  golden::write(runs, text_of(std::string(REHEARSE_SOURCE_DIR) + "/" + name));
  const std::string where = "--where row_id=T01358";
  const std::string command =
      "REHEARSE_ROOT=. ./rehearse validate calibration/measured/paper_grid.csv -q " + where +
      " --residuals ";
  const golden::Finished renewed = run(command + name, folder);
  INFO(renewed.err);
  CHECK(renewed.code == 0);
  CHECK(has(text_of(runs), where + " --residuals " + name));
  CHECK(run("./rehearse check " + name, folder).code == 0);
  const std::string plan = text_of(folder + "/workloads/llama-2-7b-64.textproto");
  golden::write(folder + "/plan.textproto", plan);
  const golden::Finished over = run(command + "plan.textproto", folder);
  CHECK(over.code == 65);
  CHECK(has(over.err, "holds no residuals, and --residuals would write over it"));
  CHECK(text_of(folder + "/plan.textproto") == plan);
}

TEST_CASE("golden: a page is none of the files of its sweep") {
  const std::string folder = grid_scratch("page-over");
  const std::string sweep = "./rehearse sweep " + grid + " -q -o out ";
  fs::create_directory(folder + "/out");
  for (const char* page : {"out/results.jsonl", "./out/../out/results.csv"}) {
    const golden::Finished finished = run(sweep + "--report " + page, folder);
    INFO(finished.err);
    CHECK(finished.code == 65);
    CHECK(has(finished.err, "holds what the sweep found, and --report would write over it"));
  }
  fs::remove(folder + "/out");
  const golden::Finished fresh = run(sweep + "--report out/page.html", folder);
  INFO(fresh.err);
  REQUIRE(fresh.code == 0);
  CHECK(has(text_of(folder + "/out/page.html"), "<main id=\"blocks\">"));
  CHECK(run(sweep + "--overwrite --report out2/page.html", folder).code == 74);
  const std::string lines = text_of(folder + "/out/results.jsonl");
  const std::string csv = text_of(folder + "/out/results.csv");
  fs::create_hard_link(folder + "/out/results.jsonl", folder + "/other-name");
  for (const char* page : {"out/results.jsonl", "other-name", "out/results.csv"})
    CHECK(run(std::string("./rehearse report out -o ") + page, folder).code == 65);
  CHECK(text_of(folder + "/out/results.jsonl") == lines);
  CHECK(text_of(folder + "/out/results.csv") == csv);
  CHECK(run("./rehearse report out -o out/page.html", folder).code == 0);
}

TEST_CASE("golden: a finished sweep and the records of another grid are not written over") {
  const std::string folder = grid_scratch("folders");
  const std::string sweep = "./rehearse sweep " + grid + " -q -o out ";
  REQUIRE(run(sweep, folder).code == 0);
  const std::string lines = text_of(folder + "/out/results.jsonl");
  const std::string csv = text_of(folder + "/out/results.csv");
  const golden::Finished again = run(sweep, folder);
  CHECK(again.code == 65);
  CHECK(has(again.err, "records of a sweep that is done"));
  const golden::Finished other = run(sweep + "sequence=1024 --resume", folder);
  CHECK(other.code == 65);
  CHECK(has(other.err, "of other points, machines or versions, which would be lost"));
  // The same points with less detail about memory have other records.
  for (const char* detail : {"none", "bounded", "estimate"}) {
    INFO(detail);
    const golden::Finished less = run(sweep + "--resume --memory " + detail, folder);
    CHECK(less.code == 65);
    CHECK(has(less.err, "of other points, machines or versions, which would be lost"));
  }
  CHECK(text_of(folder + "/out/results.jsonl") == lines);
  CHECK(text_of(folder + "/out/results.csv") == csv);
  CHECK(run(sweep + "--resume", folder).code == 0);
  CHECK(run(sweep + "sequence=1024 --resume --overwrite", folder).code == 0);
  CHECK(text_of(folder + "/out/results.jsonl") != lines);
  CHECK(run(sweep + "--overwrite", folder).code == 0);
  CHECK(text_of(folder + "/out/results.jsonl") == lines);
}

TEST_CASE("golden: merge and plan write over nothing that they did not find") {
  const std::string folder = grid_scratch("merge-over");
  for (const char* shard : {"1/2", "2/2"})
    REQUIRE(run("./rehearse sweep " + grid + " -q -o shards --shard " + shard, folder).code == 0);
  REQUIRE(run("./rehearse sweep " + grid + " -q -o other sequence=1024", folder).code == 0);
  const std::string lines = text_of(folder + "/other/results.jsonl");
  for (const char* into : {"other", "shards/shard-0001-of-0002"}) {
    const golden::Finished over = run(std::string("./rehearse merge shards -q -o ") + into, folder);
    INFO(over.err);
    CHECK(over.code == 65);
    CHECK(has(over.err, "holds other records, which would be lost"));
  }
  CHECK(text_of(folder + "/other/results.jsonl") == lines);
  for (int again = 0; again < 2; ++again)
    CHECK(run("./rehearse merge shards -q", folder).code == 0);
  CHECK(run("./rehearse merge shards -q -o other --overwrite", folder).code == 0);
  CHECK(text_of(folder + "/other/results.jsonl") == text_of(folder + "/shards/results.jsonl"));

  const std::string csv = text_of(folder + "/other/results.csv");
  const golden::Finished plan = run(
      "./rehearse plan llama-2-7b dgx-h100 --gpus 8 --batch 8 --sequence 2048 -q -o other", folder);
  CHECK(plan.code == 65);
  CHECK(has(plan.err, "holds what a sweep found"));
  CHECK(text_of(folder + "/other/results.csv") == csv);
}

TEST_CASE("golden: a results.csv without records is of other work, and manual pages stay") {
  const std::string folder = grid_scratch("lone");
  for (const char* shard : {"1/2", "2/2"})
    REQUIRE(run("./rehearse sweep " + grid + " -q -o shards --shard " + shard, folder).code == 0);
  fs::create_directory(folder + "/out");
  golden::write(folder + "/out/results.csv", "mine\n");
  const auto kept = [&](const std::string& command, int code, const std::string& said) {
    const golden::Finished finished = run("./rehearse " + command, folder);
    INFO(command << "\n" << finished.err);
    CHECK(finished.code == code);
    CHECK(has(finished.err, said));
    CHECK(text_of(folder + "/out/results.csv") == "mine\n");
    CHECK_FALSE(fs::exists(folder + "/out/results.jsonl"));
  };
  const std::string sweep = "sweep " + grid + " -q -o out ";
  for (int again = 0; again < 2; ++again) kept(sweep, 65, "of other work, which would be lost");
  kept(sweep + "--resume", 65, "of other work, which would be lost");
  kept("merge shards -q -o out", 65, "out/results.csv holds other records, which would be lost");

  fs::create_directory(folder + "/pages");
  golden::write(folder + "/pages/rehearse-run.1", "mine\n");
  kept("man -o pages", 64, "pages/rehearse-run.1 is there already");
  CHECK_FALSE(fs::exists(folder + "/pages/rehearse.1"));
  CHECK(run("./rehearse man -o pages --overwrite", folder).code == 0);
  CHECK(fs::file_size(folder + "/pages/rehearse-run.1") > 100);
  CHECK(run("./rehearse " + sweep + "--overwrite", folder).code == 0);
  CHECK(text_of(folder + "/out/results.csv") != "mine\n");
}

TEST_CASE("golden: an output's name that looks like an option or a forgotten one is refused") {
  const std::string folder = golden::scratch("odd-names");
  for (const char* words : {"--json", "-x", "-", "=out"}) {
    const golden::Finished finished =
        run(std::string("./rehearse topo export dgx-h100 -o ") + words, folder);
    INFO(finished.err);
    CHECK(finished.code == 64);
    CHECK(has(finished.err, std::string("'./") + words + "'"));
  }
  CHECK(run("./rehearse topo export dgx-h100 -q -o ./-x && ls ./-x", folder).code == 0);
}

TEST_CASE("golden: a file that cannot be written is refused with what the system says") {
  const std::string folder = golden::scratch("closed");
  fs::create_symlink("loop", folder + "/loop");
  const std::string name(300, 'a');
  for (const auto& [where, why] : {std::pair{std::string("loop"), "Too many levels of symbolic"},
                                   std::pair{name, "File name too long"},
                                   std::pair{std::string("no"), "No such file or directory"}}) {
    const golden::Finished finished =
        run("./rehearse run llama-2-7b-64 --trace " + where + "/x", folder);
    INFO(finished.err);
    CHECK(finished.code == 74);
    CHECK(has(finished.err, "--trace: "));
    CHECK(has(finished.err, where + ": " + why));
  }
}

TEST_CASE("golden: a grid is none of the files of its own sweep") {
  const std::string folder = grid_scratch("grid-over");
  fs::create_directory(folder + "/out");
  const std::string text = text_of(folder + "/" + grid);
  golden::write(folder + "/out/results.csv", text);
  fs::create_hard_link(folder + "/out/results.csv", folder + "/linked.textproto");
  const golden::Finished over =
      run("./rehearse sweep ./linked.textproto -q -o out --overwrite", folder);
  INFO(over.err);
  CHECK(over.code == 65);
  CHECK(has(over.err, "is an input, and --output would write over it"));
  CHECK(text_of(folder + "/out/results.csv") == text);
}

TEST_CASE("golden: a changed record of a sweep is made anew by --resume") {
  const std::string folder = grid_scratch("changed");
  const std::string sweep = "./rehearse sweep " + grid + " -q -o out ";
  REQUIRE(run(sweep, folder).code == 0);
  const std::string whole = text_of(folder + "/out/results.jsonl");
  const std::string csv = text_of(folder + "/out/results.csv");
  std::uint32_t state = 7;
  const auto draw = [&state](std::size_t below) {
    state = state * 1664525U + 1013904223U;
    return static_cast<std::size_t>(state >> 8) % below;
  };
  for (int trial = 0; trial < 12; ++trial) {
    std::string damaged = whole;
    const std::size_t at = draw(damaged.size());
    if (trial % 3 == 0) damaged[at] = static_cast<char>(damaged[at] ^ (1 << draw(7)));
    if (trial % 3 == 1) damaged.erase(at, 1 + draw(40));
    if (trial % 3 == 2) damaged.insert(at, damaged.substr(draw(damaged.size()), draw(40)));
    golden::write(folder + "/out/results.jsonl", damaged);
    const golden::Finished finished = run(sweep + "--resume", folder);
    INFO(trial << " at " << at << "\n" << finished.err);
    CHECK(finished.code == 0);
    CHECK(text_of(folder + "/out/results.jsonl") == whole);
    CHECK(text_of(folder + "/out/results.csv") == csv);
  }
}

TEST_CASE("golden: signals end commands that have nothing to save with 75") {
  const std::string folder = golden::scratch("signals");
  for (const char* signal : {"INT", "HUP", "TERM"}) {
    // The reader starts when the pipe can be written to.
    const golden::Finished finished =
        run(std::string("bash -c 'set -m; mkfifo pipe; ./rehearse calibrate pipe & pid=$!; "
                        "exec 3>pipe; kill -") +
                signal + " $pid; wait $pid; code=$?; rm pipe; exit $code'",
            folder);
    INFO(signal << "\n" << finished.err);
    CHECK(finished.code == 75);
    CHECK(has(finished.err, "rehearse: interrupted"));
  }
}

TEST_CASE("golden: a signal ends a long command well, and ignored ones end nothing") {
  const std::string folder = golden::scratch("signals-long");
  // Signals are sent once the process catches SIGTERM: bit 14 of SigCgt in /proc.
  const auto ended = [&](const std::string& before, const char* seeds, const std::string& signals) {
    return run("bash -c 'set -m; " + before +
                   " ./rehearse campaign --step-time 10 --gpus 64 --mtbf 3h -j 1 --seeds " + seeds +
                   " & pid=$!; for i in {1..2000}; do grep -q rehearse /proc/$pid/comm &&"
                   " grep -Eq \"^SigCgt:.*[4567cdef].{3}$\" /proc/$pid/status && break;"
                   " sleep 0.01; done; " +
                   signals + " wait -f $pid; exit $?'",
               folder);
  };
  const golden::Finished once = ended("", "1000000", "kill -INT $pid;");
  INFO(once.err);
  CHECK(once.code == 75);
  CHECK(has(once.err, "interrupted"));
  const golden::Finished ignored =
      ended("trap \"\" HUP INT;", "1000", "kill -HUP $pid; kill -INT $pid;");
  INFO(ignored.err);
  CHECK(ignored.code == 0);
}

TEST_CASE("golden: problems under --json are a document") {
  const std::string folder = golden::scratch("json-errors");
  const auto check = [&](const std::string& command, int code, const std::string& said) {
    const golden::Finished finished = run("./rehearse " + command + " --json", folder);
    INFO(command << "\n" << finished.out << finished.err);
    CHECK(finished.code == code);
    const auto document = nlohmann::json::parse(finished.out, nullptr, false);
    REQUIRE_FALSE(document.is_discarded());
    CHECK(document["schema"] == "rehearse/error/1");
    CHECK(document["result"]["exit_code"] == code);
    CHECK(has(document["result"]["problems"].dump(), said));
    CHECK(has(finished.err, said));
  };
  check("run llama-2-7b-64 tp=3", 65, "attention heads");
  check("run nowhere", 66, "there is no plan or grid");
  check("run llama-2-7b-64 --no-such-option", 64, "no-such-option");
  check("lits", 64, "did you mean 'list'?");
  // Every error gives one JSON document, wherever --json stands.
  check("topo export dgx-h100 -o /dev/full", 74, "No space left on device");
  check("list --json=1", 64, "does not take any arguments");
  check("man run", 64, "a manual page is no document");
  check("completion bash", 64, "a completion is no document");
  CHECK(has(run("./rehearse list --json=1", folder).out, "rehearse/error/1"));
}

TEST_CASE("golden: calibrate writes no profile from nothing") {
  const std::string folder = golden::scratch("nothing");
  golden::write(folder + "/run.log",
                " iteration        2/      10 | consumed samples:           32 | elapsed time per "
                "iteration (ms): 1000.0 | global batch size:    16 |\n");
  const golden::Finished finished =
      run("./rehearse calibrate run.log --cluster dgx-h100 -o new.textproto", folder);
  INFO(finished.err);
  CHECK(finished.code == 65);
  CHECK_FALSE(fs::exists(folder + "/new.textproto"));
  const golden::Finished asked =
      run("./rehearse calibrate run.log --cluster dgx-h100 -o new.textproto --json", folder);
  CHECK(asked.code == 65);
  const auto document = nlohmann::json::parse(asked.out, nullptr, false);
  REQUIRE(document.is_object());
  CHECK(document["schema"] == "rehearse/error/1");
}

TEST_CASE("golden: a GPU that borrows a profile does not borrow its intervals") {
  const std::string folder = golden::scratch("borrowed");
  std::string cluster = text_of(folder + "/topologies/dgx-h100.textproto");
  const std::string name = "H100-SXM5-80GB";
  cluster.replace(cluster.find("\"" + name + "\""), name.size() + 2, "\"Other-80GB\"");
  golden::write(folder + "/other.textproto", cluster);
  const std::string command = "./rehearse run llama-2-7b-64 -q cluster=";
  const golden::Finished own = run(command + "dgx-h100", folder);
  const golden::Finished other = run(command + "./other.textproto", folder);
  CHECK(has(own.out, "sources on this GPU"));
  INFO(other.out);
  CHECK(other.code == 0);
  CHECK_FALSE(has(other.out, "sources on this GPU"));
  CHECK(has(other.out, "90 % interval"));
}

TEST_CASE("golden: a model that cannot be read is in the list, with the reason") {
  const std::string folder = golden::scratch("unreadable-model");
  fs::remove(folder + "/models");  // a link to the repository's
  fs::create_directory(folder + "/models");
  fs::create_symlink(std::string(REHEARSE_SOURCE_DIR) + "/models/families",
                     folder + "/models/families");
  golden::write(folder + "/models/broken.json", "{\"hidden_size\": ");
  const golden::Finished list = run("REHEARSE_ROOT=. ./rehearse list models", folder);
  INFO(list.out << list.err);
  CHECK(list.code == 0);
  CHECK(has(list.out, "broken  cannot be read: "));
}

TEST_CASE("golden: a folder of data that is not there is no empty list") {
  const std::string folder = golden::scratch("no-data");
  for (const char* kind : {"models", "clusters", "workloads", "profiles", "codecs", "campaigns",
                           "failures", "frameworks", "schemas"}) {
    const golden::Finished list =
        run(std::string("REHEARSE_ROOT=/nowhere ./rehearse list ") + kind, folder);
    INFO(kind << "\n" << list.out << list.err);
    CHECK(list.code == 66);
    CHECK(list.out.empty());
    CHECK(list.err.find("there is no folder /nowhere/") != std::string::npos);
    CHECK(list.err.find("set REHEARSE_ROOT to the repository") != std::string::npos);
  }
  CHECK(run("REHEARSE_ROOT=/nowhere ./rehearse list", folder).code == 66);
  CHECK(run("REHEARSE_ROOT=/nowhere ./rehearse list schedules", folder).code == 0);
  CHECK(run("REHEARSE_ROOT=/nowhere ./rehearse run llama-2-7b-64", folder)
            .err.find("there is no folder /nowhere/workloads") != std::string::npos);
}

TEST_CASE("golden: the name of something else says what it is and how to use it") {
  const std::string folder = golden::scratch("other-kinds");
  const auto says = [&](const std::string& command, const std::string& part) {
    const golden::Finished finished = run("./rehearse " + command, folder);
    INFO(command << "\n" << finished.err);
    CHECK(finished.code == 66);
    CHECK(finished.err.find(part) != std::string::npos);
  };
  says("run dgx-h100", "it is a cluster; name a plan and write cluster=dgx-h100 after it, or");
  says("run llama-3.1-8b", "it is a model; name a plan and write model=llama-3.1-8b after it, or");
  says("run llama-3", "it is a campaign; `rehearse campaign llama-3` runs it");
  says("run rsc-1", "it is a table of failures; `rehearse campaign --failures rsc-1` takes it");
  says("run llama-2-7b-64 cluster=llama-3.1-8b",
       "there is no cluster 'llama-3.1-8b': it is a model");
}
