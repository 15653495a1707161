// schedule_rules.h — what a pipeline schedule asks of a plan, and what it makes of its batch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/program/plan/plan.h"

namespace sim::program {

// The schedule's own rule about its shape, and those of schedules that train in another way than
// the others: every one that the plan breaks. REQUIRES: degrees and batch are in range.
Diagnostics schedule_problems(const Plan& plan);

// Slices of a sequence that the schedule runs one after the other; 1: whole sequences.
int slice_count(const Plan& plan);
// Tokens of each. REQUIRES: the plan has no problems.
std::vector<std::int64_t> slice_lengths(const Plan& plan);

// Each part is there twice, on stages that mirror each other.
bool has_mirrors(const Plan& plan);

// Why a schedule trains another model, or in another way, than the others: a search takes it only
// where it is asked for. Empty: it does not.
std::string apart(const schedule::Schedule& schedule);

}  // namespace sim::program
