#include "sim/report/record.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/report/csv.h"

namespace sim::report {

namespace {

constexpr int digits = 4;

Json blank(const PointName& name) {
  Json json = {{"id", name.id}};
  for (const std::string& column : columns()) json[column] = nullptr;
  json["point"] = name.point;
  json["family"] = name.family;
  return json;
}

void describe(Json& json, const workload::Plan& plan, const std::string& cluster) {
  json["model"] = plan.architecture.name;
  json["cluster"] = cluster;
  json["gpus"] = plan.world();
  json["tp"] = plan.tp;
  json["cp"] = plan.cp;
  json["pp"] = plan.pp;
  json["dp"] = plan.dp;
  json["virtual_stages"] = plan.virtual_stages;
  json["mbs"] = plan.micro_batch;
  json["gbs"] = plan.global_batch;
  json["seq"] = plan.sequence;
  json["schedule"] = plan.schedule;
  json["recompute"] = to_json(plan)["recompute"];
}

// Shares of the step, in percent, under the names of the columns.
void share(Json& json, const Answer& answer) {
  using replay::Account;
  const std::vector<double> accounts = mean_accounts(answer.run);
  const double step = step_seconds(answer);
  const auto percent = [&](Account account) {
    return rounded(100 * accounts[static_cast<std::size_t>(account)] / step, digits);
  };
  json["compute_pct"] = percent(Account::compute);
  json["exposed_tp_pct"] = percent(Account::tp_exposed);
  json["exposed_cp_pct"] = percent(Account::cp_exposed);
  json["exposed_dp_pct"] = percent(Account::dp_exposed);
  json["optimizer_pct"] = percent(Account::optimizer);
  // The CPU's share has what its data loaders hold up.
  const double cpu = accounts[static_cast<std::size_t>(Account::host)] +
                     accounts[static_cast<std::size_t>(Account::data)];
  json["host_pct"] = rounded(100 * cpu / step, digits);
}

Json event(const replay::OutOfMemory& event) {
  return {{"stage", event.stage},
          {"cp_rank", event.cp_rank},
          {"step", event.place.step},
          {"microbatch", event.place.microbatch},
          {"pass", std::string(workload::name(event.place.pass))},
          {"layer", event.place.layer},
          {"tensor", event.place.label},
          {"requested_bytes", event.requested.n},
          {"device_free_bytes", event.device_free.n},
          {"allocated_bytes", event.allocated.n},
          {"reserved_bytes", event.reserved.n},
          {"fragmentation_alone", event.fragmentation_alone}};
}

}  // namespace

const std::vector<std::string>& columns() {
  static const std::vector<std::string> names = {
      "point",
      "outcome",
      "reason",
      "step_time_s",
      "tflops_gpu_paper",
      "tokens_s_gpu",
      "bubble_pct",
      "peak_allocated_gib",
      "peak_reserved_gib",
      "estimate_gib",
      "estimate_says_fits",
      "family",
      "model",
      "cluster",
      "gpus",
      "tp",
      "cp",
      "pp",
      "dp",
      "virtual_stages",
      "mbs",
      "gbs",
      "seq",
      "schedule",
      "recompute",
      "capacity_gib",
      "tflops_gpu_megatron",
      "mfu_megatron_pct",
      "hfu_pct",
      "textbook_bubble_pct",
      "compute_pct",
      "exposed_tp_pct",
      "exposed_cp_pct",
      "exposed_dp_pct",
      "optimizer_pct",
      "host_pct",
  };
  return names;
}

Json record(const PointName& name, const Answer& answer) {
  Json json = blank(name);
  describe(json, answer.plan, answer.machine.cluster);
  const replay::RunReport& run = answer.run;
  json["outcome"] = run.fits() ? "fits" : "oom";
  json["reason"] = run.fits() ? "" : oom_reason(run);
  if (run.fits()) {
    json["step_time_s"] = rounded(step_seconds(answer), 9);
    json["tflops_gpu_paper"] = rounded(rate(answer, "paper").tflops_gpu, digits);
    json["tflops_gpu_megatron"] = rounded(rate(answer, "megatron").tflops_gpu, digits);
    json["tokens_s_gpu"] = rounded(tokens_per_second_gpu(answer), digits);
    json["mfu_megatron_pct"] = rounded(100 * answer.mfu, digits);
    json["hfu_pct"] = rounded(100 * answer.hfu, digits);
    json["bubble_pct"] = rounded(100 * run.bubble, digits);
    share(json, answer);
  }
  json["textbook_bubble_pct"] = rounded(100 * textbook_bubble(answer.plan), digits);
  json["peak_allocated_gib"] = rounded(gib(peak_allocated(run)), digits);
  json["peak_reserved_gib"] = rounded(gib(peak_reserved(run)), digits);
  json["capacity_gib"] = rounded(gib(fullest(run).capacity), digits);
  json["estimate_gib"] = rounded(answer.estimate.gib, digits);
  json["estimate_says_fits"] = answer.estimate.fits ? 1 : 0;
  if (!run.fits()) json["out_of_memory"] = event(*fullest(run).out_of_memory);
  return json;
}

Json record(const PointName& name, const std::string& outcome, const std::string& reason,
            const workload::Plan& plan, const std::string& cluster) {
  Json json = blank(name);
  json["outcome"] = outcome;
  json["reason"] = reason;
  describe(json, plan, cluster);
  return json;
}

std::string csv_header() {
  return csv_line(columns());
}

std::string csv_row(const Json& record) {
  std::vector<std::string> fields;
  for (const std::string& column : columns()) {
    const auto value = record.find(column);
    if (value == record.end() || value->is_null()) {
      fields.emplace_back();
    } else {
      fields.push_back(value->is_string() ? value->get<std::string>() : line(*value));
    }
  }
  return csv_line(fields);
}

}  // namespace sim::report
