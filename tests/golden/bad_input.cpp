// bad_input.cpp — wrong inputs: each is refused with its place, the rule and a remedy, and exit
// code 65 or 66. Nothing crashes, takes long, or is written.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>

#include "tests/golden/program.h"

using golden::run;
using golden::text_of;
namespace fs = std::filesystem;

namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// Runs a command that must be refused. Returns its message.
std::string refused(const std::string& command, const std::string& folder, int code = 65) {
  INFO(command);
  const auto began = std::chrono::steady_clock::now();
  const golden::Finished finished = run(command, folder);
  const auto took = std::chrono::steady_clock::now() - began;
  INFO(finished.err);
  CHECK(finished.code == code);
  CHECK(finished.out.empty());
  CHECK(took < std::chrono::seconds(20));
  return finished.err;
}

bool says(const std::string& text, const std::string& part) {
  INFO(text << "\nshould say\n" << part);
  CHECK(text.find(part) != std::string::npos);
  return true;
}

}  // namespace

TEST_CASE("golden: a misspelt key names its place and the nearest key") {
  const std::string folder = golden::scratch("misspelt");
  const std::string plan = text_of(folder + "/workloads/llama-2-7b-64.textproto");
  golden::write(folder + "/plan.textproto", replaced(plan, "micro_batch", "micro_bacth"));
  const std::string said = refused("./rehearse run plan.textproto", folder);
  says(said, "plan.textproto:");
  says(said, "micro_bacth");
  says(said, "micro_batch");
}

TEST_CASE("golden: a quantity without a unit or below zero shows how to write it") {
  const std::string folder = golden::scratch("units");
  const std::string cluster = text_of(folder + "/topologies/dgx-h100.textproto");
  golden::write(folder + "/bare.textproto",
                replaced(cluster, "nvlink_bandwidth: \"", "nvlink_bandwidth: \"25\"  # \""));
  says(refused("./rehearse check --kind cluster bare.textproto", folder), "has no unit");
  golden::write(folder + "/negative.textproto",
                replaced(cluster, "nvlink_bandwidth: \"", "nvlink_bandwidth: \"-"));
  says(refused("./rehearse check --kind cluster negative.textproto", folder),
       "negative.textproto:");
}

TEST_CASE("golden: an impossible plan lists the values that would do") {
  const std::string folder = golden::scratch("impossible");
  const std::string said =
      refused("./rehearse run llama-2-7b-64 tp=3 pp=1 gpus=48 gbs=512", folder);
  says(said, "tp 3 does not divide the 32 attention heads");
  says(refused("./rehearse run llama-2-7b-64 gpus=60", folder), "60");
  says(refused("./rehearse run llama-2-7b-64 global_batch=7", folder), "global_batch");
  says(refused("./rehearse run llama-2-7b-64 tpp=2", folder), "tpp");
  says(refused("./rehearse run llama-2-7b-64 cluster=dgx-h10", folder, 66), "dgx-h100");
}

TEST_CASE("golden: a truncated config.json says where it ends") {
  const std::string folder = golden::scratch("truncated");
  const std::string model = text_of(folder + "/models/llama-2-7b.json");
  golden::write(folder + "/short.json", model.substr(0, model.size() / 2));
  says(refused("./rehearse check short.json", folder), "short.json:");
  golden::write(folder + "/deep.json", std::string(1'000'000, '['));
  says(refused("./rehearse check deep.json", folder), "deep.json:");
}

TEST_CASE("golden: a length of two gigabytes that is only claimed is refused at once") {
  const std::string folder = golden::scratch("claimed");
  // Pickle protocol 4, a string (BINUNICODE8) of 2^31 bytes, and no bytes.
  golden::write(folder + "/claim.pickle",
                std::string("\x80\x04\x8d\x00\x00\x00\x80\x00\x00\x00\x00", 11));
  says(refused("./rehearse memory replay claim.pickle", folder), "claim.pickle");
  golden::write(folder + "/claim.csv", "row_id,\"" + std::string(3'000'000, 'x'));
  refused("./rehearse validate claim.csv", folder);
}

TEST_CASE("golden: a file that cannot be read exits 66") {
  const std::string folder = golden::scratch("unreadable");
  says(refused("./rehearse run ./workloads", folder, 66), "directory");
  golden::write(folder + "/secret.textproto", "");
  ::chmod((folder + "/secret.textproto").c_str(), 0);
  if (::geteuid() == 0) return;  // root reads everything
  says(refused("./rehearse run ./secret.textproto", folder, 66), "ermission");
}

