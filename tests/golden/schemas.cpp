// schemas.cpp — the output under --json and the files that commands write agree with sim/schemas/.
// No required key is missing, every type is right, and every key is in its schema.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "tests/golden/program.h"

using golden::run;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// The schemas allow new keys, since readers must accept them. In this test a key without a schema
// is an error.
void close(json& schema) {
  if (schema.contains("properties")) {
    if (!schema.contains("additionalProperties")) schema["additionalProperties"] = false;
    for (json& one : schema["properties"]) close(one);
  }
  if (schema.contains("additionalProperties") && schema["additionalProperties"].is_object())
    close(schema["additionalProperties"]);
  if (schema.contains("items")) close(schema["items"]);
}

class Schemas {
 public:
  Schemas() {
    for (const auto& entry : fs::directory_iterator(REHEARSE_SOURCE_DIR "/sim/schemas")) {
      json schema = json::parse(golden::text_of(entry.path().string()));
      INFO(entry.path().string());
      const std::string id = schema["$id"];
      CHECK(id.rfind("rehearse/" + entry.path().stem().string() + "/", 0) == 0);
      close(schema);
      valijson::SchemaParser(valijson::SchemaParser::kDraft7)
          .populateSchema(valijson::adapters::NlohmannJsonAdapter(schema), schemas_[id]);
      unused_.insert(id);
    }
  }

  // The violations of the schema with this id, one line each; "" without one.
  std::string problems(const json& document, const std::string& id) {
    const auto schema = schemas_.find(id);
    if (schema == schemas_.end()) return "sim/schemas/ has no " + id;
    unused_.erase(id);
    valijson::ValidationResults results;
    const valijson::adapters::NlohmannJsonAdapter adapter(document);
    if (valijson::Validator().validate(schema->second, adapter, &results)) return "";
    std::string text;
    for (valijson::ValidationResults::Error error; results.popError(error);) {
      for (const std::string& part : error.context) text += part;
      text += ": " + error.description + "\n";
    }
    return text;
  }

  const std::set<std::string>& unused() const { return unused_; }

 private:
  std::map<std::string, valijson::Schema> schemas_;
  std::set<std::string> unused_;
};

}  // namespace

