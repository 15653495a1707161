// habits.cpp — first steps of a new user: files to start from, help, completion, manual pages.
#include <catch2/catch.hpp>
#include <filesystem>
#include <sstream>
#include <vector>

#include "tests/golden/program.h"

using golden::run;

namespace {

// The names of all commands, as --help lists them.
std::vector<std::string> commands(const std::string& folder) {
  std::istringstream usage(run("./rehearse --help", folder).out);
  std::vector<std::string> names;
  for (std::string line; std::getline(usage, line);) {
    if (!line.starts_with("  ") || line[2] == ' ') continue;
    const std::string name = line.substr(2, line.find(' ', 2) - 2);
    if (name != "test" && name != "bench") names.push_back(name);
  }
  CHECK(names.size() == 22);
  return names;
}

}  // namespace

TEST_CASE("golden: what init writes is a file that the next command takes") {
  const std::string folder = golden::scratch("init");
  for (const char* kind : {"plan", "cluster", "grid", "search"}) {
    INFO(kind);
    const golden::Finished made = run(std::string("./rehearse init ") + kind, folder);
    CHECK(made.code == 0);
    const golden::Finished good =
        run(std::string("./rehearse check ") + kind + ".textproto", folder);
    INFO(good.out << good.err);
    CHECK(good.code == 0);
    CHECK(run(std::string("./rehearse init ") + kind, folder).code == 64);  // it is there
    CHECK(run(std::string("./rehearse init --overwrite ") + kind, folder).code == 0);
  }
  CHECK(run("./rehearse run plan.textproto -q", folder).code == 0);
  CHECK(run("./rehearse plan search.textproto -q schedule=1f1b tp=2 cp=1", folder).code == 0);
  CHECK(run("./rehearse init plna", folder).err.find("did you mean 'plan'?") != std::string::npos);
}

TEST_CASE("golden: completion is a script that its shell reads, where the shell is installed") {
  const std::string folder = golden::scratch("completion");
  for (const char* shell : {"bash", "zsh", "fish"}) {
    INFO(shell);
    REQUIRE(run(std::string("./rehearse completion -q ") + shell + " > script", folder).code == 0);
    if (run(std::string("command -v ") + shell, folder).code != 0) {
      WARN("not tested here, not installed: " << shell);
      continue;
    }
    const golden::Finished read = run(std::string(shell) + " -n script", folder);
    INFO(read.err);
    CHECK(read.code == 0);
  }
  run("./rehearse completion -q bash > script", folder);
  const golden::Finished bash =
      run("bash -c '. ./script; COMP_WORDS=(rehearse swe); COMP_CWORD=1; _rehearse; "
          "echo ${COMPREPLY[@]}'",
          folder);
  CHECK(bash.out == "sweep\n");
}

TEST_CASE("golden: what a command cannot understand ends in a command that it would") {
  const std::string folder = golden::scratch("examples");
  for (const std::string& name : commands(folder)) {
    const golden::Finished wrong = run("./rehearse " + name + " --no-such-option", folder);
    INFO(wrong.err);
    CHECK(wrong.code == 64);
    const std::size_t at = wrong.err.rfind("\nfor example: rehearse " + name + " ");
    REQUIRE(at != std::string::npos);
    const std::string example = wrong.err.substr(at + 14, wrong.err.size() - at - 15);
    CHECK(example.find('\n') == std::string::npos);
    // One takes minutes, the other runs until it is ended.
    if (name == "sweep" || name == "serve") continue;
    const golden::Finished right = run("./" + example + " -q", folder);
    INFO(example << "\n" << right.err);
    // Some examples name a file or folder that only the reader has.
    const bool others = right.code == 66 && right.err.find("error: ") != std::string::npos;
    CHECK((right.code == 0 || right.code == 2 || others));
  }
}

TEST_CASE("golden: the help of every command and a wide schedule fit a line of 100 columns") {
  const std::string folder = golden::scratch("widths");
  const auto widest = [&](const std::string& command) {
    const golden::Finished finished = run("./rehearse " + command, folder);
    CHECK(finished.code == 0);
    std::istringstream lines(finished.out);
    std::size_t most = 0;
    for (std::string line; std::getline(lines, line);) most = std::max(most, line.size());
    return most;
  };
  CHECK(widest("--help") <= 100);
  for (const std::string& name : commands(folder)) {
    INFO(name);
    CHECK(widest(name + " --help") <= 100);
  }
  // 129 forward and backward passes of one stage, one after the other.
  const std::string schedule = "schedule 1f1b --stages 2 --microbatches 64";
  CHECK(widest(schedule) == 100);
  CHECK(widest(schedule + " --wide") > 100);
}

TEST_CASE("golden: manual pages are written for every command") {
  const std::string folder = golden::scratch("man");
  REQUIRE(run("./rehearse man -o pages", folder).code == 0);
  CHECK(std::filesystem::exists(folder + "/pages/rehearse.1"));
  CHECK(golden::text_of(folder + "/pages/rehearse-sweep.1").find("\\-\\-shard") !=
        std::string::npos);
}