TEST_CASE("golden: hostile fabrics are refused in bounded time and memory") {
  const std::string folder = golden::scratch("hostile");
  const std::string limited = golden::limit_address_space + "./rehearse ";
  golden::write(folder + "/cycle.conf",
                "SwitchName=a Switches=b\nSwitchName=b Switches=c\nSwitchName=c Switches=a\n");
  says(refused(limited + "topo check cycle.conf", folder), "cycle.conf:");
  std::string bomb = "<!DOCTYPE x [<!ENTITY e0 \"aaaaaaaaaa\">";
  for (int i = 1; i < 30; ++i) {
    const std::string before = "&e" + std::to_string(i - 1) + ";";
    bomb += "<!ENTITY e" + std::to_string(i) + " \"" + before + before + before + "\">";
  }
  golden::write(folder + "/bomb.xml", bomb + "]>\n<system><cpu name=\"&e29;\"/></system>\n");
  says(refused(limited + "topo import bomb.xml", folder), "bomb.xml");
  golden::write(folder + "/list.conf", "SwitchName=a Nodes=n[0-999999999]\n");
  says(refused(limited + "topo check list.conf", folder), "names more than 1048576 nodes");
  const std::string cluster = text_of(folder + "/topologies/dgx-h100.textproto");
  golden::write(folder + "/zero.textproto",
                replaced(cluster, "nic_bandwidth: \"400Gb/s\"", "nic_bandwidth: \"0Gb/s\""));
  says(refused(limited + "topo check zero.textproto", folder), "is zero; it must be more");
  says(refused(limited + "run llama-2-7b-64 condition='{leaf: 0 bandwidth: 0}'", folder),
       "bandwidth must be at least 0.001");
  golden::write(folder + "/zero.csv", "GB/s,a,b\na,,0\nb,1,\n");
  says(refused(limited + "run llama-2-7b-64 node_bandwidth=zero.csv", folder), "zero.csv:2");
  golden::write(folder + "/islands.conf", "SwitchName=a Nodes=n[0-3]\nSwitchName=b Nodes=m[0-3]\n");
  const golden::Finished islands = run(limited + "topo check islands.conf", folder);
  CHECK(islands.code == 2);
  says(islands.out, "problem: ");
  says(refused(limited + "topo time dgx-h100 cluster.nodes=12500000", folder), "1048576");
  says(refused(limited + "run llama-2-7b-64 gpus=100000000", folder), "1048576");
}

TEST_CASE("golden: check knows every input of the repository and finds nothing wrong") {
  const std::string folder = golden::scratch("check-own");
  std::string files;
  for (const char* part : {"calibration", "models", "topologies", "workloads"}) {
    for (const auto& entry : fs::recursive_directory_iterator(folder + "/" + part + "/")) {
      const std::string suffix = entry.path().extension();
      if (suffix == ".textproto" || suffix == ".csv" || suffix == ".json")
        files += " '" + entry.path().string() + "'";
    }
  }
  const golden::Finished finished = run("./rehearse check" + files, folder);
  CHECK(finished.code == 0);
  CHECK(finished.err == "");
  for (const char* known :
       {"fp8.textproto: codec,", "nemo.textproto: framework,", "tokenizers.textproto: tokenizers,",
        "runs.textproto: residuals,", "hosts.csv: cells,", "llama-3.textproto: failures,"})
    CHECK(finished.out.find(known) != std::string::npos);
  // A campaign is checked together with the files that it names.
  golden::write(folder + "/lost.textproto",
                "plan: \"llama-3.1-70b-512\"\nlength: \"54d\"\nfailures: \"nowhere\"\n");
  says(refused("./rehearse check --kind campaign lost.textproto", folder, 66), "nowhere");
  // A table of runs is still recognised when a column name is misspelt.
  golden::write(folder + "/runs.csv", "row_idd,gpu,n_gpus,tp,pp\n1,A100-SXM4-40GB,8,1,1\n");
  CHECK(run("./rehearse check runs.csv", folder).err.find("did you mean 'row_id'?") !=
        std::string::npos);
}

TEST_CASE("golden: check takes a plan in words, a plan with settings and names") {
  const std::string folder = golden::scratch("check-words");
  const std::string words =
      "model=llama-2-7b cluster=dgx-h100 gpus=64 tp=8 micro_batch=1 global_batch=64 sequence=4096";
  for (const std::string& typed : {words, "'" + words + "'"}) {
    const golden::Finished good = run("./rehearse check --wide " + typed, folder);
    CHECK(good.code == 0);
    CHECK(good.out == words + ": plan, no problems\n");
  }
  says(refused("./rehearse check model=llama-2-7b cluster=dgx-h100 gpus=64 tp=8", folder),
       "needs the field 'global_batch'");
  says(run("./rehearse check llama-2-7b-64 tp=4", folder).out,
       "llama-2-7b-64 tp=4: plan, no problems");
  says(refused("./rehearse check llama-2-7b-64 tp=3", folder), "tp 3 does not divide");
  says(run("./rehearse check dgx-h100 llama-2-7b", folder).out,
       "dgx-h100: cluster, no problems\nllama-2-7b: model, no problems\n");
  says(refused("./rehearse check dgx-h100 tp=8", folder, 64), "not a cluster");
  says(refused("./rehearse check llama-2-7b-64 dgx-h100 tp=8", folder, 64), "2 files");
  says(refused("./rehearse check dgx-h10", folder, 66), "did you mean 'dgx-h100'?");
}