TEST_CASE("golden: what --json prints is as its schema says, of every command") {
  const std::string folder = golden::grid_scratch("schemas");
  std::string steps;
  for (int i = 1; i <= 10; ++i)
    steps += " iteration " + std::to_string(i) +
             "/ 100 | elapsed time per iteration (ms): 12.5 | global batch size:  512 |\n";
  golden::write(folder + "/run.log", steps);
  golden::write(folder + "/topology.conf",
                "SwitchName=s0 Nodes=n[0-3]\nSwitchName=s1 Nodes=n[4-7]\n"
                "SwitchName=top Switches=s[0-1]\n");
  golden::write(folder + "/small.csv",
                golden::text_of(folder + "/calibration/measured/paper_points.csv"));
  golden::write(folder + "/runs.csv",
                golden::run("sed -n -e 1p -e '/^T[0-9]*,torchtitan,/p' "
                            "calibration/measured/training_runs.csv | head -n 5",
                            folder)
                    .out);
  Schemas schemas;
  for (const std::string command :
       {"run llama-2-7b-64 --fixes --timelines --kernels",
        "run llama-3.1-8b-abci micro_batch=4 --fixes",
        "run llama-2-7b-64 --memory bounded",
        "run llama-2-7b-64 --memory none",
        "run llama-2-7b-64 --memory estimate",
        "run mixtral-8x7b-64 router=random --seeds 3",
        "run llama-2-7b-64 data_parallel=fsdp2",
        "run llama-2-7b-64 lora_rank=16",
        "run mixtral-8x7b-64",
        "run deepseek-v3-2048",
        "run gpt3-175b-1024 offload_layers=2",
        "run gpt3-175b-1024 offload_modules=core_attn,attn_proj",
        "explain llama-2-7b-64",
        "explain llama-3.1-8b-abci micro_batch=4",
        "explain mixtral-8x7b-64",
        "sweep grid.textproto -o whole",
        "sweep grid.textproto -o none --memory none",
        "sweep grid.textproto -o parts --shard 1/2",
        "sweep grid.textproto -o parts --shard 2/2",
        "merge parts -o merged",
        "plan llama-3.1-8b dgx-h100 --gpus 16 --batch 64 --sequence 8192 schedule=1f1b cp=1 "
        "recompute=none,full",
        "plan llama-3.1-405b dgx-h100 --gpus 8 --batch 64 --sequence 8192 schedule=1f1b cp=1",
        "plan llama-3.1-8b dgx-h100,dgx-a100 --gpus 8 --batch 16 --sequence 4096 zero=1 cp=1 "
        "schedule=1f1b recompute=none --price dgx-h100=3 --tokens 1e12",
        "whatif llama-2-7b-64 --vary tp=1,3",
        "whatif llama-2-7b-64 --vary tp=1 --memory bounded",
        "whatif llama-3.1-8b-abci --vary micro_batch=1,4",
        "schedule zb-v --stages 4 --microbatches 8",
        "campaign workloads/campaigns/elastic.textproto --seeds 2",
        "campaign workloads/campaigns/llama-3.textproto --seeds 2",
        "campaign --step-time 10 --gpus 1024 --mtbf 3h --checkpoint-write 60s --restart 10min "
        "--seeds 2 --vary interval=10min,30min",
        "topo check dgx-h100",
        "topo import topology.conf",
        "topo import topology.conf --like dgx-h100 -o mine.textproto",
        "topo export dgx-h100",
        "topo time dgx-h100 --ranks 0-15 --max 1MiB",
        "topo time dgx-h100 --network ns-3 --ranks 0,8 --collective sendrecv --max 64KiB",
        "topo place llama-2-7b-64 --moves 20",
        "memory estimate llama-2-7b-64",
        "memory replay " REHEARSE_SOURCE_DIR "/tests/allocator/data/"
        "magma27_cs336_memory_snapshot.pickle",
        "calibrate calibration/measured/gemm.csv --profile a100-80",
        "calibrate calibration/measured/nccl.csv --profile a100-80",
        "calibrate runs.csv",
        "validate small.csv",
        "validate small.csv --leave-out source",
        "validate calibration/measured/nccl.csv --where nodes=1",
        "validate calibration/measured/usp_attention_8xA100.csv",
        "validate calibration/measured/deep_optimizer_states_runs.csv",
        "compare run.log llama-2-7b-64",
        "compare llama-2-7b-64 'llama-2-7b-64 tp=8'",
        "topo time dgx-a100 --compare calibration/measured/nccl.csv",
        "init plan mine-too.textproto",
        "report llama-2-7b-64 -o page.html",
        "man -o pages",
        "doc tp",
        "doc megatron-lm deepspeed",
        "doc bubble",
        "doc dgx-h100 llama-2-7b llama-3 zb-v",
        "list",
        "list fields",
        "list schemas",
        "check grid.textproto run.log",
        "--help",
        "--version",
        "run --help",
        "run no-such",
        "list no-such"}) {
    const golden::Finished finished = run("./rehearse " + command + " --json --quiet", folder);
    INFO(command << "\n" << finished.err);
    const json document = json::parse(finished.out, nullptr, false);
    REQUIRE(document.is_object());
    CHECK(schemas.problems(document, document.value("schema", "")) == "");
  }
  const json shard =
      json::parse(golden::text_of(folder + "/parts/shard-0001-of-0002/shard.json"), nullptr, false);
  CHECK(schemas.problems(shard, shard["schema"]) == "");
  for (const char* name : {"whole", "none"}) {
    std::ifstream records(folder + "/" + name + "/results.jsonl");
    int count = 0;
    for (std::string line; std::getline(records, line); ++count) {
      INFO(line);
      CHECK(schemas.problems(json::parse(line, nullptr, false), "rehearse/record/1") == "");
    }
    CHECK(count == 72);
  }
  // Every schema was checked against some output.
  for (const std::string& id : schemas.unused()) FAIL_CHECK("nothing was held against " + id);
}

TEST_CASE("golden: list schemas names every schema") {
  const std::string folder = golden::scratch("list_schemas");
  const json listed =
      json::parse(run("./rehearse list schemas --json", folder).out)["result"]["schemas"];
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(REHEARSE_SOURCE_DIR "/sim/schemas"))
    files += entry.path().extension() == ".json";
  CHECK(listed.size() == files);
  for (const json& one : listed) {
    const json schema = json::parse(golden::text_of(one["source"]), nullptr, false);
    CHECK(schema["$id"] == one["name"]);
    CHECK(schema["title"] == one["summary"]);
  }
}
