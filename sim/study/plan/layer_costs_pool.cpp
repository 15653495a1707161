// layer_costs_pool.cpp — computes the layer costs of many keys in worker processes.
#include <nlohmann/json.hpp>

#include "sim/output/json.h"
#include "sim/study/plan/layer_costs.h"
#include "sim/study/sweep/pool.h"

namespace sim::planner {

namespace {

using output::Json;

Json costs_json(const LayerCosts& p) {
  Json json = Json::array();
  for (const PassTimes& times : {p.first, p.last, p.kept, p.again})
    for (const std::int64_t one : {times.forward, times.backward, times.weight})
      json.push_back(one);
  for (const std::int64_t one : {p.first_bytes, p.last_bytes, p.kept_bytes, p.again_bytes,
                                 p.layer_parameters, p.first_parameters, p.last_parameters})
    json.push_back(one);
  return json;
}

LayerCosts layer_costs_of(const Json& json) {
  LayerCosts p;
  std::size_t at = 0;
  for (PassTimes* times : {&p.first, &p.last, &p.kept, &p.again})
    for (std::int64_t* one : {&times->forward, &times->backward, &times->weight}) *one = json[at++];
  for (std::int64_t* one : {&p.first_bytes, &p.last_bytes, &p.kept_bytes, &p.again_bytes,
                            &p.layer_parameters, &p.first_parameters, &p.last_parameters})
    *one = json[at++];
  return p;
}

}  // namespace

bool find_layer_costs(const Space& space, answer::Sites& sites,
                      const std::vector<LayerCostsKey>& keys, const LayerCostsCalls& calls,
                      std::map<LayerCostsKey, LayerCosts>& costs) {
  std::vector<std::size_t> items(keys.size());
  for (std::size_t i = 0; i < items.size(); ++i) items[i] = i;
  bool goes_on = true;
  study::PoolCalls pool;
  pool.answer = [&](std::size_t i) {
    const auto base = static_cast<std::size_t>(std::get<0>(keys[i]));
    answer::Site& site = **sites.of(space.bases()[base].file.machine);
    return costs_json(make_layer_costs(space, keys[i], site)).dump();
  };
  pool.answered = [&](std::size_t i, const std::string& text) {
    costs[keys[i]] = layer_costs_of(Json::parse(text));
    return true;
  };
  pool.failed = [&](std::size_t i, const std::string& why) {
    costs[keys[i]] = {};
    calls.failed(why);
    return true;
  };
  pool.go_on = [&] { return goes_on = goes_on && calls.go_on(); };
  pool.abandon = true;
  return study::run_pool(items, calls.workers, pool) && goes_on;
}

}  // namespace sim::planner
