// campaign.cpp — options of `campaign` in place of its file, and its shards.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/golden/program.h"

using golden::run;
using nlohmann::json;

namespace {

// A plan of 64 GPUs with a complete campaign file.
std::string with_file(const std::string& name, const std::string& more = "") {
  const std::string folder = golden::scratch(name);
  golden::write(folder + "/stated.textproto",
                "plan: \"llama-2-7b-64\"\nlength: \"9d\"\n" +
                    (more.empty() ? "mtbf: \"3h\"\n" : more) +
                    "checkpoint { interval: \"10min\" write: \"1min\" load: \"3min\" }\n"
                    "restart { detection: \"2min\" scheduling: \"4min\" start: \"5min\" }\n");
  return folder;
}

json result_of(const std::string& folder, const std::string& options) {
  const golden::Finished finished =
      run("./rehearse campaign ./stated.textproto --seeds 2 --json -q " + options, folder);
  INFO(options << "\n" << finished.err);
  REQUIRE(finished.code == 0);
  return json::parse(finished.out)["result"];
}

}  // namespace

TEST_CASE("golden: an option of a campaign stands instead of what its file says, and of no more") {
  const std::string folder = with_file("campaign-options");
  const auto seconds = [](const json& value) { return Approx(value.get<double>()); };
  const auto held = [&](const std::string& options, const std::map<std::string, double>& instead) {
    const json result = result_of(folder, options);
    const json& copy = result["checkpoints"][0];
    INFO(options << "\n" << result.dump(1));
    // A restart: detection, scheduling, start-up, and loading the checkpoint.
    std::map<std::string, double> all = {{"days", 9},    {"mtbf", 10800}, {"restart", 840},
                                         {"every", 600}, {"stands", 60},  {"behind", 0},
                                         {"load", 180}};
    for (const auto& [name, value] : instead) all[name] = value;
    CHECK(all["days"] == seconds(result["days"]));
    CHECK(all["mtbf"] == seconds(result["mtbf_s"]));
    CHECK(all["restart"] == seconds(result["restart_s"]));
    CHECK(all["every"] == seconds(copy["interval_s"]));
    CHECK(all["stands"] == seconds(copy["blocking_s"]));
    CHECK(all["behind"] == seconds(copy["background_s"]));
    CHECK(all["load"] == seconds(copy["load_s"]));
    return result;
  };
  const json plain = held("", {});
  CHECK(plain["gpus"] == 64);
  CHECK(plain["cost_mean"].is_null());
  // A bare number is in seconds, or in days for --days. 0 is allowed where it has a meaning.
  held("--detection 7", {{"restart", 7 + 540 + 180}});
  held("--detection 0", {{"restart", 540 + 180}});
  held("--days 3 --mtbf 5h", {{"days", 3}, {"mtbf", 18000}});
  held("--days 36h", {{"days", 1.5}});
  held("--checkpoint-interval 0.5h --checkpoint-write 90", {{"every", 1800}, {"stands", 90}});
  // --restart sets everything but the detection, including the loading.
  held("--restart 10min", {{"restart", 120 + 600}, {"load", 0}});
  held("--restart 10min --detection 1min", {{"restart", 60 + 600}, {"load", 0}});
  // Asynchronous saves take the given time in the background, or the time of the storage.
  held("--asynchronous --checkpoint-background 2min", {{"behind", 120}});
  const json priced = held("--price 2.5", {});
  // The cost covers the whole wall time: 64 GPUs at 2.5 an hour.
  CHECK(priced["cost_mean"].get<double>() ==
        Approx(2.5 * 64 * priced["wall_s"]["mean"].get<double>() / 3600));
  // Failures of a table replace the single rate, and a single rate replaces the table.
  const json table = result_of(folder, "--failures rsc-1");
  CHECK(table["causes_mean"][0]["name"] != "any failure");
  CHECK(table["mtbf_s"].get<double>() > 86400);
  CHECK(table["job_kinds"].empty());
  // Software failures of the table are counted per job: few GPUs have hardly any others.
  const json software = result_of(folder, "--failures llama-3");
  CHECK(software["job_kinds"] == json({"software bug", "NCCL watchdog timeout", "dependency"}));
  CHECK(software["job_share"].get<double>() > 0.9);
  CHECK(software["job_share"].get<double>() < 1);
  const std::string other = with_file("campaign-table", "failures: \"rsc-1\"\n");
  CHECK(result_of(other, "")["mtbf_s"] == table["mtbf_s"]);
  CHECK(result_of(other, "--mtbf 3h") == plain);
  CHECK(result_of(other, "--spares 1")["restart_s"] == table["restart_s"]);
}

