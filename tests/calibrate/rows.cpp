// rows.cpp — every source of the measured tables in calibration/measured becomes the plan that its
// columns describe. The expected values are read off the row by hand.
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/calibrate/rows/row_plan.h"
#include "sim/calibrate/rows/row_text.h"
#include "sim/input/cluster/cluster.h"
#include "sim/input/tables/runs_csv.h"
#include "sim/output/json.h"
#include "sim/program/plan/layer_partition.h"
#include "tests/picture.h"

using namespace sim;
using namespace sim::calibrate;

namespace {

const std::vector<Row>& table(const std::string& name) {
  static std::map<std::string, std::vector<Row>> tables;
  auto there = tables.find(name);
  if (there == tables.end()) {
    const auto table =
        input::load_runs(std::string(REHEARSE_SOURCE_DIR) + "/calibration/measured/" + name);
    REQUIRE(table);
    std::vector<Row> rows;
    for (const input::RunsRow& row : table->rows) rows.push_back(row.cells);
    there = tables.emplace(name, rows).first;
  }
  return there->second;
}

const Row& find(const std::string& file, const std::string& id) {
  for (const Row& row : table(file)) {
    if (cell(row, "row_id") == id) return row;
  }
  FAIL(id << " is not in " << file);
  throw 0;
}

const Row& first_of(const std::string& file, const std::string& group) {
  for (const Row& row : table(file)) {
    if (cell(row, "source_group") == group && plan_of(row).unsupported.empty()) return row;
  }
  FAIL(group << " has no row that can be represented");
  throw 0;
}

}  // namespace

TEST_CASE("calibrate: a row of the paper is a plan on its machine with its flags") {
  // T01358: Llama-3.1-8B on 8 A100-40 of ABCI, tp4 pp2, mbs 1, gbs 1024, seq 8192.
  const RowPlan row = plan_of(find("paper_grid.csv", "T01358"));
  REQUIRE(row.unsupported.empty());
  CHECK(row.machine.cluster.name == "abci-a");
  CHECK(row.plan.mesh.tp == 4);
  CHECK(row.plan.mesh.pp == 2);
  CHECK(row.plan.mesh.dp == 1);
  CHECK(row.plan.batch.micro_batch == 1);
  CHECK(row.plan.batch.global_batch == 1024);
  CHECK(row.plan.batch.sequence == 8192);
  CHECK(row.plan.pipeline.schedule == "1f1b");
  CHECK(row.plan.stack.attention == program::AttentionBackend::flash);
  CHECK(row.plan.sharding.distributed_optimizer);
  CHECK(row.plan.sharding.overlap_grad_reduce);
  CHECK(row.plan.sharding.overlap_param_gather);
  CHECK(row.plan.numerics.fp32_gradients);
  CHECK(row.plan.stack.logs_optimizer_state);
  CHECK(row.plan.stack.reset_attention_mask);
  CHECK(row.plan.stack.data_workers == 2);
  CHECK(row.plan.architecture.activation == model::Activation::swiglu);
  CHECK(row.plan.architecture.vocab == 128256);
  CHECK_FALSE(row.plan.architecture.tied_embeddings);
  REQUIRE(row.convention != nullptr);
  CHECK(row.convention->name == "paper");
  CHECK(row.assumptions.empty());
  CHECK(program::problems(row.plan).empty());
}

TEST_CASE("calibrate: every row of the paper can be represented") {
  for (const Row& row : table("paper_grid.csv")) {
    const RowPlan mapped = plan_of(row);
    INFO(cell(row, "row_id") << " " << mapped.unsupported);
    CHECK(mapped.unsupported.empty());
    CHECK(program::problems(mapped.plan).empty());
  }
}

