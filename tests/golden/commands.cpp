// commands.cpp — the command line: help, usage, exit codes, output that cannot be written.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/golden/program.h"

using golden::run;

TEST_CASE("golden: an unknown command names the nearest and exits 64") {
  const std::string folder = golden::scratch("usage");
  const golden::Finished finished = run("./rehearse swep x", folder);
  CHECK(finished.code == 64);
  CHECK(finished.out.empty());
  CHECK(finished.err.find("there is no command 'swep'; did you mean 'sweep'?") !=
        std::string::npos);
}

TEST_CASE("golden: help is a word as well") {
  const std::string folder = golden::scratch("help");
  for (const auto& [word, option] : {std::pair{"help", "--help"}, {"help run", "run --help"}}) {
    const golden::Finished said = run(std::string("./rehearse ") + word, folder);
    CHECK(said.code == 0);
    CHECK_FALSE(said.out.empty());
    CHECK(said.out == run(std::string("./rehearse ") + option, folder).out);
  }
  CHECK(run("./rehearse help swep", folder).err.find("did you mean 'sweep'?") != std::string::npos);
}

TEST_CASE("golden: options are never guessed from abbreviations") {
  const std::string folder = golden::scratch("options");
  const golden::Finished finished = run("./rehearse sweep x --resum", folder);
  CHECK(finished.code == 64);
  CHECK(finished.err.find("did you mean '--resume'?") != std::string::npos);
}

TEST_CASE("golden: a number outside its range is refused with the range") {
  const std::string folder = golden::scratch("numbers");
  for (const char* number : {"0", "-1", "x", "99999999999999999999", "1.5", ""}) {
    INFO(number);
    const golden::Finished finished = run(
        std::string("./rehearse sweep workloads/paper-454.textproto -j '") + number + "'", folder);
    CHECK(finished.code == 64);
    CHECK(finished.err.find("--jobs takes a whole number from 1 to ") != std::string::npos);
    // Also where it counts only together with --seeds.
    if (std::string_view(number).empty()) continue;
    const golden::Finished alone =
        run(std::string("./rehearse run llama-2-7b-64 --jobs='") + number + "'", folder);
    CHECK(alone.code == 64);
    CHECK(alone.err.find("--jobs takes a whole number from 1 to ") != std::string::npos);
  }
}

TEST_CASE("golden: an option that is another verb's is refused") {
  const std::string folder = golden::scratch("verbs");
  for (const auto& [command, option] : {std::pair{"topo check dgx-h100", "groups"},
                                        {"topo check dgx-h100", "output"},
                                        {"topo time dgx-h100 --max 1MiB", "moves"},
                                        {"topo export dgx-h100", "claim"},
                                        {"topo place llama-2-7b-64", "max"},
                                        {"memory estimate llama-2-7b-64", "rules"}}) {
    const golden::Finished finished =
        run(fmt::format("./rehearse {} --{}=8", command, option), folder);
    INFO(command << " --" << option);
    CHECK(finished.code == 64);
    CHECK(finished.err.find(fmt::format("takes no --{}", option)) != std::string::npos);
  }
}