TEST_CASE("golden: a field is explained by its name, its synonym or its flag") {
  const std::string folder = golden::scratch("doc");
  CHECK(run("./rehearse doc Textbook_Bubble", folder).out.find("(p - 1) / (m v + p - 1)") !=
        std::string::npos);
  const golden::Finished tp = run("./rehearse doc tp", folder);
  CHECK(tp.code == 0);
  CHECK(tp.out.find("--tensor-model-parallel-size") != std::string::npos);
  CHECK(run("./rehearse doc --json tp", folder).out.find("\"megatron_lm\"") != std::string::npos);
  CHECK(run("./rehearse doc tensor-model-parallel-size", folder).out == tp.out);
  CHECK(run("./rehearse doc --tensor-model-parallel-size", folder).out == tp.out);
  CHECK(run("./rehearse doc -- --tensor-model-parallel-size", folder).out == tp.out);
  CHECK(run("./rehearse doc --tensor-model-parallel-size --json tp", folder).out ==
        run("./rehearse doc --json tp tp", folder).out);
  CHECK(run("./rehearse doc --num-layer", folder).err.find("did you mean '--num-layers'?") !=
        std::string::npos);
  const golden::Finished wrong = run("./rehearse doc micro_bach", folder);
  CHECK(wrong.code == 64);
  CHECK(wrong.err.find("did you mean 'micro_batch'?") != std::string::npos);
}

TEST_CASE("golden: tables of kernels and collectives are written with their columns and read") {
  const std::string folder = golden::scratch("init-tables");
  for (const char* kind : {"kernels", "collectives"}) {
    INFO(kind);
    const std::string file = std::string(kind) == "kernels" ? "gemm.csv" : "nccl.csv";
    CHECK(run(std::string("./rehearse init ") + kind, folder).code == 0);
    const golden::Finished known = run("./rehearse check " + file, folder);
    INFO(known.out << known.err);
    CHECK(known.code == 0);
    CHECK(known.out.find(": table, no problems") != std::string::npos);
    const golden::Finished compared = run("./rehearse validate " + file, folder);
    INFO(compared.out << compared.err);
    // `validate` compares products and attention, `calibrate` also memory-bound kernels.
    CHECK(compared.out.find(file == "gemm.csv" ? "3 predicted" : "2 predicted") !=
          std::string::npos);
    const golden::Finished fit = run("./rehearse calibrate " + file + " --profile h100-80", folder);
    INFO(fit.out << fit.err);
    CHECK(fit.code != 65);
    const std::string columns = run("./rehearse doc --wide " + file, folder).out;
    CHECK(columns.find("  - gpu: name of the GPU") != std::string::npos);
    CHECK(columns.find("microseconds") != std::string::npos);
  }
}

TEST_CASE("golden: a listed name is explained with its numbers, its file and its sources") {
  const std::string folder = golden::scratch("doc-listed");
  const auto doc = [&](const std::string& name) {
    const golden::Finished finished = run("./rehearse doc --wide " + name, folder);
    CHECK(finished.code == 0);
    return finished.out;
  };
  const auto has = [](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  const std::string cluster = doc("aws-p4d");
  has(cluster, "topologies/aws-p4d.textproto");
  has(cluster, "  - 128 nodes of 8 GPUs: 1024 GPUs\n");
  has(cluster, "NVSwitch 300 GB/s per GPU and direction");
  has(cluster, "  - NVIDIA A100 Tensor Core GPU data sheet, 2020: rates, bandwidth, SMs\n");
  has(doc("llama-2-7b"), "32 layers, hidden size 4096, vocabulary 32000");
  has(doc("llama-2-7b-64"), "next: rehearse run llama-2-7b-64");
  has(doc("zb-v"), "source  arXiv:2405.15362");
  has(doc("hgx-h800"), "\"200 GB/s\" in NVIDIA/nccl issue 1374");
  has(run("./rehearse doc dgx-h10", folder).err, "did you mean 'dgx-h100'?");
  has(run("./rehearse list clusters --wide", folder).out,
      "128 x 8 A100-SXM4-40GB, NVSwitch 300 GB/s, 4 NICs of 100 Gb/s (EFA), fat_tree\n");
}

TEST_CASE("golden: a file whose name ends in .gz is compressed, and holds the same bytes") {
  const std::string folder = golden::scratch("gzip");
  const std::string run = "./rehearse run llama-2-7b-64 global_batch=64 -q --trace ";
  const std::string sweep =
      "./rehearse sweep model=llama-2-7b cluster=dgx-h100 gpus=16 global_batch=32 sequence=4096 "
      "tp=1,2 -q --csv ";
  for (const auto& [command, file] :
       {std::pair{run, std::string("trace.json")}, std::pair{run, std::string("trace.pftrace")},
        std::pair{sweep, std::string("points.csv")}}) {
    CAPTURE(file);
    CHECK(golden::run(command + file, folder).code == 0);
    CHECK(golden::run(command + file + ".gz", folder).code == 0);
    const golden::Finished compared = golden::run("zcat " + file + ".gz | cmp - " + file, folder);
    CHECK(compared.out + compared.err == "");
    CHECK(std::filesystem::file_size(folder + "/" + file + ".gz") <
          std::filesystem::file_size(folder + "/" + file));
  }
}
