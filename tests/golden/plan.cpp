// plan.cpp — `rehearse plan`: its JSON, its exit codes, and that `run` accepts its settings.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/golden/program.h"

using golden::run;
using golden::text_of;

namespace {

const std::string question = "./rehearse plan -q llama-3.1-8b dgx-h100 --gpus 8 --batch 16 ";

// `run` accepts the settings of a plan unchanged, and its step time equals the plan's.
void check_runs(const nlohmann::json& plan, const std::string& folder) {
  const golden::Finished again =
      run("./rehearse run --json -q " + plan["settings"].get<std::string>(), folder);
  REQUIRE(again.code == 0);
  CHECK(nlohmann::json::parse(again.out)["result"]["step_time_ps"].get<double>() * 1e-12 ==
        Approx(plan["step_time_s"].get<double>()).epsilon(1e-12));
}

}  // namespace

TEST_CASE("golden: the settings of a plan run as they are, and take what plan says") {
  const std::string folder = golden::scratch("plan");
  const golden::Finished made = run(
      question + "--sequence 4096 zero=1 schedule=1f1b --best 3 --json --report plan.html", folder);
  INFO(made.err);
  REQUIRE(made.code == 0);
  const auto result = nlohmann::json::parse(made.out)["result"];
  REQUIRE(result["plans"].size() == 3);
  const auto& space = result["space"];
  CHECK(space["plans"] == space["impossible"].get<int>() + space["cut_by_time"].get<int>() +
                              space["cut_by_memory"].get<int>() + space["replayed"].get<int>());
  double before = 0;
  for (const auto& plan : result["plans"]) {
    CHECK(plan["step_time_s"] >= before);
    before = plan["step_time_s"];
    CHECK(plan["tokens_s_gpu"].get<double>() ==
          Approx(16 * 4096 / plan["step_time_s"].get<double>() / 8));
    CHECK(plan["peak_reserved_gib"] <= plan["capacity_gib"]);
    const std::string settings = plan["settings"];
    CHECK(settings.find("model=llama-3.1-8b cluster=dgx-h100") == 0);
    check_runs(plan, folder);
  }
  CHECK(golden::text_of(folder + "/plan.html").find("throughput against memory") !=
        std::string::npos);
}

TEST_CASE("golden: plans whose layers are balanced run as they are") {
  const std::string folder = golden::scratch("plan-refined");
  const golden::Finished made = run(
      question + "--sequence 4096 zero=1 schedule=1f1b pp=4 micro_batch=1 --best 1 --json", folder);
  INFO(made.err);
  REQUIRE(made.code == 0);
  const auto result = nlohmann::json::parse(made.out)["result"];
  REQUIRE(result["refined"].size() == 1);
  const auto& refined = result["refined"][0];
  CHECK(refined["plan"] == 1);
  CHECK(refined["step_time_s"] < result["plans"][0]["step_time_s"]);
  check_runs(refined, folder);
  // The launch file is of the faster plan, with its layers.
  const auto& launch = result["launch"][0];
  CHECK(launch["program"] == "Megatron-LM");
  CHECK(launch["settings"] == refined["settings"]);
  const std::string text = launch["text"];
  CHECK(text.find("--pipeline-model-parallel-layout") != std::string::npos);
  golden::write(folder + "/launch.sh", text);
  const golden::Finished back =
      run("./rehearse run --json -q --megatron-args launch.sh model=llama-3.1-8b cluster=dgx-h100",
          folder);
  INFO(back.err);
  CHECK(nlohmann::json::parse(back.out)["result"]["step_time_ps"].get<double>() * 1e-12 ==
        Approx(refined["step_time_s"].get<double>()).epsilon(1e-12));
}

TEST_CASE("golden: plan takes a model with fields changed, and says so in what it answers") {
  const std::string folder = golden::scratch("plan-architecture");
  const golden::Finished made = run(question +
                                        "--sequence 4096 zero=1 schedule=1f1b tp=1 cp=1 "
                                        "pp=4,8 micro_batch=1 architecture.layers=12 "
                                        "--best 1 --json",
                                    folder);
  INFO(made.err);
  REQUIRE(made.code == 0);
  const auto result = nlohmann::json::parse(made.out)["result"];
  const auto& best = result["plans"][0];
  CHECK(best["settings"].get<std::string>().find(" architecture.layers=12 ") != std::string::npos);
  check_runs(best, folder);
  for (const auto& launch : result["launch"]) {
    if (launch["program"] == "Megatron-LM")
      CHECK(launch["text"].get<std::string>().find("--num-layers 12 ") != std::string::npos);
    if (launch["program"] == "torchtitan") CHECK(launch["text"] == "");
  }
  // 12 layers do not divide into 8 stages, but into 4: both are neighbours.
  CHECK(std::ranges::any_of(result["neighbours"], [](const auto& one) {
    return one["change"].template get<std::string>().starts_with("pp=");
  }));
  const golden::Finished unknown = run(question + "--sequence 4096 architecture.layrs=12", folder);
  CHECK(unknown.code == 65);
  CHECK(unknown.err.find("did you mean 'layers'") != std::string::npos);
}