TEST_CASE("golden: an option that would do nothing is refused") {
  const std::string folder = golden::scratch("in-vain");
  const std::string program = "./rehearse run llama-2-7b-64 ";
  const golden::Finished columns = run(program + "--timelines", folder);
  CHECK(columns.code == 64);
  CHECK(columns.out.empty());
  CHECK(columns.err.starts_with("rehearse: --timelines: columns of numbers are for --json\n"));
  for (const char* option :
       {"trace a.json", "memory-plot a.svg", "memory-snapshot a.pickle", "report a.html", "kernels",
        "fixes", "all-ranks", "timelines --json"}) {
    const golden::Finished finished = run(fmt::format("{}--seeds 2 --{}", program, option), folder);
    INFO(option << "\n" << finished.err);
    CHECK(finished.code == 64);
    CHECK(finished.err.find(" is of one run, --seeds are many") != std::string::npos);
  }
  for (const char* memory : {"none", "estimate"}) {
    const golden::Finished fixes =
        run(fmt::format("{}--fixes --memory {}", program, memory), folder);
    CHECK(fixes.code == 64);
    CHECK(fixes.err.find(fmt::format("--memory {} does not replay whether it fits", memory)) !=
          std::string::npos);
  }
  const golden::Finished page = run("./rehearse report results --cluster dgx-h100", folder);
  CHECK(page.code == 64);
  CHECK(page.err.find("'results' takes no --cluster") != std::string::npos);
  const std::string stated = "./rehearse campaign --step-time 10 --seeds 2 --gpus ";
  for (const auto& [arguments, said] :
       {std::pair{"64 --failures everything --answer replan", "answer replan: a stated step says"},
        {"64 --failures everything --gpus-per-node 7",
         "64 GPUs are not whole nodes of 7; write 63"},
        {"64 --mtbf 3h --answer shrink", "a failure of --mtbf takes no node"}}) {
    const golden::Finished finished = run(stated + arguments, folder);
    INFO(arguments << "\n" << finished.err);
    CHECK(finished.code == 65);
    CHECK(finished.out.empty());
    CHECK(finished.err.find(said) != std::string::npos);
  }
  for (const char* day : {"2024-02-31", "2023-02-29", "2024-13-01", "2024-1-011", "2024-02-1x"}) {
    const golden::Finished finished =
        run(fmt::format("./rehearse calibrate x.csv --date {}", day), folder);
    INFO(day << "\n" << finished.err);
    CHECK(finished.code == 64);
    CHECK(finished.err.find("--date takes a day as YYYY-MM-DD") != std::string::npos);
  }
  CHECK(run("./rehearse calibrate x.csv --date 2024-02-29", folder).code == 66);
}

TEST_CASE("golden: what a command lacks is named") {
  const std::string folder = golden::scratch("lacking");
  for (const auto& [command, words] :
       {std::pair{"schedule --stages 4 --microbatches 8", "`rehearse schedule` needs NAME"},
        {"compare", "`rehearse compare` needs LOG PLAN | PLAN PLAN"},
        {"merge", "`rehearse merge` needs FOLDER ..."},
        {"plan",
         "name a model and a cluster: rehearse plan llama-3.1-70b dgx-h100 --gpus 512 --batch "
         "512 --sequence 8192; or a plan, --megatron-args FILE, or a search file (rehearse init "
         "search)"},
        {"topo", "`rehearse topo` needs check|time|place|import|export"},
        {"topo chek",
         "topo: 'chek' is none of check, time, place, import, export; "
         "did you mean 'check'?"},
        {"topo check", "topo check: name a cluster"},
        {"topo place", "topo place: name a plan"},
        {"topo import", "topo import: name a file"},
        {"memory replya",
         "`rehearse memory` can estimate and replay, not 'replya'; did you mean "
         "'replay'?"},
        {"memory estimate", "memory estimate: name a plan"},
        {"memory replay", "memory replay: name a trace or a snapshot"}}) {
    const golden::Finished finished = run(fmt::format("./rehearse {}", command), folder);
    INFO(command);
    CHECK(finished.code == 64);
    CHECK(finished.err.starts_with(fmt::format("rehearse: {}\n", words)));
  }
}

TEST_CASE("golden: a file that is nothing of the kind is one problem") {
  const std::string folder = golden::scratch("nothing-of-the-kind");
  golden::write(folder + "/empty", "");
  golden::write(folder + "/cells.csv", "a,b\n1,2\n");
  const std::string plan = "workloads/llama-2-7b-64.textproto";
  for (const auto& [command, problem] :
       {std::pair{"memory replay " + plan, plan + ":1:1: error: line 1 must be \"# capacity="},
        {"memory replay empty", std::string("empty:1:1: error: the trace is empty; ")},
        {"compare empty " + plan, std::string("empty: error: the file is empty")},
        {"calibrate empty", std::string("empty: error: the file is empty")},
        {"compare cells.csv " + plan,
         std::string("cells.csv: error: holds no measurements that are known; there are ")},
        {std::string("campaign --step-time 10 --gpus 8 --mtbf 3h --seeds 2 --merge empty"),
         std::string("empty: error: seed 1 is in none of the files")}}) {
    const golden::Finished finished = run("./rehearse " + command, folder);
    INFO(command << "\n" << finished.err);
    CHECK(finished.code == 65);
    CHECK(finished.err.starts_with(problem));
    CHECK(std::ranges::count(finished.err, '\n') == 1);
  }
}