TEST_CASE("golden: a measured cell that is no number of zero or more names its line and column") {
  const std::string folder = golden::scratch("cells");
  const auto with = [&](const std::string& table, const std::string& from, const std::string& to) {
    golden::write(folder + "/t.csv",
                  replaced(text_of(folder + "/calibration/measured/" + table), from, to));
    return refused("./rehearse check t.csv", folder);
  };
  says(with("nccl.csv", ",63.91,", ",nan,"), "t.csv:2: error: time_us_oop 'nan' is not a number");
  says(with("nccl.csv", ",39.49,", ",-1,"), "t.csv:3: error: busbw_oop '-1' is not a number");
  says(with("gemm.csv", ",271.2,", ",inf,"), "t.csv:2: error: tflops 'inf' is not a number");
  says(with("op_profiles.csv", ",78.791,", ",\"78,791\","),
       "t.csv:2: error: fwd_us '78,791' is not a number");
  says(with("usp_attention_8xA100.csv", ",558.972,", ",-558.972,"),
       "t.csv:2: error: iters_per_s '-558.972' is not a number");
  golden::write(folder + "/r.csv", "row_id,gpu,tp,pp,iter_time_s\na,H100,1,1,-1\nb,H100,1,1,nan\n");
  const std::string runs = refused("./rehearse check r.csv", folder);
  says(runs, "r.csv:2: error: iter_time_s '-1' is not zero or more");
  says(runs, "r.csv:3: error: iter_time_s 'nan' is not a number");
}

TEST_CASE("golden: noise is refused by every command that reads files") {
  const std::string folder = golden::scratch("noise");
  std::string noise;
  std::uint32_t state = 12345;
  for (int i = 0; i < 100'000; ++i) {
    state = state * 1664525U + 1013904223U;
    noise += static_cast<char>(state >> 24);
  }
  golden::write(folder + "/noise", noise);
  for (const char* kind : {"plan", "grid", "cluster", "profile", "model", "launch-script", "runs",
                           "trace", "snapshot"}) {
    refused(std::string("./rehearse check --kind ") + kind + " noise", folder);
  }
}

TEST_CASE("golden: an impossible campaign names the line, the rule and the way out") {
  const std::string folder = golden::scratch("campaign");
  const std::string stated = "./rehearse campaign --step-time 10 --gpus 64 ";
  // Negative rates.
  const std::string kind =
      "source: \"x\"\nkind { name: \"gpu\" part: gpu takes: its_node sure: chosen ";
  golden::write(folder + "/rates.textproto", kind + "life { mean: \"-3h\" } }\n");
  std::string said = refused(stated + "--failures rates.textproto", folder);
  says(said, "rates.textproto:2:");
  says(said, "negative");
  says(refused("./rehearse check rates.textproto", folder), "rates.textproto:2:");
  // A mean time between failures below a step.
  says(refused(stated + "--mtbf 5s", folder), "below one step");
  // A checkpoint that takes longer than its interval, on a line of a file.
  golden::write(folder + "/slow.textproto",
                "plan: \"llama-2-7b-64\"\nlength: \"9d\"\nmtbf: \"3h\"\n"
                "checkpoint { interval: \"10min\" write: \"11min\" }\n");
  said = refused("./rehearse campaign ./slow.textproto", folder);
  says(said, "slow.textproto:4:");
  says(said, "longer, 11.0 min, than its interval, 10.0 min");
  // More spares than nodes.
  golden::write(folder + "/table.textproto", kind + "life { mean: \"9000h\" } }\n");
  said = refused(stated + "--failures table.textproto --spares 9", folder);
  says(said, "9 spares are more than the 8 nodes");
  // A trace out of order.
  golden::write(folder + "/trace.csv", "seconds,kind,node\n20,gpu,1\n10,gpu,2\n");
  said = refused(stated + "--failures table.textproto --trace trace.csv", folder);
  says(said, "trace.csv:3");
  says(said, "out of order");
  // Misspelt names get the nearest known names.
  golden::write(folder + "/misspelt.textproto", "length: \"9d\"\nanswer: \"wiat\"\n");
  said = refused("./rehearse check misspelt.textproto", folder);
  says(said, "misspelt.textproto:2:");
  says(said, "did you mean 'wait'");
  says(refused(stated + "--failures llama3", folder, 66), "did you mean 'llama-3'");
}
