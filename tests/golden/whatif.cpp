// whatif.cpp — the reasons, links and cost that `whatif` prints for each variant.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/golden/program.h"

using golden::run;
using nlohmann::json;

namespace {

const std::string plan =
    "model=llama-3.1-8b cluster=dgx-h100 gpus=16 global_batch=16 sequence=4096 micro_batch=1 tp=4 "
    "pp=2 ";

std::string text_of(const std::string& command, const std::string& folder) {
  const golden::Finished finished = run("./rehearse whatif " + plan + command + " -q", folder);
  INFO(command << "\n" << finished.err);
  REQUIRE(finished.code == 0);
  return finished.out;
}

// The lines of a variant below the table, up to the next variant.
std::string reason_of(const std::string& text, const std::string& variant) {
  const std::size_t at = text.find("\n" + variant + "\n  ");
  REQUIRE(at != std::string::npos);
  std::size_t end = at + 1 + variant.size();
  while ((end = text.find('\n', end + 1)) != std::string::npos)
    if (end + 1 >= text.size() || text[end + 1] != ' ') break;
  return text.substr(at + 1, end - at - 1);
}

}  // namespace

TEST_CASE("golden: the reason of a variant is that of its own row") {
  const std::string folder = golden::scratch("whatif-reasons");
  const std::string text =
      text_of("--vary node.nic_bandwidth=200Gb/s,400Gb/s,800Gb/s --vary node.nics=8", folder);
  INFO(text);
  const std::string same = reason_of(text, "node.nic_bandwidth=400Gb/s node.nics=8");
  CHECK(same.find("the same as the base") != std::string::npos);
  CHECK(same.find("slot") == std::string::npos);
  // A slot that carries less than the NIC explains why a faster NIC gains nothing.
  const std::string fast = reason_of(text, "node.nic_bandwidth=800Gb/s node.nics=8");
  CHECK(fast.find("a NIC of 100 GB/s (node.nic_bandwidth) sits on PCIe of 63 GB/s, which carries "
                  "48") != std::string::npos);
  CHECK(reason_of(text, "node.nic_bandwidth=200Gb/s node.nics=8").find("slot") ==
        std::string::npos);
  // `run` and `topo time` say it too, where traffic leaves the node.
  const std::string slot = "sits on PCIe of 63 GB/s";
  const auto says = [&](const std::string& command) {
    return run("./rehearse " + command + " node.nic_bandwidth=800Gb/s --wide -q", folder)
               .out.find(slot) != std::string::npos;
  };
  CHECK(says("run " + plan));
  CHECK(says("topo time dgx-h100 --max 1MiB"));
  CHECK_FALSE(says("topo time dgx-h100 --max 1MiB --ranks 0-7"));
}

TEST_CASE("golden: a variant of the spines says why it changes nothing, and that traffic spreads") {
  const std::string folder = golden::scratch("whatif-spines");
  const std::string text = text_of("--vary fabric.oversubscription=1,4 --wide", folder);
  INFO(text);
  const std::string four = reason_of(text, "fabric.oversubscription=4");
  CHECK(
      four.find("all 2 nodes of the job share the leaves of one group of 32 nodes; try more GPUs, "
                "fabric.nodes_per_leaf=1, or hosts in several groups (host=[0,32])") !=
      std::string::npos);
  CHECK(four.find("no two flows collide (ECMP); fabric.kind=leaf_spine hashes flows") !=
        std::string::npos);
  CHECK(reason_of(text, "fabric.oversubscription=1").find("ECMP") == std::string::npos);
  // The settings that it names are accepted.
  CHECK(text_of("'host=[0,32]' --vary fabric.oversubscription=4", folder)
            .find("no traffic of this plan crosses") == std::string::npos);
}

TEST_CASE("golden: the table and the text of whatif name one busiest link") {
  const std::string folder = golden::scratch("whatif-links");
  const std::string command =
      "fabric.kind=fat_tree fabric.nodes_per_leaf=1 --vary fabric.oversubscription=1,2:1,4";
  const std::string text = text_of(command, folder);
  const json rows = json::parse(text_of(command + " --json", folder))["result"];
  REQUIRE(rows.size() == 4);
  for (const json& row : rows) {
    const json* most = nullptr;
    for (const json& link : row["links"])
      if (link["fabric"] == true && (most == nullptr || link["busy"] > (*most)["busy"]))
        most = &link;
    REQUIRE(most != nullptr);
    const std::string reason = reason_of(text, row["name"]);
    INFO(reason);
    CHECK(reason.find("busiest links: " + (*most)["busiest"].get<std::string>()) !=
          std::string::npos);
  }
  // 2:1 is 2.
  const json two =
      json::parse(text_of("fabric.kind=fat_tree fabric.nodes_per_leaf=1 --vary "
                          "fabric.oversubscription=2 --json",
                          folder))["result"];
  CHECK(rows[2]["step_time_s"] == two[1]["step_time_s"]);
}