TEST_CASE("golden: plan of several clusters has the best plan of each alone") {
  const std::string folder = golden::scratch("plan-clusters");
  const std::string job =
      " --gpus 8 --batch 16 --sequence 4096 zero=1 cp=1 schedule=1f1b recompute=none -q ";
  const std::string both = "./rehearse plan llama-3.1-8b dgx-h100,dgx-a100" + job;
  const golden::Finished made =
      run(both + "--price dgx-h100=3,dgx-a100=1.5 --tokens 1e12 --json --report page.html", folder);
  INFO(made.err);
  REQUIRE(made.code == 0);
  const auto clusters = nlohmann::json::parse(made.out)["result"]["clusters"];
  REQUIRE(clusters.size() == 2);
  for (const auto& [number, price] : {std::pair(0, "3"), {1, "1.5"}}) {
    const auto& one = clusters[static_cast<std::size_t>(number)];
    const golden::Finished alone =
        run("./rehearse plan llama-3.1-8b " + one["cluster"].get<std::string>() + job +
                "--tokens 1e12 --json --price " + price,
            folder);
    const auto best = nlohmann::json::parse(alone.out)["result"]["plans"][0];
    for (const char* key :
         {"settings", "step_time_s", "tokens_s_gpu", "cost_per_million_tokens", "cost", "days"})
      CHECK(one[key] == best[key]);
    CHECK(one["proven"] == true);
    CHECK(one["problem"] == "");
  }
  const std::string text = run(both, folder).out;
  CHECK(text.find("shortest step: dgx-h100") == 0);
  CHECK(text.find("cost") == std::string::npos);
  const std::string csv = run(both + "--csv -", folder).out;
  CHECK(csv.find("cluster,problem,gpus,step_time_s") == 0);
  CHECK(std::ranges::count(csv, '\n') == 3);
  // A cluster without a plan keeps its row.
  const golden::Finished small =
      run("./rehearse plan llama-3.1-8b dgx-h100,dgx-a100 --gpus 8 --batch 16 --sequence 32768 "
          "zero=1 cp=1 pp=1 tp=1 schedule=1f1b recompute=none -q --json",
          folder);
  CHECK(small.code == 2);
  CHECK(nlohmann::json::parse(small.out)["result"]["clusters"][1]["problem"]
            .get<std::string>()
            .starts_with("no plan fits"));
  const golden::Finished kept = run(both + "-o folder", folder);
  CHECK(kept.code == 64);
  CHECK(kept.err.find("--output is of one cluster") != std::string::npos);
  CHECK(run("./rehearse plan llama-3.1-8b dgx-h100, " + job, folder).code == 64);
}

TEST_CASE("golden: plan says what is wrong with a question, and what would give") {
  const std::string folder = golden::scratch("plan-wrong");
  CHECK(run("./rehearse plan llama-3.1-8b dgx-h100 --gpus 8 --batch 16", folder)
            .err.find("--sequence is missing") != std::string::npos);
  const golden::Finished both = run(question + "--sequence 4096 tp=4 pp=4 recompute=none", folder);
  CHECK(both.code == 65);
  CHECK(both.err.find("tp=4 and pp=4 together") != std::string::npos);
  const golden::Finished none =
      run(question + "--sequence 32768 tp=1 cp=1 pp=1 zero=1 recompute=none schedule=1f1b", folder);
  CHECK(none.code == 2);
  CHECK(none.out.find("no plan fits") != std::string::npos);
  CHECK(none.out.find("the nearest lacks") != std::string::npos);
  CHECK(none.out.find("without ") != std::string::npos);
  // No smaller setting would fit, so the answer suggests more GPUs.
  const golden::Finished large =
      run("./rehearse plan -q llama-3.1-70b dgx-h100 --gpus 8 --batch 64 --sequence 8192 zero=1 "
          "tp=8 cp=1 schedule=1f1b",
          folder);
  CHECK(large.code == 2);
  CHECK(large.out.find("\nwith --gpus ") != std::string::npos);
  CHECK(run(question + "--sequence 4096 --objective cost", folder).code == 64);
  CHECK(run(question + "--sequence 4096 --objective gpus", folder).code == 64);
}

