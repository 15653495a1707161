// document_json.cpp — the result of a search as JSON.
#include <nlohmann/json.hpp>

#include "sim/study/plan/report_values.h"

namespace sim::planner {

using output::Json;

namespace {

// `settings`: of `run`.
Json plan_json(const SearchReport& said, const Replayed& one, const std::string& settings) {
  Json json = {{"settings", settings},
               {"step_time_s", seconds_of(one)},
               {"tokens_s_gpu", one.tokens_s_gpu},
               {"tflops_gpu_megatron", one.tflops_gpu},
               {"mfu", one.mfu},
               {"bubble", one.bubble},
               {"peak_reserved_gib", gib_of(one.reserved)},
               {"capacity_gib", gib_of(one.capacity)}};
  if (one.likely >= 0) json["fits_probability"] = one.likely;
  if (one.low_s > 0) json["step_interval_90_s"] = {one.low_s, one.high_s};
  if (said.cost.price_per_gpu_hour > 0)
    json["cost_per_million_tokens"] = cost_per_million(said, one);
  if (said.cost.power_w > 0) json["joules_per_token"] = said.cost.power_w / one.tokens_s_gpu;
  if (said.cost.tokens > 0) {
    const answer::RunCost run = answer::run_cost(said.cost, one.tokens_s_gpu, gpus_of(said, one));
    json["days"] = run.days;
    if (run.cost > 0) json["cost"] = run.cost;
    if (run.mwh > 0) json["energy_mwh"] = run.mwh;
  }
  return json;
}

Json plan_json(const SearchReport& said, const Replayed& one) {
  return plan_json(said, one, said.space.words(said.space.cores()[one.core], one.variant));
}

// The plan that the search starts from, and what the best changes in it.
Json own_json(const SearchReport& said) {
  const OwnPlan& own = *said.own;
  Json json = {{"file", own.path}, {"fits", !own.replayed.accounts.empty()}};
  if (own.replayed.accounts.empty()) {
    json["reason"] = own.replayed.reason;
  } else {
    json["plan"] = plan_json(said, own.replayed, words_from_own(own, *own.file.plan));
  }
  json["changes"] = Json::array();
  if (said.outcome.best.empty()) return json;
  for (const Change& one :
       changes(*own.file.plan, plan_of(said, said.outcome.best.front()), own.said))
    json["changes"].push_back({{"field", one.field}, {"from", one.from}, {"to", one.to}});
  return json;
}

}  // namespace

Json to_json(const SearchReport& said) {
  const Outcome& outcome = said.outcome;
  Json json = {{"plans", Json::array()}};
  for (const Replayed& one : outcome.best) {
    json["plans"].push_back(plan_json(said, one));
    json["plans"].back()["proven"] = one.proven;
    json["plans"].back()["programs"] = programs_of(said, one);
  }
  if (said.own != nullptr) json["own"] = own_json(said);
  if (outcome.tight) json["tight"] = plan_json(said, *outcome.tight);
  const Counts& c = outcome.counts;
  json["space"] = {{"plans", c.plans},
                   {"impossible", c.impossible},
                   {"cut_by_time", c.cut_by_time},
                   {"cut_by_memory", c.cut_by_memory},
                   {"replayed", c.replayed},
                   {"left", c.left}};
  json["complete"] = outcome.complete;
  if (!outcome.complete) json["least_left_s"] = outcome.least_left_s;
  json["front"] = Json::array();
  for (const Replayed& one : front(outcome.replayed)) json["front"].push_back(plan_json(said, one));
  json["neighbours"] = Json::array();
  for (const Neighbour& one : said.neighbours)
    json["neighbours"].push_back(
        {{"change", one.change},
         {"fits", one.replayed.fits},
         {"step_time_s",
          one.replayed.accounts.empty() ? Json(nullptr) : Json(seconds_of(one.replayed))},
         {"why", one.why},
         {"out_of_memory", one.replayed.accounts.empty() ? one.replayed.reason : ""}});
  if (!said.lifted.empty()) json["constraints"] = Json::array();
  for (const Lifted& one : said.lifted)
    json["constraints"].push_back(
        {{"constraint", one.constraint},
         {"change", one.change},
         {"tokens_s_gpu", one.tokens_s_gpu > 0 ? Json(one.tokens_s_gpu) : Json(nullptr)},
         {"gain", one.tokens_s_gpu > 0 ? Json(gain_of(said, one)) : Json(nullptr)},
         {"plan", one.plan}});
  json["refined"] = Json::array();
  for (const Refined& one : said.refined)
    json["refined"].push_back({{"plan", one.rank + 1},
                               {"settings", one.settings},
                               {"step_time_s", seconds_of(one.replayed)},
                               {"tokens_s_gpu", one.replayed.tokens_s_gpu},
                               {"peak_reserved_gib", gib_of(one.replayed.reserved)},
                               {"capacity_gib", gib_of(one.replayed.capacity)}});
  json["launch"] = Json::array();
  for (const LaunchText& one : said.launches)
    json["launch"].push_back({{"program", one.program},
                              {"file", one.file},
                              {"text", one.text},
                              {"not_said", one.left},
                              {"settings", said.launched}});
  if (outcome.complete && outcome.best.empty() && outcome.nearest_known)
    json["nearest"] = {{"settings", said.space.words(said.space.cores()[outcome.nearest_core], 0)},
                       {"lacks_gib", gib_of(outcome.nearest_lacks)}};
  if (!said.relaxed.empty()) json["would_give"] = said.relaxed;
  return json;
}

}  // namespace sim::planner