TEST_CASE("golden: whatif writes its variants as CSV, with the cost of a training") {
  const std::string folder = golden::scratch("whatif-csv");
  const std::string command = "--vary gpus=16,32 --price 2 gpu.power_w=700 --tokens 1e12 ";
  const std::string csv = text_of(command + "--csv -", folder);
  CHECK(csv.starts_with("name,problem,fits,"));
  CHECK(csv.find("links") == std::string::npos);
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 4);
  const json rows = json::parse(text_of(command + "--json", folder))["result"];
  for (const json& row : rows) {
    const double hours = 1e12 / row["tokens_per_second_gpu"].get<double>() / 3600;
    CHECK(row["cost_per_million_tokens"].get<double>() == Approx(2 * hours / 1e6));
    CHECK(row["cost"].get<double>() == Approx(2 * hours));
    CHECK(row["energy_mwh"].get<double>() == Approx(700 * hours / 1e6));
  }
  CHECK(rows[2]["days"].get<double>() ==
        Approx(1e12 / rows[2]["tokens_per_second_gpu"].get<double>() / 32 / 86400));
  const std::string text = text_of(command, folder);
  CHECK(text.find("without CPUs, switches and cooling (PUE)") != std::string::npos);
}

TEST_CASE("golden: run and plan print cost, days and energy where they are known") {
  const std::string folder = golden::scratch("run-cost");
  const std::string words = "./rehearse run " + plan + "-q ";
  CHECK(run(words, folder).out.find("cost:") == std::string::npos);
  const std::string priced = run(words + "cluster.price_per_gpu_hour=2.5", folder).out;
  INFO(priced);
  CHECK(priced.find("per million tokens, at 2.5 per GPU and hour\n") != std::string::npos);
  const golden::Finished whole =
      run(words + "--price 2 gpu.power_w=700 --tokens 1e12 --json", folder);
  const json result = json::parse(whole.out)["result"];
  const double hours = 1e12 / result["tokens_s_gpu"].get<double>() / 3600;
  CHECK(result["run_cost"]["cost"].get<double>() == Approx(2 * hours));
  CHECK(result["run_cost"]["energy_mwh"].get<double>() == Approx(700 * hours / 1e6));
  CHECK(result["run_cost"]["days"].get<double>() == Approx(hours / 16 / 24));
  CHECK(run(words + "--tokens many", folder).code == 64);
  CHECK(run(words + "--price 2 gpu.power_w=700 --tokens 1T --json", folder).out ==
        run(words + "--price 2 gpu.power_w=700 --tokens 1e12 --json", folder).out);

  const std::string search =
      "./rehearse plan llama-3.1-8b dgx-h100 --gpus 8,16 --batch 16 --sequence 4096 zero=1 cp=1 "
      "schedule=1f1b recompute=none -q ";
  const golden::Finished found =
      run(search + "--objective cost --price 2 --tokens 1e12 --json", folder);
  INFO(found.err);
  const json best = json::parse(found.out)["result"];
  REQUIRE_FALSE(best["plans"].empty());
  const json& first = best["plans"][0];
  CHECK(first["cost"].get<double>() ==
        Approx(2 * 1e12 / first["tokens_s_gpu"].get<double>() / 3600));
  // A suggestion with less memory free is better in the objective.
  if (best.contains("tight")) CHECK(best["tight"]["cost"] < first["cost"]);
  const std::string text = run(search + "--price 2 --tokens 1e12", folder).out;
  CHECK(text.find("\n1,000,000,000,000 tokens: ") != std::string::npos);
  CHECK(text.find("  days  ") != std::string::npos);
  CHECK(text.find("fits %") == std::string::npos);
  CHECK(text.find("Probability of fitting: unknown") != std::string::npos);
}

TEST_CASE("golden: a plan in one quoted word is a plan in words") {
  const std::string folder = golden::scratch("quoted-plan");
  const std::string step = run("./rehearse run " + plan + "-q", folder).out;
  CHECK(run("./rehearse run '" + plan + "' -q", folder).out == step);
  CHECK(run("./rehearse report '" + plan + "' -q -o page.html", folder).code == 0);
  const golden::Finished drawn = run("./rehearse topo export --plan '" + plan + "' -q", folder);
  INFO(drawn.err);
  CHECK(drawn.code == 0);
  CHECK(run("./rehearse topo time --plan '" + plan + "' -q", folder).out ==
        run("./rehearse topo time dgx-h100 -q", folder).out);
  CHECK(run("./rehearse topo time dgx-h100 --plan '" + plan + "'", folder).code == 64);
}

TEST_CASE("golden: doc leads from words of an architect to fields") {
  const std::string folder = golden::scratch("doc-words");
  const auto says = [&](const std::string& term, const std::string& said) {
    const golden::Finished finished = run("./rehearse doc " + term + " --wide", folder);
    INFO(finished.out << finished.err);
    CHECK(finished.code == 0);
    CHECK(finished.out.find(said) != std::string::npos);
  };
  says("price", "price_per_gpu_hour");
  says("cost", "--objective cost");
  says("energy", "gpu.power_w");
  says("power", "gpu.power_w");
  says("gpu.power_w", "below the board's rated power, products slow");
  says("mtbf", "--gpu-mtbf");
  says("roce", "transport.bandwidth");
  says("ethernet", "fabric.kind=leaf_spine");
  says("nvl72", "cluster.node.gpus=64");
  says("transport.name", "they change no time");
  says("other", "category of memory");
  says("ecmp", "fabric.kind=leaf_spine");
  says("events", "a node in repair");
  says("interruptions", "stop a running job");
  for (const char* kind : {"single_switch", "fat_tree", "rail_optimised", "rail_only",
                           "three_level", "leaf_spine", "dragonfly", "torus"})
    says("fabric.kind", std::string(kind) + ":");
}

