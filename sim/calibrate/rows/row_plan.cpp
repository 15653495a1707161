#include "sim/calibrate/rows/row_plan.h"

#include <algorithm>
#include <array>
#include <regex>

#include "sim/calibrate/rows/row_reading.h"
#include "sim/input/fields/cluster_fields.h"
#include "sim/input/plan/draft.h"
#include "sim/input/plan/plan_text.h"
#include "sim/input/tables/tokenizer.h"

namespace sim::calibrate {

namespace {

namespace v1 = rehearse::v1;

void read_framework(Reading& reading) {
  const std::string& name = cell(reading.row, "framework");
  const std::string& version = cell(reading.row, "version");
  const auto& all = input::frameworks();
  if (!all) return reading.refuse(all.errors().front().where + ": " + all.errors().front().message);
  const input::Framework* framework = input::framework_called(name, version);
  if (framework == nullptr) return reading.refuse(fmt::format("framework '{}' is not known", name));
  if (!framework->refused.empty())
    return reading.refuse(fmt::format("{}: {}", name, framework->refused));
  reading.say("framework", framework->name);
  if (!version.empty()) reading.say("framework_version", version);
}

// The number of NICs per node and their rate: "4x200Gb/s per node", "IB HDR 4x200 = 800 Gb/s/node",
// "8x 400". A description of the site already has its rates.
void read_nics(Reading& reading, const input::Machine& machine) {
  static const std::regex links(R"((\d{1,2})x ?(\d{2,4}) ?(Gb/s|=|\())");
  std::smatch found;
  const std::string& text = cell(reading.row, "inter_net");
  if (!machine.site.empty() || text.size() >= 200 || !std::regex_search(text, found, links)) return;
  const topology::Node& node = machine.cluster.node;
  const int nics = std::stoi(found[1]);
  const Bandwidth rate{std::stoll(found[2]) * 125'000'000};
  if (nics == node.nics && rate == node.nic) return;
  reading.say("node.nics", nics);
  reading.say("node.nic_bandwidth",
              fmt::format("{} GB/s", static_cast<double>(rate.bytes_per_second) * 1e-9));
}

// Settings of the cluster that the row states differently. REQUIRES: degrees are read.
void read_machine(Reading& reading, const ClusterChoice& choice) {
  const topology::Cluster& cluster = choice.machine->cluster;
  int per_node =
      choice.gpus_per_node > 0 ? choice.gpus_per_node : degree(reading.row, "gpus_per_node");
  if (per_node > 0 && per_node != cluster.node.gpus) reading.say("node.gpus", per_node);
  if (per_node == 0) per_node = cluster.node.gpus;
  read_nics(reading, *choice.machine);
  const auto gpus = leading_number(reading.said("gpus")).value_or(0);
  const int nodes = topology::nodes_of(static_cast<int>(std::min(gpus, count_max)), per_node);
  if (nodes > cluster.nodes) reading.say("cluster.nodes", nodes);
}

// A fused kernel that the row states is the one that the GPU has, also where the version of
// Megatron-LM has none unless told.
void read_attention(Reading& reading, const input::Machine& machine) {
  const std::string& text = cell(reading.row, "attention");
  if (reading.says("attention")) return;
  const bool fused = contains(text, "flash") || contains(text, "fused") || starts_with(text, "te ");
  if (!fused) return reading.assume("attention", "fused attention");
  if (reading.said("framework").starts_with("megatron-core-0."))
    reading.say("attention", machine.gpu.compute_capability >= 90 ? "cudnn" : "flash");
}

// The tokenizer's of models with that name; else GPT-2's, with which scripts of GPT models train
// [NVIDIA/Megatron-LM examples: gpt2-vocab.json].
void assume_vocabulary(Reading& reading) {
  if (reading.says("architecture.vocab") || reading.says("model")) return;
  if (const auto vocab = input::vocabulary_of(cell(reading.row, "model"))) {
    reading.say("architecture.vocab", *vocab);
    reading.assume("architecture.vocab", fmt::format("a vocabulary of {}", *vocab));
    return;
  }
  reading.say("architecture.vocab", 50257);
  reading.assume("architecture.vocab", "GPT-2's vocabulary of 50,257");
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

// FLOP convention of the row's TFLOP/s: that of its framework's log if the column says that the log
// has it, else that of the column, else the paper's.
void read_convention(Reading& reading, RowPlan& out) {
  const std::string& kind = cell(reading.row, "tflops_kind");
  const input::Framework* framework =
      input::framework_called(cell(reading.row, "framework"), cell(reading.row, "version"));
  const bool logged = contains(kind, " log") || contains(kind, "as reported") ||
                      contains(kind, "as printed") || contains(kind, "per_gpu");
  if (logged && framework != nullptr)
    out.convention = model::find_flop_convention(
        input::log_convention(*framework, cell(reading.row, "version")));
  if (out.convention == nullptr) out.convention = model::convention_for(kind);
  if (out.convention != nullptr) return;
  out.convention = model::find_flop_convention("paper");
  if (!cell(reading.row, "tflops_gpu").empty())
    reading.assume("tflops", "TFLOP/s by the paper's formula");
}

// The plan file of the settings.
std::string file_of(const Reading& reading, Diagnostics& problems) {
  std::vector<std::string> all = reading.defaults;
  all.insert(all.end(), reading.settings.begin(), reading.settings.end());
  return input::plan_text(cell(reading.row, "row_id"), cell(reading.row, "source"), all, problems);
}

// Assumptions sorted by subject.
std::vector<std::string> in_order(std::vector<input::Assumption> assumptions) {
  constexpr std::array order{"architecture.ffn",
                             "architecture.vocab",
                             "data_parallel",
                             "precision",
                             "pp",
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

// Reads all columns. The order matters: what a column states first, a flag does not replace.
void read_columns(Reading& reading, const ClusterChoice& choice) {
  reading.say("cluster", choice.file.empty() ? choice.machine->cluster.name : choice.file);
  read_framework(reading);
  read_network(reading);
  read_precision(reading);
  read_sharding(reading);
  read_recomputation(reading);
  read_flags(reading);
  read_settings(reading);
  if (!reading.unsupported.empty()) return;
  read_degrees(reading);
  if (!reading.unsupported.empty()) return;
  read_schedule(reading);
  read_machine(reading, choice);
  read_attention(reading, *choice.machine);
  assume_vocabulary(reading);
}

}  // namespace

RowPlan plan_of(const Row& row, const input::Machine* machine) {
  RowPlan out;
  const auto refuse = [&](std::string why) {
    out.unsupported = std::move(why);
    return out;
  };
  const ClusterChoice choice =
      machine != nullptr ? ClusterChoice{machine, "", false, 0, machine->path} : cluster_of(row);
  if (choice.machine == nullptr) return refuse(choice.problem);
  Reading reading{row};
  read_columns(reading, choice);
  if (!reading.unsupported.empty()) return refuse(reading.unsupported);
  Diagnostics problems;
  out.file = file_of(reading, problems);
  if (!problems.empty()) return refuse(problems.front().message);
  const Result<input::DraftPlan> loaded = input::read_draft(out.file, "");
  if (!loaded) return refuse(loaded.errors().front().message);
  out.plan = loaded->plan;
  out.machine = loaded->machine;
  out.family = loaded->framework;
  out.memory_only = choice.memory_only;
  for (const std::string& setting : reading.settings)
    out.said.push_back(setting.substr(0, setting.find('=')));
  out.assumes_gpus = degree(row, "n_gpus") == 0 && degree(row, "dp") == 0;
  out.assumes_recompute =
      std::ranges::count(reading.assumptions, "recompute", &input::Assumption::field) > 0;
  if (out.plan.policy.recompute != program::Recompute::none || !out.plan.policy.choices.empty())
    std::erase_if(reading.assumptions,
                  [](const input::Assumption& one) { return one.field == "recompute"; });
  if (out.plan.stack.attention == program::AttentionBackend::unfused)
    std::erase_if(reading.assumptions,
                  [](const input::Assumption& one) { return one.field == "attention"; });
  read_scope(row, out);
  read_convention(reading, out);
  if (const std::string above = above_peak(row, out.plan, *choice.machine); !above.empty()) {
    if (!number(cell(row, "mem_alloc_peak_gib")) && !number(cell(row, "mem_reserved_peak_gib")))
      return refuse(above);
    out.memory_only = true;
    reading.assume("", above);
  }
  reading.assumptions.insert(reading.assumptions.begin(), loaded->assumptions.begin(),
                             loaded->assumptions.end());
  out.assumptions = in_order(std::move(reading.assumptions));
  return out;
}

}  // namespace sim::calibrate