TEST_CASE("golden: shards of plan, one of them killed and run again, merge to its bytes") {
  const std::string folder = golden::scratch("plan-shards");
  const std::string what = question + "--sequence 8192 schedule=1f1b,zb-v zero=1,3 --best 5 ";
  const golden::Finished one = run(what + "-o whole", folder);
  INFO(one.err);
  REQUIRE(one.code == 0);
  for (int number = 1; number < 8; ++number) {
    const golden::Finished shard =
        run(what + "-o many --shard " + std::to_string(number) + "/8", folder);
    CHECK(shard.code == 0);
    CHECK(shard.out.empty());
  }
  // The third shard is killed, the eighth never ran.
  const std::string third = folder + "/many/shard-0003-of-0008/results.jsonl";
  std::filesystem::resize_file(third, std::filesystem::file_size(third) - 7);
  const golden::Finished torn = run("./rehearse merge many", folder);
  CHECK(torn.code == 66);
  CHECK(torn.err.find("many: error: of 8 shards 1 is missing: 8") != std::string::npos);
  CHECK(torn.err.find("--best=5 -o many --shard 3/8") != std::string::npos);
  const auto same = [&](const golden::Finished& merged, const std::string& in) {
    INFO(merged.err);
    CHECK(merged.code == 0);
    CHECK(merged.out == one.out);
    for (const char* file : {"/plan.json", "/results.csv"})
      CHECK(text_of(folder + "/" + in + file) == text_of(folder + "/whole" + file));
  };
  REQUIRE(run(what + "-o many --shard 3/8", folder).code == 0);
  REQUIRE(
      run("SGE_TASK_ID=8 SGE_TASK_FIRST=1 SGE_TASK_LAST=8 " + what + "-o many --shard auto", folder)
          .code == 0);
  same(run("./rehearse merge -q many -o merged", folder), "merged");
  std::filesystem::create_directory(folder + "/sweep");
  golden::write(folder + "/sweep/results.csv", "mine\n");
  const golden::Finished over = run("./rehearse merge -q many -o sweep", folder);
  CHECK(over.code == 65);
  CHECK(over.err.find("holds what a sweep found") != std::string::npos);
  CHECK(text_of(folder + "/sweep/results.csv") == "mine\n");
  // The processes of one step share the work, and the last one merges it.
  same(run("for rank in 1 0; do SLURM_PROCID=$rank SLURM_STEP_NUM_TASKS=2 " + what +
               "-o step & done; wait",
           folder),
       "step");
  // Another question, another version, and options for a whole search only are refused.
  CHECK(run(what + "tp=1 -o many --shard 2/8", folder).err.find("--overwrite") !=
        std::string::npos);
  CHECK(run(what + "-o many --shard 2/8 --time-limit 5", folder).code == 64);
  std::string manifest = text_of(folder + "/many/shard-0002-of-0008/shard.json");
  const std::size_t at = manifest.find("0.1.0");
  REQUIRE(at != std::string::npos);
  golden::write(folder + "/many/shard-0002-of-0008/shard.json", manifest.replace(at, 5, "0.0.9"));
  const golden::Finished older = run("./rehearse merge many -o merged", folder);
  CHECK(older.code == 65);
  CHECK(older.err.find("version 0.0.9 and version 0.1.0") != std::string::npos);
}

TEST_CASE("golden: a question in a file is the question of the command line") {
  const std::string folder = golden::scratch("plan-file");
  golden::write(folder + "/search.textproto", R"(
# Which plan?
model: "llama-3.1-8b"
cluster: "dgx-h100"
gpus: 8
batch: 16
sequence: 4096
set: "zero=1"
set: "schedule=1f1b"
set: "tp=1,2"
best: 2
)");
  const std::string same = question + "--sequence 4096 zero=1 schedule=1f1b";
  const golden::Finished file = run("./rehearse plan search.textproto -q", folder);
  INFO(file.err);
  CHECK(file.code == 0);
  CHECK(file.out == run(same + " tp=1,2 --best 2", folder).out);
  // Settings of the command line override the file, by any name of the field.
  CHECK(run("./rehearse plan -q search.textproto tensor_model_parallel_size=4 --best=1 --batch 32",
            folder)
            .out == run("./rehearse plan -q llama-3.1-8b dgx-h100 --gpus 8 --batch 32 --sequence "
                        "4096 zero=1 schedule=1f1b tp=4 --best 1",
                        folder)
                        .out);
  CHECK(run("./rehearse check search.textproto", folder).code == 0);
  CHECK(run("./rehearse run search.textproto", folder).err.find("`rehearse plan` runs it") !=
        std::string::npos);
  // Every error has its line.
  golden::write(folder + "/bad.textproto", R"(model: "llama-3.1-8b"
cluster: "dgx-h10"
gpus: 0
batch: 16
sequence: 4096
objective: tiem
)");
  const golden::Finished bad = run("./rehearse plan bad.textproto", folder);
  INFO(bad.err);
  CHECK(bad.code == 65);
  CHECK(bad.err.find("bad.textproto:3:") != std::string::npos);
  CHECK(bad.err.find("bad.textproto:6:") != std::string::npos);
  golden::write(folder + "/set.textproto", R"(model: "llama-3.1-8b"
cluster: "dgx-h100"
gpus: 8
batch: 16
sequence: 4096
set: "tp=x"
set: "tpp=2"
)");
  const golden::Finished set = run("./rehearse plan set.textproto", folder);
  INFO(set.err);
  CHECK(set.code == 65);
  CHECK(set.err.find("set.textproto:6:6: error: 'tp=x': takes whole numbers") != std::string::npos);
  CHECK(set.err.find("set.textproto:7:6: error: ") != std::string::npos);
}

