// schedule_rules.h — the rules of pipeline schedules for a plan, and the slices of its sequences.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/program/plan/plan.h"

namespace sim::program {

// The schedule's own rule about its shape, and the rules of schedules that train differently
// (slices, mirrors, vocabulary shares, local losses). Returns every rule that the plan breaks.
// REQUIRES: degrees and batch are in range.
Diagnostics schedule_problems(const Plan& plan);

// Slices of a sequence that the schedule runs one after the other; 1: whole sequences.
int slice_count(const Plan& plan);
// Tokens of each slice. REQUIRES: the plan has no problems.
std::vector<std::int64_t> slice_lengths(const Plan& plan);

// Each part exists twice, on stages that mirror each other.
bool has_mirrors(const Plan& plan);

// The reason why a schedule trains a different model, or trains differently: a search uses such a
// schedule only on request. Empty: it trains like the others.
std::string apart(const schedule::Schedule& schedule);

}  // namespace sim::program
