// schedule_plan.h — facts of a plan that follow from its schedule: slices of sequences, mirrors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/program/plan/plan.h"

namespace sim::program {

// Slices of a sequence that the schedule runs one after the other; 1: whole sequences.
int slice_count(const Plan& plan);
// Tokens of each slice. REQUIRES: the plan has no problems.
std::vector<std::int64_t> slice_lengths(const Plan& plan);

// Each part exists twice, on stages that mirror each other.
bool has_mirrors(const Plan& plan);

// The reason why a schedule trains a different model, or trains differently: a search uses such a
// schedule only on request. Empty: it trains like the others.
std::string apart(const schedule::Schedule& schedule);

// Whether the schedule is known and runs weight gradients in passes of their own.
bool splits_backward(const Plan& plan);

}  // namespace sim::program
