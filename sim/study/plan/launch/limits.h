// limits.h — what a training program cannot start: schedules, contexts and shards that it does not
// have.
//
// The writers of launch files call `first_broken` for their reason. The search (space.h) leaves
// such plans out if the job names the framework. So both follow the same tables.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/program/plan/plan.h"

namespace sim::planner {

// `megatron_core`: what runs Megatron Core by its own configuration, such as Megatron-Bridge.
enum class Program : std::uint8_t {
  megatron_lm,
  megatron_core,
  nemo_1,
  nemo_2,
  torchtitan,
  nanotron
};

struct Limit {
  // The fields of a search that decide it, separated by blanks. A user who states all of them gets
  // the plan nevertheless.
  std::string_view fields;
  bool (*breaks)(const program::Plan&);
  std::string (*reason)(const program::Plan&);
};

// The limits of a program, in the order in which a writer names them.
std::vector<const Limit*> limits_of(Program program);

// The limits of a framework by its name in workloads/frameworks; none: no program of it is known.
std::vector<const Limit*> limits_of(const std::string& framework);

// The fields of the framework's limits that the plan breaks.
std::vector<std::string> fields_beyond(const std::string& framework, const program::Plan& plan);

// Those without the limits of which all fields are `stated`.
std::vector<const Limit*> limits_of(const std::string& framework,
                                    const std::set<std::string, std::less<>>& stated);

// The reason of the first limit that the plan breaks; "": none.
std::string first_broken(Program program, const program::Plan& plan);

// torchtitan derives the chunks of a stage from pipeline_parallel_layers_per_stage
// [pytorch/torchtitan torchtitan/distributed/pipeline_parallel.py]. Returns the number of layers
// that gives the plan's chunks; the embedding and the head count as layers too. 0: no number does.
int torch_layers_per_stage(const program::Plan& plan);

}  // namespace sim::planner