TEST_CASE("golden: a byte-order mark in front of a text is no part of it") {
  const std::string folder = golden::scratch("marked");
  for (const char* file : {"workloads/llama-2-7b-64.textproto", "topologies/dgx-h100.textproto",
                           "models/llama-2-7b.json", "calibration/measured/paper_points.csv",
                           "calibration/measured/nccl.csv"}) {
    const std::string name = std::filesystem::path(file).filename().string();
    golden::write(folder + "/" + name, "\xEF\xBB\xBF" + golden::text_of(folder + "/" + file));
    const golden::Finished marked = run("./rehearse check " + name, folder);
    INFO(marked.err);
    CHECK(marked.code == 0);
    CHECK(marked.out.starts_with(name + ": "));
  }
}

TEST_CASE("golden: help and version go to stdout and exit 0") {
  const std::string folder = golden::scratch("help");
  CHECK(run("./rehearse --help", folder).out.find("usage: rehearse COMMAND") == 0);
  CHECK(run("./rehearse --version", folder).out.find("rehearse ") == 0);
  for (const char* command : {"run", "sweep", "memory", "calibrate", "validate", "list", "check"}) {
    const golden::Finished finished = run(std::string("./rehearse ") + command + " --help", folder);
    INFO(command);
    CHECK(finished.code == 0);
    CHECK(finished.out.find(std::string("rehearse ") + command) == 0);
  }
  CHECK(run("./rehearse", folder).code == 64);
}

TEST_CASE("golden: validate takes the rows that a condition names") {
  const std::string folder = golden::scratch("where");
  const std::string command = "./rehearse validate calibration/measured/training_runs.csv -j 1 ";
  const golden::Finished some =
      run(command + "--where source_group=narayanan2021 --where model!=gpt-1t", folder);
  CHECK(some.code == 0);
  CHECK(some.out.find("5 rows: ") == 0);
  CHECK(run(command + "--where source_group=nobody", folder).err.find("no row is left") !=
        std::string::npos);
  const golden::Finished misspelt = run(command + "--where source_grp=x", folder);
  CHECK(misspelt.code == 64);
  CHECK(misspelt.err.find("did you mean 'source_group'?") != std::string::npos);
  CHECK(run(command + "--where model", folder).code == 64);
  const golden::Finished timed = run(
      "./rehearse validate calibration/measured/nccl.csv --where nodes=1 --where n_gpus=4", folder);
  CHECK(timed.code == 0);
  CHECK(timed.out.find("VIA-Research/vTrain    A100-SXM") != std::string::npos);
  CHECK(timed.out.find("all_reduce x5") == std::string::npos);
}