TEST_CASE("golden: --gpu-mtbf is that of the job times its GPUs, and a rare failure is doubted") {
  const std::string folder = with_file("campaign-gpu-mtbf");
  CHECK(result_of(folder, "--gpu-mtbf 192h") == result_of(folder, "--mtbf 3h"));
  const auto text = [&](const std::string& options) {
    return run("./rehearse campaign ./stated.textproto --seeds 2 " + options, folder).out;
  };
  const std::string of_gpu = text("--gpu-mtbf 192h");
  INFO(of_gpu);
  CHECK(of_gpu.find("mean time between failures of the job 3.0 h: that of a GPU, 8.0 d, over 64 "
                    "GPUs\n") != std::string::npos);
  const std::string rare = text("--mtbf 50000h");
  INFO(rare);
  CHECK(rare.find("0.0043 interruptions are expected: --mtbf is that of the whole job; write "
                  "--gpu-mtbf") != std::string::npos);
  CHECK(text("--gpu-mtbf 50000h").find("are expected") == std::string::npos);
}

TEST_CASE("golden: an option of a campaign that says nothing possible is refused by its name") {
  const std::string folder = with_file("campaign-refused");
  const auto refused = [&](const std::string& options, int code, const std::string& said) {
    const golden::Finished finished = run("./rehearse campaign " + options, folder);
    INFO(options << "\n" << finished.err);
    CHECK(finished.code == code);
    CHECK(finished.out.empty());
    CHECK(finished.err.find(said) != std::string::npos);
  };
  const std::string file = "./stated.textproto --seeds 2 ";
  for (const char* name : {"days", "detection", "restart", "mtbf", "checkpoint-interval",
                           "checkpoint-write", "checkpoint-background"}) {
    const std::string option = std::string("--") + name;
    refused(file + option + " -1", 65, option + ": error: '-1' is negative");
    refused(file + option + " soon", 65, option + ": error: ");
  }
  for (const char* name : {"mtbf", "checkpoint-interval", "price"})
    refused(file + "--" + name + " 0", 65, std::string("--") + name + ": error: ");
  refused("--step-time 0 --gpus 64 --mtbf 3h", 65, "its time must be positive");
  refused(file + "--price 2x", 65, "'2x' is not a price");
  refused(file + "--failures rsc-1 --mtbf 3h", 64, "--failures and --mtbf: one of them");
  refused(file + "--failures rsc-1 --gpu-mtbf 3h", 64, "--failures and --gpu-mtbf: one of them");
  refused(file + "--mtbf 3h --gpu-mtbf 3h", 64,
          "--mtbf is of the whole job, --gpu-mtbf of one GPU");
  refused(file + "--gpu-mtbf 0", 65, "--gpu-mtbf: error: ");
  refused(file + "--step-time 10", 64, "--step-time and a plan: one of them");
  refused("tp=2 --step-time 10", 64, "--step-time and a plan: one of them");
  refused("--seeds 2", 64, "name a campaign or a plan, or give --step-time");
  refused(file + "--spares 1", 65, "spares replace nodes");
  refused(file + "--spares 1", 65, "Add --repair 1d");
  refused(file + "--vary spares=0,1", 65, "spares changes nothing: no failure takes a node");
  refused(file + "--vary stragglers=now,save", 65, "stragglers changes nothing");
  refused("--step-time 10 --gpus 64 --mtbf 3h --storage 1TB/s", 65, "Write --checkpoint-write");
  refused(file + "--trace x.csv", 65, "the kinds of a trace are those of a table");
}