TEST_CASE("calibrate: vTrain's rows are fp16 with full recomputation and nothing overlapped") {
  const RowPlan row = plan_of(find("vtrain_runs.csv", "V01441"));
  REQUIRE(row.unsupported.empty());
  CHECK(row.machine.cluster.name == "dgx-a100");
  CHECK(row.machine.cluster.node.nics == 4);  // "IB HDR 4x200 = 800 Gb/s/node"
  CHECK(row.machine.cluster.node.nic == Bandwidth{25'000'000'000});
  CHECK(row.plan.numerics.precision == model::Precision::fp16);
  CHECK(row.plan.policy.recompute == program::Recompute::full);
  CHECK(row.plan.stack.attention == program::AttentionBackend::unfused);
  CHECK_FALSE(row.plan.sharding.overlap_grad_reduce);
  CHECK_FALSE(row.plan.numerics.fp32_gradients);
  CHECK_FALSE(row.plan.sharding.distributed_optimizer);
  CHECK_FALSE(row.plan.mesh.sequence_parallel);
  CHECK(row.plan.architecture.tied_embeddings);
  CHECK(row.plan.architecture.linear_bias);
  CHECK(row.plan.architecture.position == model::Position::learned);
  CHECK(row.convention->name == "korthikanti");
}

TEST_CASE("calibrate: each source that can be represented gives a possible plan") {
  struct Expected {
    const char* file;
    const char* group;
    const char* cluster;
    const char* schedule;
    program::Recompute recompute;
    bool overlaps;
    const char* convention;
  };
  using program::Recompute;
  const Expected sources[] = {
      {"training_runs.csv", "narayanan2021-table1", "dgx-a100", "1f1b", Recompute::full, false,
       "narayanan"},
      {"training_runs.csv", "korthikanti2022", "dgx-a100", "1f1b", Recompute::full, false,
       "korthikanti"},
      {"training_runs.csv", "bloom-prequel", "jean-zay", "1f1b", Recompute::full, false,
       "8n-layers"},
      {"training_runs.csv", "internevo", "dgx-a100", "1f1b", Recompute::none, true, "paper"},
      {"training_runs.csv", "megascale-paper", "dgx-a100", "interleaved-1f1b", Recompute::selective,
       false, "full"},
      {"training_runs.csv", "vocab-parallel", "dgx-a100", "1f1b", Recompute::none, false, "full"},
      {"training_runs.csv", "dgxc-benchmarking", "dgx-h100", "1f1b", Recompute::none, true, "full"},
      {"vtrain_runs.csv", "vTrain-single", "dgx-a100", "1f1b", Recompute::full, false,
       "korthikanti"},
  };
  for (const Expected& expected : sources) {
    INFO(expected.group);
    const RowPlan row = plan_of(first_of(expected.file, expected.group));
    CHECK(row.machine.cluster.name == expected.cluster);
    CHECK(row.plan.pipeline.schedule == expected.schedule);
    CHECK(row.plan.policy.recompute == expected.recompute);
    CHECK(row.plan.sharding.overlap_grad_reduce == expected.overlaps);
    CHECK(row.convention->name == expected.convention);
  }
}

TEST_CASE("calibrate: schedules of rows are those of the catalog") {
  const auto pipeline = [](const char* row) {
    const RowPlan mapped = plan_of(find("training_runs.csv", row));
    CHECK(mapped.unsupported.empty());
    return mapped.plan.pipeline;
  };
  CHECK(pipeline("T00028").schedule == "zb-2p");
  CHECK(pipeline("T01025").schedule == "vocab-2");
  // 32 layers on 8 stages, 3 of them left on the last one: 29 on seven.
  CHECK(pipeline("T01029").layers_of_parts == std::vector<int>{4, 4, 4, 4, 4, 4, 5, 3});
}

TEST_CASE("calibrate: InternEvo shares the optimizer's state as its rows say") {
  const auto sharding = [](const char* row) {
    return plan_of(find("training_runs.csv", row)).plan.sharding;
  };
  // "zero1 size=-1" and "zero1 size=8" on 16 GPUs.
  CHECK(sharding("T01064").whole_parameters);
  CHECK(sharding("T01064").optimizer_replicas == 1);
  CHECK(sharding("T01072").optimizer_replicas == 2);
  CHECK(plan_of(find("training_runs.csv", "T01118")).plan.shards_parameters());
}

TEST_CASE("calibrate: fp32 whose products are in tf32") {
  const program::Plan plan = plan_of(find("training_runs.csv", "T01650")).plan;
  CHECK(plan.numerics.precision == model::Precision::fp32);
  CHECK(plan.product_precision() == model::Precision::tf32);
  // Sailor's models: dropout behind the products of one of them, none of the scores.
  CHECK(plan.architecture.attention_dropout == 0);
  CHECK(plan.architecture.hidden_dropout == 0.1);
  const program::Plan opt = plan_of(find("training_runs.csv", "T01663")).plan;
  CHECK(opt.architecture.hidden_dropout == 0);
}

TEST_CASE("calibrate: frameworks bring their own kernels") {
  const program::Plan composer = plan_of(first_of("training_runs.csv", "llm-foundry")).plan;
  CHECK(composer.stack.attention == program::AttentionBackend::triton);
  CHECK(composer.stack.layer_kernels == program::LayerKernels::eager);
  CHECK_FALSE(composer.stack.fused_optimizer);
  CHECK(composer.stack.logit_metrics == 2);
  CHECK(composer.sharding.fsdp.backward_prefetch == 0);
  const program::Plan internevo = plan_of(first_of("training_runs.csv", "internevo")).plan;
  CHECK(internevo.stack.attention == program::AttentionBackend::flash1);
  CHECK(internevo.stack.layer_kernels == program::LayerKernels::eager);
  // T01151 and T01152 differ in "vanilla TP" and "async TP".
  const program::Plan vanilla = plan_of(find("training_runs.csv", "T01151")).plan;
  CHECK(vanilla.stack.attention == program::AttentionBackend::flash);
  CHECK(vanilla.stack.layer_kernels == program::LayerKernels::compiled);
  CHECK(vanilla.stack.cross_entropy == program::CrossEntropy::stepwise);
  CHECK_FALSE(vanilla.stack.tp_comm_overlap);
  // Of mid-2025 and without tensor parallelism: the compiled loss keeps the logits alone.
  CHECK(plan_of(find("training_runs.csv", "T01164")).plan.stack.cross_entropy ==
        program::CrossEntropy::one_kernel);
  CHECK(plan_of(find("training_runs.csv", "T01152")).plan.stack.tp_comm_overlap);
  // torchao's scales are a tensor's own; of Megatron's runs only where the row says so.
  CHECK(plan_of(find("training_runs.csv", "T01164")).plan.numerics.fp8_recipe ==
        program::Fp8Recipe::tensorwise);
  CHECK(plan_of(find("training_runs.csv", "T00134")).plan.numerics.fp8_recipe ==
        program::Fp8Recipe::tensorwise);
  CHECK(plan_of(find("training_runs.csv", "T00113")).plan.numerics.fp8_recipe ==
        program::Fp8Recipe::delayed);
  CHECK(plan_of(first_of("training_runs.csv", "narayanan2021-table1")).plan.stack.layer_kernels ==
        program::LayerKernels::fused);
}

TEST_CASE("calibrate: NVIDIA's launchers turn NVLS and recorded streams off") {
  RowPlan row = plan_of(find("training_runs.csv", "T00276"));  // dgxc-benchmarking, fp8
  CHECK(!row.machine.cluster.node.nvlink_sharp);
  CHECK(row.plan.environment.avoid_record_streams);
  CHECK(row.plan.numerics.fp8_parameters);
  row = plan_of(find("training_runs.csv", "T00177"));  // NeMo's launcher, fp8 of 2024
  CHECK(!row.machine.cluster.node.nvlink_sharp);
  CHECK(row.plan.numerics.fp8_parameters);
  CHECK(row.plan.optimizer.precision_aware);  // apex's optimizer
  CHECK(row.plan.optimizer.main_parameter_bytes == 4);
  CHECK(row.plan.optimizer.exp_avg_bytes == 2);
  CHECK(row.plan.stack.cross_entropy == program::CrossEntropy::stepwise);
  CHECK(row.plan.batch.packed_document == 180);  // fine-tuning
  CHECK(row.plan.pipeline.virtual_stages == 20);
  CHECK(plan_of(find("training_runs.csv", "T00172")).plan.pipeline.virtual_stages == 20);
  const program::Plan gpt3 = plan_of(find("training_runs.csv", "T00195")).plan;
  CHECK(gpt3.pipeline.virtual_stages == 12);
  CHECK(gpt3.stack.tp_comm_overlap);
  CHECK(row.convention->name == "weights");
  CHECK(plan_of(find("training_runs.csv", "T00180")).convention->name == "frozen-weights");
  CHECK(plan_of(find("training_runs.csv", "T00111")).convention->name == "megatron");
  row = plan_of(find("training_runs.csv", "T00113"));  // Megatron-Bridge
  CHECK(row.plan.numerics.fp8_parameters);
  CHECK(row.plan.stack.tp_comm_overlap);
  CHECK(row.plan.batch.packed_document == 0);
  CHECK_FALSE(row.plan.numerics.fp32_gradients);
  CHECK_FALSE(row.plan.optimizer.precision_aware);
  CHECK(plan_of(find("paper_grid.csv", "T01358")).machine.cluster.node.nvlink_sharp);
}

TEST_CASE("calibrate: a recipe's interleaving stands where its table of results has none") {
  const RowPlan row = plan_of(find("training_runs.csv", "T00519"));
  CHECK(row.plan.pipeline.virtual_stages == 12);
  CHECK(row.plan.pipeline.schedule == "interleaved-1f1b");
}

TEST_CASE("calibrate: Megatron-LM's own tests take their switches from their flags") {
  for (const Row& row : table("megatron_ci_large.csv")) {
    const RowPlan mapped = plan_of(row);
    if (!mapped.unsupported.empty()) continue;
    INFO(cell(row, "row_id"));
    CHECK(mapped.memory_rank == MemoryRank::last);
    const bool overlaps = contains(cell(row, "extra"), "\"overlap-grad-reduce\": true");
    CHECK(mapped.plan.sharding.overlap_grad_reduce == overlaps);
    const bool unfused = contains(cell(row, "extra"), "\"no-gradient-accumulation-fusion\": true");
    CHECK(mapped.plan.stack.gradient_accumulation_fusion == !unfused);
  }
}

TEST_CASE("calibrate: adapters are those of the benchmark or of NVIDIA's recipes") {
  Row row = find("paper_grid.csv", "T01358");
  CHECK(plan_of(row).plan.lora.rank == 0);
  row["kind"] = "lora";
  CHECK(plan_of(row).unsupported == "the rank of the adapters is missing; write lora_rank");
  row["framework"] = "NeMo/Megatron-Core";
  const RowPlan recipe = plan_of(row);
  CHECK(recipe.unsupported == "");
  CHECK(recipe.plan.lora.rank == 8);
  CHECK_FALSE(recipe.plan.lora.fc2);
  CHECK(recipe.assumptions.back() == "adapters of rank 8 beside linear_qkv");
  row["settings"] = "lora_rank=16; lora_modules=linear_qkv,linear_proj; lora_all_to_all=true";
  CHECK(plan_of(row).plan.lora.rank == 16);
  CHECK(plan_of(row).plan.lora.projection);
  CHECK_FALSE(plan_of(row).plan.lora.fc2);
  CHECK(plan_of(row).plan.lora.all_to_all);  // LORA_A2A=1
  CHECK_FALSE(recipe.plan.lora.all_to_all);
}

TEST_CASE("calibrate: what ran stands over a line of a script that is commented out") {
  // T00665's column has TP_COMM_OVERLAP=0, a comment of its script; the line above it says 1.
  CHECK(plan_of(find("training_runs.csv", "T00665")).plan.stack.tp_comm_overlap);
  CHECK_FALSE(plan_of(find("training_runs.csv", "T00621")).plan.stack.tp_comm_overlap);
}

TEST_CASE("calibrate: a variable that is off stands over the recipes, a key of a file does not") {
  Row row = find("paper_grid.csv", "T01358");
  row["framework"] = "NeMo/Megatron-Core";
  row["tp"] = "4";
  row["dp"] = "";
  row["sp"] = "1";
  const auto overlaps = [&](const char* extra) {
    row["extra"] = extra;
    return plan_of(row).plan.stack.tp_comm_overlap;
  };
  CHECK(overlaps(""));  // NeMo's recipes
  CHECK(overlaps(R"({"tp_comm_overlap": false})"));
  CHECK_FALSE(overlaps(R"({"TP_COMM_OVERLAP": "False"})"));
  CHECK_FALSE(overlaps(R"({"TP_COMM_OVERLAP": "0"})"));
}

TEST_CASE("calibrate: layers beside a last stage of its own go to the later stages") {
  Row row = find("training_runs.csv", "T01029");  // 32 layers on eight stages
  row["settings"] = "";
  const auto layers = [&](int last) {
    row["extra"] = fmt::format(R"({{"last_stage_layers": "{}"}})", last);
    return program::layers_of_parts(plan_of(row).plan);
  };
  CHECK(layers(3) == std::vector{4, 4, 4, 4, 4, 4, 5, 3});
  CHECK(layers(0) == std::vector{4, 4, 4, 5, 5, 5, 5, 0});
  CHECK(layers(4) == std::vector{4, 4, 4, 4, 4, 4, 4, 4});
}

TEST_CASE("calibrate: a network with an encoder is refused by its model's name") {
  Row row = find("paper_grid.csv", "T01358");
  for (const char* model : {"t5/t5_11b_mcore_tp4_pp1", "bert-345m", "RoBERTa-large"}) {
    row["model"] = model;
    CHECK(plan_of(row).unsupported.find("an encoder is not simulated") != std::string::npos);
  }
}

TEST_CASE("calibrate: a fine-tuning row is that of its framework's recipe") {
  Row row = find("paper_grid.csv", "T01358");
  row["framework"] = "NeMo/Megatron-Core";
  CHECK(plan_of(row).plan.batch.packed_document == 0);
  row["kind"] = "sft";
  CHECK(plan_of(row).plan.batch.packed_document == 180);
}

TEST_CASE("calibrate: attention is not fused in Megatron-LM before core 0.6") {
  Row row = find("paper_grid.csv", "T01358");
  row["framework"] = "Megatron-LM";
  row["attention"] = "";
  const auto fused = [&](const char* version) {
    row["version"] = version;
    return plan_of(row).plan.stack.attention != program::AttentionBackend::unfused;
  };
  CHECK_FALSE(fused("Megatron-LM fork 2023"));
  CHECK_FALSE(fused("core_v0.5.0"));
  CHECK(fused("core_v0.6.0"));
  CHECK(fused("core_v0.14.0"));
  row["attention"] = "flash";
  CHECK(fused("Megatron-LM fork 2023"));
}

TEST_CASE("calibrate: selective recomputation is of the modules that a row names") {
  Row row = find("paper_grid.csv", "T01358");
  const auto with = [&](const char* text) {
    row["recompute"] = text;
    return plan_of(row);
  };
  const auto modules = [&](const char* text) { return with(text).plan.policy.recompute_modules; };
  CHECK(modules("selective (yaml)").core_attention);
  CHECK_FALSE(modules("selective (yaml)").mlp);
  CHECK(modules("selective (attention core)").core_attention);
  CHECK(modules("selective: mlp").mlp);
  CHECK_FALSE(modules("selective: mlp").core_attention);
  CHECK(modules("selective: mlp+core_attn").core_attention);
  CHECK(modules("selective: mlp+core_attn").mlp);
  CHECK(modules("selective op-level AC").operators);
  const RowPlan norms = with("selective: layernorm");
  CHECK(norms.plan.policy.recompute == program::Recompute::none);
  CHECK(norms.assumptions.back() == "layernorm is not recomputed");
  CHECK(with("selective: mlp, layernorm").plan.policy.recompute_modules.mlp);
  CHECK(with("selective: moe_act").plan.policy.recompute == program::Recompute::none);
}

TEST_CASE("calibrate: what cannot be represented says why by name") {
  Row row = find("paper_grid.csv", "T01358");
  const auto with = [&](const char* column, const char* text) {
    Row changed = row;
    changed[column] = text;
    return plan_of(changed).unsupported;
  };
  CHECK(with("gpu", "B200-SXM").find("GPU 'B200-SXM' (40 GB) has no profile") == 0);
  CHECK(with("gpu", "GH200 96GB").find("GPU 'GH200 96GB'") == 0);
  CHECK(with("gpu", "A100-PCIe").find("GPU 'A100-PCIe' (40 GB)") == 0);
  CHECK(with("experts", "8") == "not published: experts, topk");
  CHECK(with("zero", "by hand") == "sharding 'by hand' is not represented");
  CHECK(with("precision", "mxfp4") == "precision 'mxfp4' is not represented");
  CHECK(with("schedule", "ZB-2p").empty());
  CHECK(with("schedule", "ZB-1p").empty());
  CHECK(with("layers", "33") ==
        "the layers of the stages are not published (33 layers on 2 parts)");
  CHECK(with("framework", "Paxml") == "Paxml: JAX programs are not represented");
  CHECK(with("framework", "new") == "framework 'new' is not known");
  CHECK(with("n_gpus", "16") == "tp x cp x pp x dp = 8 is not the row's 16 GPUs");
  CHECK(with("hidden", "-1") == "not published: hidden");
  CHECK(with("tp", "99999999999999999999") == "not published: tp");
}

TEST_CASE("calibrate: a row's schedule goes by its words, and one that nobody knows is refused") {
  Row row = find("training_runs.csv", "T00052");  // 22 layers on 8 stages
  row["settings"] = "architecture.vocab=32128";
  const auto with = [&](const char* schedule, const char* chunks) {
    row["schedule"] = schedule;
    row["vp"] = chunks;
    return plan_of(row);
  };
  // One layer a chunk, embedding and head alone at the ends.
  for (const char* chunks : {"3"})
    for (const char* name : {"1F1B-I", "interleaved 1F1B", "interleaved-1F1B (3 chunks)"}) {
      const RowPlan interleaved = with(name, chunks);
      INFO(name << " " << chunks << ": " << interleaved.unsupported);
      REQUIRE(interleaved.unsupported.empty());
      CHECK(interleaved.plan.pipeline.schedule == "interleaved-1f1b");
      CHECK(interleaved.plan.pipeline.virtual_stages == 3);
      const std::vector<int> layers = program::layers_of_parts(interleaved.plan);
      CHECK(layers.size() == 24);
      CHECK(layers.front() == 0);
      CHECK(layers.back() == 0);
      CHECK(std::count(layers.begin(), layers.end(), 1) == 22);
    }
  CHECK(with("ZB-H1", "").plan.pipeline.schedule == "zb-h1");
  CHECK(with("zb_2p?", "").plan.pipeline.schedule == "zb-2p");
  CHECK(with("1F1B redis", "").plan.pipeline.schedule == "1f1b");
  CHECK(with("1F1B vocab-2", "").plan.pipeline.schedule == "vocab-2");
  row["layers"] = "32";
  CHECK(with("ZBVZeroBubble", "").plan.pipeline.schedule == "zb-v");
  CHECK(with("LoopedBFS", "4").plan.pipeline.schedule == "breadth-first");
  CHECK(with("LoopedBFS", "4").plan.pipeline.virtual_stages == 4);
  CHECK(with("InterleavedZeroBubble", "2").plan.pipeline.schedule == "interleaved-zb");
  for (const char* name : {"Chimera", "V-Half vocab-1", "ZeroBubble", "v-schedule"})
    CHECK(with(name, "").unsupported == std::string("schedule '") + name + "' is not represented");
  CHECK(with("1F1B-I", "1").unsupported == "not published: vp");
}

TEST_CASE("calibrate: what InternEvo's stages have left over is the last ones'") {
  Row row = find("training_runs.csv", "T01117");  // 32 layers on 3 stages
  CHECK(program::layers_of_parts(plan_of(row).plan) == std::vector{10, 11, 11});
}

TEST_CASE("calibrate: a row of blanks is refused and not a crash") {
  CHECK_FALSE(plan_of({}).unsupported.empty());
  for (const auto& [column, text] : find("paper_grid.csv", "T01358")) {
    Row changed = find("paper_grid.csv", "T01358");
    for (const char* wild : {"", "-1", "0", "9223372036854775807", "nan", "{", "\"", "1e9"}) {
      changed[column] = wild;
      const RowPlan mapped = plan_of(changed);  // any answer will do, a crash will not
      CHECK((mapped.unsupported.empty() || !mapped.unsupported.empty()));
    }
  }
}

TEST_CASE("calibrate: drivers state memory in MiB and mean the same card") {
  Row row = find("paper_grid.csv", "T01358");
  row["gpu"] = "NVIDIA H100-SXM5-80GB";
  row["gpu_mem_gb"] = "81559 MiB";
  REQUIRE(cluster_of(row).machine != nullptr);
  CHECK(cluster_of(row).machine->cluster.name == "dgx-h100");
}

TEST_CASE("calibrate: where the cells of NeMo's table contradict the files it was run with") {
  // The launcher's README of 2024-04-29 has MBS 2, TP 1 where its script has 1 and 2; TP 4, PP 1
  // where its file, and the table a month later, have 1 and 4.
  const RowPlan swapped = plan_of(find("training_runs.csv", "T00188"));
  REQUIRE(swapped.unsupported.empty());
  CHECK(swapped.plan.mesh.tp == 2);
  CHECK(swapped.plan.mesh.dp == 2);
  CHECK(swapped.plan.batch.micro_batch == 1);
  CHECK(swapped.plan.pipeline.virtual_stages == 10);
  const RowPlan turned = plan_of(find("training_runs.csv", "T00185"));
  REQUIRE(turned.unsupported.empty());
  CHECK(turned.plan.mesh.tp == 1);
  CHECK(turned.plan.mesh.pp == 4);
  CHECK(turned.plan.pipeline.virtual_stages == 10);
  CHECK_FALSE(turned.plan.mesh.sequence_parallel);
  // That of 2024-06-03 had no column CP; a day later it had, 2 for Llama 3 at the same speeds.
  const RowPlan context = plan_of(find("training_runs.csv", "T00203"));
  REQUIRE(context.unsupported.empty());
  CHECK(context.plan.mesh.cp == 2);
  CHECK(context.plan.mesh.dp == 4);
  // Rows that say the same as their files keep what they say.
  CHECK(plan_of(find("training_runs.csv", "T00187")).plan.batch.micro_batch == 2);
  CHECK(plan_of(find("training_runs.csv", "T00202")).plan.mesh.dp == 8);
}

TEST_CASE("calibrate: flags of a mixture are read as Megatron-LM has them") {
  const std::vector<Row>& rows = table("megatron_ci_large.csv");
  const auto mixture = std::ranges::find_if(rows, [](const Row& row) {
    const RowPlan read = plan_of(row);
    return read.unsupported.empty() && read.plan.architecture.is_mixture();
  });
  REQUIRE(mixture != rows.end());
  const auto experts_with = [&](const nlohmann::json& flags) {
    Row row = *mixture;
    nlohmann::json extra = nlohmann::json::parse(cell(row, "extra"));
    for (const char* flag :
         {"moe-router-pre-softmax", "moe-router-enable-expert-bias", "moe-router-score-function",
          "moe-router-num-groups", "moe-router-group-topk", "moe-ffn-hidden-size"})
      extra.erase(flag);
    extra.update(flags);
    row["extra"] = extra.dump();
    row["model"] = "a-mixture";  // no model file says more
    return plan_of(row).plan.architecture.experts;
  };
  const model::Experts plain = experts_with(nlohmann::json::object());
  CHECK_FALSE(plain.pre_softmax);
  CHECK_FALSE(plain.expert_bias);
  CHECK(plain.score != model::RouterScore::sigmoid);
  CHECK(experts_with({{"moe-router-pre-softmax", true}}).pre_softmax);
  CHECK(experts_with({{"moe-router-enable-expert-bias", true}}).expert_bias);
  CHECK(experts_with({{"moe-router-score-function", "sigmoid"}}).score ==
        model::RouterScore::sigmoid);
  CHECK(experts_with({{"moe-router-num-groups", 4}}).groups == 4);
  CHECK(experts_with({{"moe-router-group-topk", 2}}).top_groups == 2);
  CHECK(experts_with({{"moe-ffn-hidden-size", 4096}}).ffn == 4096);
}

// A line for each row: what its plan is, and what was assumed, as a number. A line that changes
// says that a row is read in another way; the plans themselves are what `validate --csv` names.
TEST_CASE("calibrate: rows of the measured tables are read as they were") {
  std::string all;
  for (const char* name : {"training_runs.csv", "paper_grid.csv", "megatron_ci_large.csv"})
    for (const Row& row : table(name)) {
      const RowPlan read = plan_of(row);
      std::string said = read.unsupported.empty() ? output::to_json(read.plan).dump() : "";
      said += read.unsupported;
      for (const std::string& assumption : read.assumptions) said += "\n" + assumption;
      const topology::Cluster& c = read.machine.cluster;
      said += fmt::format("\n{} {} {} {} {} {}", c.name, c.node.gpus, c.node.nics,
                          c.node.nic.bytes_per_second, c.node.nvlink_sharp, read.memory_stage);
      all +=
          fmt::format("{} {:016x}\n", cell(row, "row_id"), XXH3_64bits(said.data(), said.size()));
    }
  picture::same("calibrate/pictures/rows.txt", all);
}