TEST_CASE("golden: plan writes launch files beside plan.json, and over no other file") {
  const std::string folder = golden::scratch("plan-launch");
  const std::string what =
      question + "--sequence 4096 zero=1 schedule=1f1b tp=2 cp=1 pp=1 recompute=none -o out ";
  REQUIRE(run(what, folder).code == 0);
  const auto json = nlohmann::json::parse(text_of(folder + "/out/plan.json"));
  int files = 0;
  for (const auto& one : json["result"]["launch"]) {
    const std::string path = folder + "/out/" + one["file"].get<std::string>();
    const std::string text = one["text"].get<std::string>();
    CHECK(std::filesystem::exists(path) == !text.empty());
    if (text.empty()) continue;
    CHECK(text_of(path) == text);
    ++files;
  }
  CHECK(files >= 3);
  golden::write(folder + "/out/launch.sh", "mine\n");
  CHECK(run(what, folder).err.find("out/launch.sh is not of an earlier plan") != std::string::npos);
  CHECK(text_of(folder + "/out/launch.sh") == "mine\n");
  REQUIRE(run(what + "--overwrite", folder).code == 0);
  CHECK(text_of(folder + "/out/launch.sh").find("pretrain_gpt.py") != std::string::npos);
  // The next plan is none of nanotron's: its file goes.
  REQUIRE(std::filesystem::exists(folder + "/out/nanotron.yaml"));
  REQUIRE(
      run(question + "--sequence 4096 zero=3 tp=1 cp=1 pp=1 recompute=none -o out", folder).code ==
      0);
  CHECK_FALSE(std::filesystem::exists(folder + "/out/nanotron.yaml"));
}

TEST_CASE("golden: a launch script is planned and fixed as the same script") {
  const std::string folder = golden::scratch("plan-script");
  golden::write(
      folder + "/train.sh",
      "export NCCL_DEBUG=WARN\n"
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
      "--ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention "
      "--num-query-groups 8 --swiglu --normalization RMSNorm --disable-bias-linear "
      "--untie-embeddings-and-output-weights --rotary-base 500000 --position-embedding-type rope "
      "--attention-dropout 0 --hidden-dropout 0 --max-position-embeddings 8192 --bf16 "
      "--tensor-model-parallel-size 2 --micro-batch-size 8 --global-batch-size 32 "
      "--seq-length 8192 --sequence-parallel --use-distributed-optimizer --vocab-size 128000 "
      "--tokenizer-type NullTokenizer --data-path /data/text --lr 3e-4 --train-iters 500\n");
  const std::string start = "--megatron-args train.sh --cluster dgx-h100 ";
  const golden::Finished fixed = run("./rehearse explain " + start + "--fix", folder);
  INFO(fixed.out << fixed.err);
  CHECK(fixed.out.find("change in your script: ") != std::string::npos);
  CHECK(fixed.out.find("--micro-batch-size 8 -> ") != std::string::npos);
  const golden::Finished best =
      run("./rehearse plan -q " + start + "tp=1,2 pp=1 cp=1 zero=1 recompute=none -o out", folder);
  REQUIRE(best.code == 0);
  const std::string text = text_of(folder + "/out/launch.sh");
  INFO(text);
  CHECK(text.find("# train.sh with this plan: --micro-batch-size 8 -> ") != std::string::npos);
  for (const char* kept : {"export NCCL_DEBUG=WARN\n", "--rotary-base 500000", "--lr 3e-4",
                           "--data-path /data/text", "--train-iters 500"})
    CHECK(text.find(kept) != std::string::npos);
}
