#include "sim/search/fixes.h"

#include <fmt/format.h>

#include <functional>
#include <utility>

#include "sim/report/table.h"

namespace sim::search {

namespace {

using workload::Plan;
using workload::Recompute;

// Twice the degree at half the replicas, with a batch that still divides.
bool trade_replicas(Plan& plan, int& degree) {
  if (plan.dp % 2 != 0) return false;
  degree *= 2;
  plan.dp /= 2;
  return true;
}

}  // namespace

std::vector<Change> single_changes(const Plan& plan, const Site& site) {
  std::vector<Change> changes;
  const auto offer = [&](const std::string& text, const std::function<bool(Plan&)>& change) {
    Plan other = plan;
    if (change(other) && problems(other, site).empty()) changes.push_back({text, other});
  };
  offer("avoid_record_streams=true",
        [](Plan& p) { return !std::exchange(p.avoid_record_streams, true); });
  offer("allocator_options=expandable_segments:True", [](Plan& p) {
    const bool has = p.allocator_options.find("expandable_segments:True") != std::string::npos;
    if (!has && !p.allocator_options.empty()) p.allocator_options += ",";
    p.allocator_options += "expandable_segments:True";
    return !has;
  });
  offer("distributed_optimizer=true",
        [](Plan& p) { return !std::exchange(p.distributed_optimizer, true); });
  offer("sequence_parallel=true",
        [](Plan& p) { return p.tp > 1 && !std::exchange(p.sequence_parallel, true); });
  if (plan.micro_batch % 2 == 0) {
    offer(fmt::format("micro_batch={}", plan.micro_batch / 2), [](Plan& p) {
      p.micro_batch /= 2;
      return true;
    });
  }
  offer("recompute=selective", [](Plan& p) {
    const bool helps = p.recompute == Recompute::none;
    p.recompute = Recompute::selective;
    return helps && p.attention == workload::AttentionBackend::unfused;
  });
  offer("recompute=full",
        [](Plan& p) { return std::exchange(p.recompute, Recompute::full) != Recompute::full; });
  offer(fmt::format("tp={}", 2 * plan.tp), [](Plan& p) { return trade_replicas(p, p.tp); });
  offer(fmt::format("cp={}", 2 * plan.cp), [](Plan& p) { return trade_replicas(p, p.cp); });
  offer(fmt::format("pp={}", 2 * plan.pp), [](Plan& p) { return trade_replicas(p, p.pp); });
  return changes;
}

std::vector<Fix> try_changes(const Plan& plan, Site& site) {
  std::vector<Fix> fixes;
  for (const Change& change : single_changes(plan, site)) {
    fixes.push_back({change.text, evaluate(change.plan, site)});
  }
  return fixes;
}

std::string fixes_text(const std::vector<Fix>& fixes) {
  if (fixes.empty()) return "\nno single change of the plan is possible\n";
  report::Table table({"<changed to", "<replay says", "reserved GiB", "step s"});
  for (const Fix& fix : fixes) {
    const replay::RunReport& run = fix.answer.run;
    table.row({fix.change, run.fits() ? "fits" : "out of memory",
               run.fits() ? fmt::format("{:.1f}", gib(report::peak_reserved(run))) : "",
               run.fits() ? fmt::format("{:.2f}", report::step_seconds(fix.answer)) : ""});
  }
  return "\nsingle changes of the plan, smallest first, each replayed (tp, cp, pp: at the same "
         "number "
         "of GPUs)\n" +
         table.text();
}

report::Json fixes_json(const std::vector<Fix>& fixes) {
  report::Json json = report::Json::array();
  for (const Fix& fix : fixes) {
    const replay::RunReport& run = fix.answer.run;
    report::Json one = {{"change", fix.change}, {"fits", run.fits()}};
    if (run.fits()) {
      one["step_time_ps"] = run.step_time.ps;
      one["peak_reserved_bytes"] = report::peak_reserved(run).n;
    }
    json.push_back(std::move(one));
  }
  return json;
}

}  // namespace sim::search