TEST_CASE("golden: a power limit below the rating is named where it costs time") {
  const std::string folder = golden::scratch("power-limit");
  const std::string words = "./rehearse run " + plan + "-q ";
  CHECK(run(words + "gpu.power_w=700", folder).out.find("limited to") == std::string::npos);
  const golden::Finished limited = run(words + "gpu.power_w=500", folder);
  INFO(limited.out << limited.err);
  CHECK(
      limited.out.find("limited to 500 of 700 W (gpu.power_w): matrix products take 1.40 times as "
                       "long\n") != std::string::npos);
  const json notes =
      json::parse(run(words + "gpu.power_w=500 --json", folder).out)["result"]["cluster_notes"];
  REQUIRE(notes.size() == 1);
  const std::string varied = text_of("--vary gpu.power_w=700,500", folder);
  INFO(varied);
  CHECK(reason_of(varied, "gpu.power_w=500").find("limited to 500 of 700 W") != std::string::npos);
  CHECK(reason_of(varied, "gpu.power_w=700").find("limited to") == std::string::npos);
  // The energy of a whole training needs no limit: boards have their rated power.
  const std::string whole = run(words + "--tokens 1e12", folder).out;
  INFO(whole);
  CHECK(whole.find("1,000,000,000,000 tokens: ") != std::string::npos);
  CHECK(whole.find("boards at 700 W") != std::string::npos);
  // A board of unknown power has no energy.
  const golden::Finished unknown =
      run("./rehearse plan llama-3.1-8b alps --gpus 8 --batch 8 --sequence 2048 --objective energy",
          folder);
  CHECK(unknown.code == 64);
  CHECK(unknown.err.find("--objective energy: the power of GH200-96GB is not known; write "
                         "gpu.rated_power_w=") != std::string::npos);
}

TEST_CASE("golden: whatif has no cost without a price, and one variant may have its own settings") {
  const std::string folder = golden::scratch("whatif-variant");
  const std::string command =
      "--vary cluster=dgx-h100,dgx-h200 --price dgx-h100=2,base=2 --tokens 1e12 ";
  const std::string text = text_of(command, folder);
  INFO(text);
  CHECK(text.find("No price: cluster=dgx-h200; write --price NAME=NUMBER for each") !=
        std::string::npos);
  const json rows = json::parse(text_of(command + "--json", folder))["result"];
  CHECK(rows[1]["cost"].is_number());
  CHECK(rows[2]["cost"].is_null());
  CHECK(rows[2]["cost_per_million_tokens"].is_null());
  CHECK(rows[2]["energy_mwh"].is_number());
  const std::string racks = text_of(
      "gpus=128 --vary cluster=dgx-b200,gb200-nvl72 --variant 'cluster=gb200-nvl72 "
      "cluster.node.gpus=64' --variant 'cluster=dgx-b200 cluster.node.gpus=64'",
      folder);
  INFO(racks);
  CHECK(racks.find("A setting for one variant alone: --variant 'cluster=gb200-nvl72 "
                   "SETTING=VALUE'") != std::string::npos);
  CHECK(reason_of(racks, "cluster=gb200-nvl72").find("impossible") != std::string::npos);
  CHECK(reason_of(racks, "cluster=gb200-nvl72 cluster.node.gpus=64").find("step ") !=
        std::string::npos);
  CHECK(reason_of(racks, "cluster=dgx-b200 cluster.node.gpus=64")
            .find("dgx-b200 describes nodes of 8") != std::string::npos);
  CHECK(run("./rehearse topo check dgx-b200 cluster.node.gpus=64", folder)
            .out.find("dgx-b200 describes nodes of 8") != std::string::npos);
}

TEST_CASE("golden: hashed paths are several draws in whatif, and one in run, which says so") {
  const std::string folder = golden::scratch("hashed-paths");
  const std::string hashed =
      "fabric.kind=leaf_spine fabric.nodes_per_leaf=1 fabric.oversubscription=2 ";
  const std::string one = run("./rehearse run " + plan + hashed + "-q", folder).out;
  INFO(one);
  CHECK(one.find("one draw of the paths: the hash of fabric.hash_seed=0") != std::string::npos);
  const json rows =
      json::parse(text_of(hashed + "--vary fabric.hash_seed=0,1 --json", folder))["result"];
  CHECK(rows[0]["draws"] == 8);
  const std::string single = text_of(hashed + "--vary fabric.hash_seed=1 --seeds 1", folder);
  CHECK(reason_of(single, "fabric.hash_seed=1").find("one draw of the paths") != std::string::npos);
}
