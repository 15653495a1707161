#include "sim/calibrate/rows/row_plan.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <regex>

#include "sim/calibrate/rows/row_reading.h"
#include "sim/input/fields/fields.h"

namespace sim::calibrate {

namespace {

// A value that a framework's conditions refer to: a column, a key of `extra`, or the number of
// nodes.
std::optional<std::string> column_of(const Row& row, const nlohmann::json& extra,
                                     std::string_view name) {
  if (name == "nodes") {
    const int gpus = degree(row, "n_gpus"), per_node = std::max(degree(row, "gpus_per_node"), 1);
    return fmt::format("{}", topology::nodes_of(gpus, per_node));
  }
  constexpr std::string_view inside = "extra.";
  if (!name.starts_with(inside)) return cell(row, name);
  const auto found = extra.find(name.substr(inside.size()));
  if (found == extra.end()) return std::nullopt;
  return found->is_string() ? found->get<std::string>()
                            : found->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

// If the batch of a rank is not a multiple of the microbatch, Composer runs a smaller last
// microbatch. The plan runs the next larger number of microbatches that divides the batch, all of
// one size.
void even_microbatches(program::BatchPlan& plan, int dp, Reading& reading) {
  if (plan.global_batch % dp != 0) return;
  const int batch = plan.global_batch / dp;
  if (batch % plan.micro_batch == 0) return;
  int count = (batch + plan.micro_batch - 1) / plan.micro_batch;
  while (batch % count != 0) ++count;
  reading.assume("micro_batch", fmt::format("{} microbatches of {} for ones of {} and a rest",
                                            count, batch / count, plan.micro_batch));
  plan.micro_batch = batch / count;
}

void read_degrees(Reading& reading) {
  for (const auto& [column, field] :
       {std::pair{"tp", "tp"}, std::pair{"pp", "pp"}, std::pair{"cp", "cp"}, std::pair{"dp", "dp"},
        std::pair{"mbs", "micro_batch"}, std::pair{"gbs", "global_batch"}})
    if (const int value = degree(reading.row, column); value > 0) reading.say(field, value);
}

// Reads tp, cp, pp, dp and the batch into `out`. Returns what is missing or contradictory.
std::string settle_degrees(Reading& reading, const input::Stated& stated, RowPlan& out) {
  const Row& row = reading.row;
  program::MeshPlan& mesh = out.plan.mesh;
  program::BatchPlan& batch = out.plan.batch;
  int gpus = degree(row, "n_gpus");
  if (gpus == 0 && !stated.says("dp")) gpus = gpus_of_experts(row, out.plan, out);
  std::string missing;
  const auto need = [&](bool there, const char* column) {
    if (!there) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", column);
  };
  need(stated.says("tp"), "tp");
  need(stated.says("pp"), "pp");
  need(stated.says("cp") || cell(row, "cp").empty(), "cp");
  need(stated.says("micro_batch"), "mbs");
  need(stated.says("dp") || gpus > 0, "n_gpus");
  if (!missing.empty()) return "not published: " + missing;
  const std::int64_t model_parallel = std::int64_t{mesh.tp} * mesh.pp * mesh.cp;
  if (!stated.says("dp")) {
    if (gpus % model_parallel != 0)
      return fmt::format("{} GPUs are not a multiple of tp x cp x pp = {}", gpus, model_parallel);
    mesh.dp = static_cast<int>(gpus / model_parallel);
  }
  const std::int64_t world = model_parallel * mesh.dp;
  if (world > count_max) return "more GPUs than can be";
  if (gpus != 0 && world != gpus)
    return fmt::format("tp x cp x pp x dp = {} is not the row's {} GPUs", world, gpus);
  const std::int64_t microbatches = leading_number(cell(row, "n_microbatch")).value_or(0);
  if (!stated.says("global_batch")) {
    batch.global_batch = 0;
    const std::int64_t all = std::min(microbatches, count_max) * mesh.dp * batch.micro_batch;
    if (all > 0 && all <= count_max) batch.global_batch = static_cast<int>(all);
  }
  if (batch.global_batch == 0) return "not published: gbs";
  even_microbatches(batch, mesh.dp, reading);
  return "";
}

std::string read_precision(Reading& reading) {
  const std::string& text = cell(reading.row, "precision");
  if (contains(text, "rowwise")) return "fp8 with a scale a row is not represented";
  const bool fp8 = contains(text, "fp8");
  if (!fp8 && (starts_with(text, "fp32") || starts_with(text, "tf32"))) {
    reading.say("precision", "fp32");
    reading.say("tf32", contains(text, "tf32"));
    return "";
  }
  reading.say("precision", !fp8 && starts_with(text, "fp16") ? "fp16" : "bf16");
  if (fp8) reading.say("fp8", true);
  // torchtitan quantises with torchao, which has no delayed scaling for one scale per tensor.
  const bool own_scales = contains(text, "tensorwise") || contains(text, "fp8-cs") ||
                          contains(cell(reading.row, "framework"), "torchtitan");
  if (fp8 && own_scales) reading.say("fp8_recipe", "tensorwise");
  if (fp8 && !own_scales && text != "fp8")
    reading.assume("precision", text + " as fp8 with delayed scaling");
  if (!fp8 && !starts_with(text, "fp16") && !contains(text, "bf16"))
    reading.assume("precision", "bf16");
  const auto dtype = reading.extra.find("grad_sync_dtype");
  if (contains(text, "fp32 grad")) {
    reading.say("fp32_gradients", true);
  } else if (dtype != reading.extra.end() && *dtype == "bf16") {
    reading.say("fp32_gradients", false);
  }
  return "";
}

// Which state the column `zero` shards.
enum class Shards { unknown, none, optimizer, until_backward, everything };
Shards shards_of(const std::string& text) {
  const auto begins = [&](std::initializer_list<const char*> words) {
    return std::any_of(words.begin(), words.end(),
                       [&](const char* word) { return starts_with(text, word); });
  };
  if (text.empty() || begins({"0", "ZeRO-0"})) return Shards::none;
  if (begins({"1", "zero1", "ZeRO-1"})) return Shards::optimizer;
  if (begins({"SHARD_GRAD_OP"})) return Shards::until_backward;
  return begins({"FULL_SHARD", "FSDP2 full", "fsdp", "Megatron-FSDP"}) ? Shards::everything
                                                                       : Shards::unknown;
}

void read_sharding(Reading& reading) {
  const std::string& text = cell(reading.row, "zero");
  const Shards shards = shards_of(text);
  if (shards == Shards::none || shards == Shards::optimizer)
    reading.say("distributed_optimizer", shards == Shards::optimizer);
  // FSDP1's strategies state it; the default of fully_shard (FSDP2) depends on the pipeline.
  if (starts_with(text, "FULL_SHARD") || shards == Shards::until_backward)
    reading.say("fsdp.reshard_after_forward", shards == Shards::everything);
}

std::string settle_sharding(const Row& row, const program::Plan& plan) {
  const std::string& text = cell(row, "zero");
  const Shards shards = shards_of(text);
  const bool parameters = shards == Shards::until_backward || shards == Shards::everything;
  return shards == Shards::unknown || parameters != plan.shards_parameters()
             ? fmt::format("sharding '{}' is not represented", text)
             : "";
}

// InternEvo's "zero1 size=8": groups of 8 ranks shard the optimizer state; -1: all ranks.
void settle_replicas(const Row& row, program::Plan& plan) {
  constexpr std::string_view says = "zero1 size=";
  const std::string& text = cell(row, "zero");
  if (!text.starts_with(says)) return;
  const std::int64_t ranks = leading_number(text.substr(says.size())).value_or(0);
  const std::int64_t all = std::int64_t{plan.mesh.dp} * plan.mesh.cp;
  if (ranks > 0 && all % ranks == 0)
    plan.sharding.optimizer_replicas = static_cast<int>(all / ranks);
}

// Modules that Megatron-LM's selective recomputation accepts, under their names in tables.
struct Recomputed {
  const char* word;
  const char* module;  // of `recompute_modules`; "": dense layers have none
};
constexpr std::array modules{Recomputed{"core_attn", "core_attn"},
                             Recomputed{"core attn", "core_attn"},
                             Recomputed{"attention", "core_attn"},
                             Recomputed{"mlp", "mlp"},
                             Recomputed{"op-level", "operators"},
                             Recomputed{"layernorm", "layernorm"},
                             Recomputed{"moe", ""},
                             Recomputed{"mla_up_proj", ""},
                             Recomputed{"shared_experts", ""}};

void read_modules(Reading& reading) {
  std::vector<std::string> named;
  bool any = false;
  for (const auto& [word, module] : modules) {
    if (!contains(cell(reading.row, "recompute"), word)) continue;
    any = true;
    if (*module == '\0') {
      reading.assume("recompute", fmt::format("{} is not recomputed", word));
    } else if (std::ranges::count(named, module) == 0) {
      named.emplace_back(module);
    }
  }
  // Norms of a dense layer are fused into the next products, so nothing is left to recompute
  // [NVIDIA/Megatron-LM core/transformer/transformer_layer.py: recompute_input_layernorm].
  if (std::erase(named, "layernorm") > 0)
    reading.assume("recompute", "norms are fused into products, nothing of them runs again");
  if (any && named.empty()) return;
  reading.say("recompute", "selective");
  if (any) reading.say("recompute_modules", fmt::format("{}", fmt::join(named, ",")));
}

void read_policy(Reading& reading) {
  const std::string& text = cell(reading.row, "recompute");
  if (starts_with(text, "full")) {
    reading.say("recompute", "full");
  } else if (starts_with(text, "selective")) {
    read_modules(reading);
  } else if (!starts_with(text, "none") || contains(text, "?") || contains(text, "unstated")) {
    reading.assume("recompute", "no recomputation");
  }
  if (starts_with(cell(reading.row, "attention"), "unfused")) reading.say("attention", "unfused");
  if (const std::string& sp = cell(reading.row, "sp"); !sp.empty())
    reading.say("sequence_parallel", sp == "1");
}

// Flags that row_experts.cpp reads.
bool is_of_experts(const std::string& flag) {
  constexpr std::array others{"q-lora-rank", "qk-head-dim", "qk-pos-emb-head-dim", "v-head-dim",
                              "overlap-moe-expert-parallel-comm"};
  return flag.starts_with("moe-") || flag.starts_with("expert-") ||
         std::ranges::count(others, flag) > 0;
}

// Reads flags of Megatron-LM and environment variables, if the table has them.
void read_flags(Reading& reading) {
  for (const auto& [given, value] : reading.extra.items()) {
    std::string key = given;
    for (char& c : key) c = c == '_' ? '-' : lower(c);
    const std::string setting = input::megatron_setting(key);
    const std::string field = setting.substr(0, setting.find('='));
    if (setting.empty() || reading.says(field) || is_of_experts(key)) continue;
    if (!setting.ends_with('=')) {
      if (flag(reading.extra, given.c_str())) reading.settings.push_back({setting, ""});
    } else if (value.is_number()) {
      reading.say(field, value.dump());
    } else if (value.is_string() && field == "pipeline_layout") {
      reading.say(field, value.get<std::string>());
    }
  }
  const std::string& notes = cell(reading.row, "notes");
  if (contains(notes, "\"TORCH_NCCL_AVOID_RECORD_STREAMS\": 1"))
    reading.say("avoid_record_streams", true);
  if (contains(notes, "expandable_segments:True"))
    reading.say("allocator_options", "expandable_segments:True");
}

void settle_attention(Reading& reading, const input::Stated& stated) {
  const std::string& text = cell(reading.row, "attention");
  if (stated.says("attention") || contains(text, "flash") || contains(text, "fused") ||
      starts_with(text, "te "))
    return;
  reading.assume("attention", "fused attention");
}

void read_scope(const Row& row, RowPlan& out) {
  const std::string& scope = cell(row, "mem_scope");
  if (starts_with(scope, "last")) out.memory_rank = MemoryRank::last;
  if (starts_with(scope, "rank 0")) out.memory_rank = MemoryRank::first;
  const auto stage = leading_number(cell(row, "pp_stage"));
  if (!stage || *stage < 0 || *stage >= out.plan.mesh.pp || contains(cell(row, "pp_stage"), ","))
    return;
  out.memory_stage = static_cast<int>(*stage);
  // Ranks of Megatron-LM are ordered tp, cp, dp, pp, fastest first.
  const auto rank = leading_number(cell(row, "rank"));
  if (rank && *rank >= 0)
    out.memory_cp_rank = static_cast<int>(*rank / out.plan.mesh.tp % out.plan.mesh.cp);
}

// FLOP convention of the row's TFLOP/s: the framework's, else the column's, else the paper's.
void read_convention(Reading& reading, const std::string& of_framework, RowPlan& out) {
  out.convention = of_framework.empty() ? model::convention_for(cell(reading.row, "tflops_kind"))
                                        : model::find_flop_convention(of_framework);
  if (out.convention != nullptr) return;
  out.convention = model::find_flop_convention("paper");
  if (!cell(reading.row, "tflops_gpu").empty())
    reading.assume("tflops", "TFLOP/s by the paper's formula");
}

// Reads the number of NICs per node and their rate: "4x200Gb/s per node", "IB HDR 4x200 = 800
// Gb/s/node", "8x 400".
void read_machine(const Row& row, const input::Machine& machine, RowMachine& out) {
  static const std::regex links(R"((\d{1,2})x ?(\d{2,4}) ?(Gb/s|=|\())");
  std::smatch found;
  const std::string& text = cell(row, "inter_net");
  out.cluster = machine.cluster.name;
  out.gpus_per_node = degree(row, "gpus_per_node");
  // A description of the site already has the rates of its NICs.
  if (!machine.site.empty() || text.size() >= 200 || !std::regex_search(text, found, links)) return;
  out.nics = std::stoi(found[1]);
  out.nic = {std::stoll(found[2]) * 125'000'000};
}

// Assumptions sorted by subject.
std::vector<std::string> in_order(std::vector<input::Assumption> assumptions) {
  constexpr std::array order{"architecture.ffn",
                             "architecture.vocab",
                             "architecture.position",
                             "architecture.activation",
                             "data_parallel",
                             "precision",
                             "micro_batch",
                             "virtual_stages",
                             "account_for_embedding",
                             "recompute",
                             "attention",
                             "packed_document",
                             "lora_rank",
                             "tflops"};
  const auto place = [&](const input::Assumption& one) {
    return std::find(order.begin(), order.end(), one.field) - order.begin();
  };
  std::stable_sort(assumptions.begin(), assumptions.end(),
                   [&](const auto& a, const auto& b) { return place(a) < place(b); });
  std::vector<std::string> texts;
  for (const input::Assumption& one : assumptions) texts.push_back(one.text);
  return texts;
}

// Framework of the row; nullptr, with the problem, if it is unknown.
const input::Framework* framework_of(const Row& row, const input::Columns& columns,
                                     std::string& problem) {
  const std::string& name = cell(row, "framework");
  const auto& all = input::frameworks();
  const input::Framework* framework = all ? input::framework_of_run(columns) : nullptr;
  if (!all) {
    problem = all.errors().front().where + ": " + all.errors().front().message;
  } else if (framework == nullptr) {
    problem = "framework '" + name + "' is not known";
  } else if (!framework->refused.empty()) {
    problem = name + ": " + framework->refused;
  }
  return framework;
}

}  // namespace

bool Reading::says(std::string_view field) const {
  return std::any_of(settings.begin(), settings.end(), [&](const input::Setting& setting) {
    return setting.text.size() > field.size() && setting.text[field.size()] == '=' &&
           setting.text.starts_with(field);
  });
}

RowPlan plan_of(const Row& row, const input::Machine* machine) {
  RowPlan out;
  const auto refuse = [&](std::string why) {
    out.unsupported = std::move(why);
    return out;
  };
  const nlohmann::json more = extra(row);
  Reading reading{row, more};
  const ClusterChoice choice = machine != nullptr ? ClusterChoice{machine, ""} : cluster_of(row);
  if (choice.machine == nullptr) return refuse(choice.problem);
  if (std::string problem = read_architecture(reading); !problem.empty()) return refuse(problem);
  const input::Columns columns = [&](std::string_view name) { return column_of(row, more, name); };
  const input::Framework* framework = framework_of(row, columns, out.unsupported);
  if (!out.unsupported.empty()) return out;
  read_sharding(reading);
  const std::string no_precision = read_precision(reading);
  read_degrees(reading);
  const std::string no_schedule = read_schedule(reading);
  read_policy(reading);
  read_flags(reading);
  input::Stated stated = input::state(*framework, reading.settings, columns, *choice.machine);
  if (!stated.plan.architecture.layers) return refuse(stated.problems.front().message);
  out.plan = std::move(stated.plan);
  out.plan.architecture.name = cell(row, "model");
  for (const std::string& problem :
       {stated.completion.refused, settle_sharding(row, out.plan), no_precision, no_schedule})
    if (!problem.empty()) return refuse(problem);
  if (std::string problem = read_experts(row, more, out); !problem.empty()) return refuse(problem);
  if (std::string problem = settle_degrees(reading, stated, out); !problem.empty())
    return refuse(problem);
  settle_replicas(row, out.plan);
  finish_experts(row, out);
  if (std::string problem = settle_schedule(reading, out); !problem.empty()) return refuse(problem);
  if (!stated.problems.empty()) return refuse(stated.problems.front().message);
  settle_attention(reading, stated);
  if (out.plan.policy.recompute != program::Recompute::none)
    std::erase_if(reading.assumptions,
                  [](const input::Assumption& one) { return one.field == "recompute"; });
  read_scope(row, out);
  read_convention(reading, stated.completion.tflops, out);
  read_machine(row, *choice.machine, out.machine);
  out.memory_only = choice.memory_only;
  if (std::string above = above_peak(row, out.plan, *choice.machine); !above.empty()) {
    if (!number(cell(row, "mem_alloc_peak_gib")) && !number(cell(row, "mem_reserved_peak_gib")))
      return refuse(above);
    out.memory_only = true;
    reading.assume("", above);
  }
  if (choice.gpus_per_node > 0) out.machine.gpus_per_node = choice.gpus_per_node;
  out.family = framework->family;
  out.machine.no_nvlink_sharp =
      std::ranges::count(stated.completion.cluster, "node.nvlink_sharp=false") > 0;
  reading.assumptions.insert(reading.assumptions.begin(), stated.completion.assumptions.begin(),
                             stated.completion.assumptions.end());
  const std::vector<std::string> of_experts = std::move(out.assumptions);
  out.assumptions = in_order(std::move(reading.assumptions));
  out.assumptions.insert(out.assumptions.end(), of_experts.begin(), of_experts.end());
  return out;
}

}  // namespace sim::calibrate