TEST_CASE("golden: a campaign lists the times that are not stated") {
  const std::string folder = golden::scratch("campaign-assumed");
  const std::string stated =
      "./rehearse campaign --step-time 22.62 --gpus 1024 --mtbf 3h --days 7 ";
  const std::string text = run(stated + "--seeds 2", folder).out;
  INFO(text);
  CHECK(text.find("assumed: checkpoint 0 s, restart 0 s, detection 0 s; set --checkpoint-write, "
                  "--restart, --detection\n") != std::string::npos);
  const std::string all = "--checkpoint-write 1min --restart 10min --detection 1min ";
  const std::string known = run(stated + all + "--seeds 2", folder).out;
  INFO(known);
  CHECK(known.find("assumed") == std::string::npos);
  CHECK(known.find("in --restart") != std::string::npos);
  // One goodput: the share of the kept training.
  const json result = json::parse(
      run(stated + all + "--repair 1d --spares 4 --seeds 5 --json", folder).out)["result"];
  CHECK(result["goodput"]["mean"].get<double>() ==
        Approx(result["accounts_share_mean"]["training_that_was_kept"].get<double>()));
  CHECK(result["gpus"] == 1056);
  const json rows = json::parse(
      run(stated + all + "--repair 1d --vary spares=0,1,4 --seeds 5 --json", folder).out)["result"];
  REQUIRE(rows.size() == 3);
  const auto kept = [&](std::size_t i) {
    return rows[i]["result"]["goodput"]["mean"].get<double>();
  };
  CHECK(kept(0) < kept(1));
  CHECK(kept(1) < kept(2));
}

TEST_CASE("golden: shards of a campaign's seeds, merged, are the campaign") {
  const std::string folder = golden::scratch("campaign-shards");
  const std::string campaign =
      "./rehearse campaign --step-time 10 --gpus 64 --mtbf 3h --days 5 "
      "--seed 3 --seeds 7 ";
  const golden::Finished whole = run(campaign, folder);
  REQUIRE(whole.code == 0);
  for (const char* part : {"1", "2", "3"})
    REQUIRE(run(campaign + "--shard " + part + "/3 -o part" + part, folder).code == 0);
  const golden::Finished merged =
      run(campaign + "--merge part1 --merge part2 --merge part3", folder);
  INFO(merged.err);
  CHECK(merged.code == 0);
  CHECK(merged.out == whole.out);
  for (const char* part : {"0/3", "4/3", "1/", "/3", "1", "1/3x", "x/3", "1:3", ""}) {
    const golden::Finished bad = run(campaign + "-o other --shard '" + part + "'", folder);
    INFO(part << "\n" << bad.err);
    CHECK(bad.code == 64);
    CHECK(bad.err.find("--shard takes K/N with K from 1 to N") != std::string::npos);
  }
  const golden::Finished nowhere = run(campaign + "--shard 1/1", folder);
  CHECK(nowhere.code == 64);
  CHECK(nowhere.err.find("--shard needs -o FILE") != std::string::npos);
  CHECK(run(campaign + "--shard 1/1 -o /dev/full", folder).code == 74);

  // Existing files are not overwritten.
  const auto refused = [&](const std::string& options, const std::string& said) {
    const golden::Finished finished = run(campaign + options, folder);
    INFO(options << "\n" << finished.err);
    CHECK(finished.code == 64);
    CHECK(finished.out.empty());
    CHECK(finished.err.find(said) != std::string::npos);
  };
  const std::string part = golden::text_of(folder + "/part1");
  refused("--shard 2/3 -o part1", "part1 is there already; name another file, or --overwrite");
  CHECK(golden::text_of(folder + "/part1") == part);
  const golden::Finished again = run(campaign + "--shard 1/3 -o part1 --overwrite --json", folder);
  CHECK(again.code == 0);
  CHECK(json::parse(again.out)["result"]["written"] == "part1");
  CHECK(golden::text_of(folder + "/part1") == part);
  // Options without effect are refused.
  refused("--merge part1 --merge part2 --merge part3 -o all", "--output is the file of --shard");
  refused("-o all", "--output is the file of --shard");
  refused("--shard 1/3 --merge part1 -o all", "--merge is of no use to --shard");
  refused("--shard 1/3 --timeline t -o all", "--timeline is of no use to --shard");
  refused("--vary interval=1h --timeline t", "--timeline is of no use to --vary");
  refused("--vary interval=1h --merge part1", "--merge is of no use to --vary");
  CHECK_FALSE(std::filesystem::exists(folder + "/all"));

  // A changed number is reported with its line.
  std::string changed = part;
  changed.insert(changed.find("\"outcome\":[") + 11, "1");
  golden::write(folder + "/part1", changed);
  const golden::Finished told = run(campaign + "--merge part1 --merge part2 --merge part3", folder);
  CHECK(told.code == 65);
  CHECK(told.err ==
        "part1:2: error: is not as `campaign --shard` wrote it; make this shard anew\n");
  CHECK(run(campaign + "--timeline /dev/full", folder).code == 74);
}