TEST_CASE("golden: validate says errors by the columns that are named") {
  const std::string folder = golden::scratch("by");
  const std::string table = "./rehearse validate calibration/measured/training_runs.csv -j 1 ";
  const std::string few = table + "--where experts!= --where source_group=simumax-b200 --wide ";
  const golden::Finished models = run(few + "--by model --by experts", folder);
  CHECK(models.code == 0);
  CHECK(models.out.find("6 rows: ") == 0);
  for (const char* group : {"  deepseekv2-4layers, 160 ", "  deepseekv3-4layers, 256 "})
    CHECK(models.out.find(group) != std::string::npos);
  CHECK(models.out.find("  B200-SXM") == std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(run(few + "--by model --json", folder).out);
  CHECK(json.at("result").at("groups").size() == 2);
  CHECK(json.at("result").at("groups").contains("deepseekv2-4layers"));
  // No experts: an empty cell.
  CHECK(run(table + "--where experts= --where source_group=simumax-b200", folder).out.find("24 ") ==
        0);
  const golden::Finished misspelt = run(few + "--by modle", folder);
  CHECK(misspelt.code == 64);
  CHECK(misspelt.err.find("did you mean 'model'?") != std::string::npos);
  CHECK(run(few + "--by model --shard 1/2", folder).code == 64);
  CHECK(run(few + "--where !=x", folder).code == 64);
  CHECK(run("./rehearse validate calibration/measured/nccl.csv --by nodes", folder).code == 64);
}

TEST_CASE("golden: calibrate's document has every parameter, with how many measurements feel it") {
  const std::string folder = golden::scratch("calibrated");
  const std::string command =
      "./rehearse calibrate calibration/measured/nccl.csv --profile a100-80 --date 2025-06-01 "
      "-o mine.textproto ";
  const golden::Finished finished = run(command + "--json", folder);
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  const auto result = nlohmann::json::parse(finished.out).at("result");
  CHECK(result["base"] == "a100-80");
  REQUIRE(result["sources"].size() == 1);
  CHECK(result["sources"][0]["format"] == "nccl.csv");
  CHECK(result["sources"][0]["collectives"] == 299);
  int fitted = 0;
  for (const auto& parameter : result["parameters"]) {
    fitted += parameter["fitted"].get<bool>() ? 1 : 0;
    // A parameter is fitted with at least five measurements.
    if (parameter["samples"] < 5) CHECK(parameter["fitted"] == false);
    if (!parameter["fitted"]) CHECK(parameter["value"] == parameter["base"]);
  }
  const std::string text = run(command, folder).out;
  CHECK(text.starts_with(std::to_string(fitted) + " parameters fitted to "));
  CHECK(run("./rehearse check mine.textproto", folder).code == 0);
}

TEST_CASE("golden: topo place writes the nodes in their new order") {
  const std::string folder = golden::scratch("place");
  golden::write(folder + "/rates.csv",
                "GB/s,a,b,c,d\na,,300,20,300\nb,300,,300,20\nc,20,300,,300\nd,300,20,300,\n");
  const std::string plan =
      "model=llama-3.1-8b cluster=dgx-h100 sequence=2048 tp=8 pp=4 gpus=32 global_batch=16 "
      "node_bandwidth=rates.csv host=[0,2,3,1]";
  const golden::Finished found =
      run("./rehearse topo place " + plan + " --moves 500 -o hosts", folder);
  CHECK(found.code == 0);
  CHECK(found.out.find("nodes before  a c d b") != std::string::npos);
  CHECK(found.out.find("host=[") != std::string::npos);
  const std::string hosts = golden::text_of(folder + "/hosts");
  CHECK(hosts.size() == 8);
  for (const char* slow : {"a\nc", "c\na", "b\nd", "d\nb"})
    CHECK(hosts.find(slow) == std::string::npos);
  CHECK(run("./rehearse topo place " + plan + " --moves 500", folder).out == found.out);
  CHECK(run("./rehearse topo place dgx-h100", folder).code == 66);
  // Both orders are replayed. The text and the JSON agree, and both have the gain.
  const auto answer = nlohmann::json::parse(
      run("./rehearse topo place " + plan + " --moves 500 --json", folder).out)["result"];
  const double before = answer["step_time_s_before"], after = answer["step_time_s_after"];
  CHECK(after < before);
  CHECK(
      found.out.find(fmt::format("replayed before  step {:.3f} s\nreplayed after   step {:.3f} s, "
                                 "{:+.2f} %\n",
                                 before, after, 100 * (after / before - 1))) != std::string::npos);
  // A plan that does not fit has neither step time nor gain.
  const golden::Finished full =
      run("./rehearse topo place " + plan + " tp=1 pp=32 micro_batch=16 sequence=8192", folder);
  INFO(full.out);
  CHECK(full.out.find("replayed before  out of memory\nreplayed after   out of memory\n") !=
        std::string::npos);
}

TEST_CASE("golden: topo time takes all groups at once, or packets one by one") {
  const std::string folder = golden::scratch("time");
  const golden::Finished all =
      run("./rehearse topo time dgx-h100 --groups 128x8 --min 1GiB --max 1GiB", folder);
  CHECK(all.code == 0);
  CHECK(all.out.find("all_reduce of 128 GPUs on dgx-h100, 128 groups at once") == 0);
  const std::string two = "./rehearse topo time dgx-h100 nodes=2 --max 1MiB --groups ";
  CHECK(run(two + "16", folder).code == 0);
  CHECK(run(two + "8x2", folder).code == 0);
  CHECK(run(two + "32", folder).code == 64);
  for (const char* wrong : {"0", "1", "3", "8x", "x8", "16384x2"})
    CHECK(run(std::string("./rehearse topo time dgx-h100 --groups ") + wrong, folder).code == 64);
  const golden::Finished packets = run(
      "./rehearse topo time dgx-h100 --network ns-3 --ranks 0,8 --collective sendrecv --max 64KiB",
      folder);
  CHECK(packets.code == 0);
  CHECK(packets.out.find("sendrecv of 2 GPUs on dgx-h100, packet by packet (ns-3)") == 0);
  const golden::Finished many =
      run("./rehearse topo time dgx-h100 --network ns-3 --max 1GiB", folder);
  CHECK(many.code != 0);
  CHECK(many.err.find("ns-3 follows each packet") != std::string::npos);
  CHECK(run("./rehearse whatif llama-2-7b-64 --vary pp=2 --network ns-3", folder).code == 64);
}

TEST_CASE("golden: a result that cannot be written exits 74") {
  const std::string folder = golden::scratch("stdout");
  const golden::Finished finished = run("./rehearse list > /dev/full", folder);
  CHECK(finished.code == 74);
  CHECK(finished.err == "rehearse: stdout: No space left on device\n");
}

TEST_CASE("golden: an input that is not there exits 66 and one that is wrong exits 65") {
  const std::string folder = golden::scratch("inputs");
  CHECK(run("./rehearse run no-such.textproto", folder).code == 66);
  CHECK(run("./rehearse validate no-such.csv", folder).code == 66);
  CHECK(run("./rehearse memory replay no-such.trace", folder).code == 66);
  CHECK(run("./rehearse calibrate no-such.csv --profile a100-80", folder).code == 66);
  golden::write(folder + "/bad.csv", "hello\n");
  CHECK(run("./rehearse calibrate bad.csv --profile a100-80", folder).code == 65);
  golden::write(folder + "/bad.trace", "# capacity=x conf=-\n");
  CHECK(run("./rehearse memory replay bad.trace", folder).code == 65);
  golden::write(folder + "/bad.textproto", "tpp: 2\nmodel \n");
  const golden::Finished finished = run("./rehearse check bad.textproto", folder);
  CHECK(finished.code == 65);
  CHECK(finished.err.find("bad.textproto:1:1: error: ") != std::string::npos);
}

TEST_CASE("golden: of what no plan can be, exactly what is to blame is named") {
  const std::string folder = golden::scratch("blame");
  const auto said = [&](const std::string& settings) {
    const golden::Finished finished = run(
        "./rehearse plan -q llama-3.1-8b dgx-h100 --gpus 16 --batch 64 --sequence 8192 " + settings,
        folder);
    CHECK(finished.code == 65);
    return finished.err.substr(0, finished.err.find('\n'));
  };
  CHECK(said("tp=16 cp=2") == "rehearse: no plan is possible with tp=16");
  CHECK(said("tp=8 pp=4 recompute=none") ==
        "rehearse: no plan is possible with tp=8 and pp=4 together; leave one of them out");
  CHECK(said("tp=4 cp=2 dp=4") ==
        "rehearse: no plan is possible with tp=4, cp=2 and dp=4 together; leave one of them out");
}

TEST_CASE("golden: what varies must be a setting") {
  const std::string folder = golden::scratch("vary");
  const golden::Finished finished =
      run("./rehearse whatif llama-2-7b-64 --vary tpp=1,2 --vary pp=2 --vary fsdp.nope=1", folder);
  CHECK(finished.code == 65);
  CHECK(finished.out.empty());
  CHECK(finished.err ==
        "--vary tpp=1,2: error: a plan has no setting 'tpp'; did you mean 'tp'?\n"
        "--vary fsdp.nope=1: error: a plan has no setting 'nope'\n");
  const golden::Finished cluster =
      run("./rehearse whatif llama-2-7b-64 --vary node.nicz=1 --vary fabric.kind=fat_tree", folder);
  CHECK(cluster.code == 65);
  CHECK(cluster.err ==
        "--vary node.nicz=1: error: a cluster has no setting 'node.nicz'; did you mean 'nics'?\n");
  // A value that no plan allows is bad input. A value that this plan does not allow is a row.
  golden::write(folder + "/v.textproto",
                "plan: \"llama-2-7b-64\"\nvariant { name: \"a\" set: \"pp=4,4\" }\n");
  const golden::Finished values = run(
      "./rehearse whatif --variants v.textproto --vary tp=1,abc --vary cluster=dgx-h10,dgx-h100 "
      "--vary model=nosuch --vary schedule=1f2b --vary node.gpus=none --vary framework=jaxx "
      "--vary codec.tensor=zip --vary context=rings",
      folder);
  CHECK(values.code == 65);
  CHECK(values.out.empty());
  INFO(values.err);
  for (const char* said :
       {"v.textproto, pp=4,4: error: 'pp' is a whole number, got '4,4'",
        "--vary tp=abc: error: 'tp' is a whole number, got 'abc'",
        "--vary cluster=dgx-h10: error: there is no cluster 'dgx-h10'; did you mean",
        "--vary model=nosuch: error: there is no model 'nosuch'",
        "--vary schedule=1f2b: error: no schedule '1f2b'",
        "--vary node.gpus=none: error: 'gpus' is a whole number, got 'none'",
        "--vary framework=jaxx: error: there is no framework 'jaxx'",
        "--vary codec.tensor=zip: error: there is no codec 'zip'", "--vary context=rings: error: "})
    CHECK(values.err.find(said) != std::string::npos);
  CHECK(run("./rehearse whatif llama-2-7b-64 --vary cluster=nosuch", folder).code == 66);
  const golden::Finished row = run("./rehearse whatif llama-2-7b-64 --vary tp=3", folder);
  CHECK(row.code == 0);
  CHECK(row.out.find("impossible: ") != std::string::npos);
  const golden::Finished campaign =
      run("./rehearse campaign --step-time 10 --gpus 8 --mtbf 3h --vary spare=1,2", folder);
  CHECK(campaign.code == 65);
  CHECK(campaign.out.empty());
  CHECK(campaign.err.starts_with(
      "command line, --vary: error: nothing that varies is called 'spare'; did you mean "
      "'spares'?; one of answer, "));
  // A value that no campaign allows is bad input. A value that this campaign does not allow is a
  // row.
  for (const std::string value :
       {"mtbf=3h,abc", "spares=x", "rate=0", "answer=no", "interval=-1"}) {
    const golden::Finished bad =
        run("./rehearse campaign --step-time 10 --gpus 8 --mtbf 3h --vary " + value, folder);
    INFO(value << "\n" << bad.err);
    CHECK(bad.code == 65);
    CHECK(bad.out.empty());
    CHECK(bad.err.starts_with("command line, --vary: error: "));
  }
  const golden::Finished rows =
      run("./rehearse campaign --step-time 10 --gpus 64 --failures everything --seeds 2 --vary "
          "mtbf=3h,4h",
          folder);
  CHECK(rows.out.find("impossible") != std::string::npos);
}

TEST_CASE("golden: a condition, or another GPU, of a node that the job does not use is said") {
  const std::string folder = golden::scratch("condition");
  const golden::Finished finished =
      run("./rehearse run llama-2-7b-64 'condition={node: 99 speed: 0.5}' "
          "'condition={node: 7 speed: 0.9}' 'condition={leaf: 17 bandwidth: 0.5}' "
          "'condition={leaf: 2 bandwidth: 0.9}'",
          folder);
  CHECK(finished.code == 0);
  CHECK(finished.err.find("note: the condition of node 99 touches nothing: the plan's 64 GPUs are "
                          "on nodes 0 to 7\n") != std::string::npos);
  CHECK(finished.err.find("node 7 ") == std::string::npos);
  CHECK(finished.err.find("the condition of leaf 17 touches nothing") != std::string::npos);
  CHECK(run("./rehearse run llama-2-7b-64 'condition={node: 8 speed: 0.5}'", folder)
            .err.find("note: the condition of node 8 touches nothing") != std::string::npos);
  CHECK(finished.err.find("leaf 2 ") == std::string::npos);
  const golden::Finished others =
      run("./rehearse run llama-2-7b-64 'other_gpu={first_node: 7 nodes: 2 cluster: \"dgx-a100\"}' "
          "'other_gpu={first_node: 50 nodes: 2 cluster: \"dgx-a100\"}'",
          folder);
  CHECK(others.code == 0);
  CHECK(
      others.err.find("note: the other GPUs from node 50 on touch nothing: the plan's 64 GPUs are "
                      "on nodes 0 to 7\n") != std::string::npos);
  CHECK(others.err.find("node 7 ") == std::string::npos);
  CHECK(run("./rehearse run llama-2-7b-64 "
            "'other_gpu={first_node: 8 nodes: 2 cluster: \"dgx-a100\"}'",
            folder)
            .err.find("note: the other GPUs from node 8 on touch nothing") != std::string::npos);
}

TEST_CASE("golden: explain looks for changes where a plan does not fit, and is told not to") {
  const std::string folder = golden::scratch("fixes");
  const auto fixes = [&](const std::string& arguments) {
    return run("./rehearse explain --json " + arguments, folder)
               .out.find("unlimited_step_time_ps") != std::string::npos;
  };
  CHECK_FALSE(fixes("llama-2-7b-64"));
  CHECK(fixes("llama-3.1-8b-abci micro_batch=4"));
  CHECK_FALSE(fixes("llama-3.1-8b-abci micro_batch=4 --no-fixes"));
}
