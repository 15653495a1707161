// catalog.cpp — every pipeline schedule, in one table.
//
// To add one: write schedule/<name>.cpp with its row at the end, then declare the row here and add
// it to the list. Nothing else changes: the command line, the help text, the programs of ranks and
// the shared tests of schedules all read this table.
#include <algorithm>
#include <array>
#include <cassert>
#include <vector>

#include "sim/base/ascii.h"
#include "sim/base/text.h"
#include "sim/job/schedule/schedule.h"

namespace sim::schedule {

extern const Schedule gpipe, one_f_one_b, interleaved_one_f_one_b, zb_h1, zb_h2, zb_1p, zb_2p, zb_v,
    v_half, v_min, interleaved_zb, breadth_first, dualpipe, dualpipe_v, terapipe, zeropp, vocab_1,
    vocab_2, vocab_interlaced, local;

std::span<const Schedule> catalog() {
  static const std::array table{
      gpipe,
      one_f_one_b,
      interleaved_one_f_one_b,
      zb_h1,
      zb_h2,
      zb_1p,
      zb_2p,
      zb_v,
      v_half,
      v_min,
      interleaved_zb,
      breadth_first,
      dualpipe,
      dualpipe_v,
      terapipe,
      zeropp,
      vocab_1,
      vocab_2,
      vocab_interlaced,
      local,
  };
  return table;
}

std::vector<Order> Schedule::orders(const PipelineShape& shape) const {
  if (search) return search(shape);
  std::vector<Order> all;
  for (int stage = 0; stage < shape.stages; ++stage) all.push_back(order(shape, stage));
  return all;
}

const Schedule* find(std::string_view name) {
  for (const Schedule& schedule : catalog())
    if (schedule.name == name) return &schedule;
  return nullptr;
}

const Schedule* find_torch(std::string_view name) {
  for (const Schedule& schedule : catalog())
    if (!schedule.torch.empty() && lower(schedule.torch) == lower(name)) return &schedule;
  return nullptr;
}

const Schedule& default_schedule(int chunks) {
  const DefaultFor wanted = chunks > 1 ? DefaultFor::several_chunks : DefaultFor::one_chunk;
  const auto row = std::ranges::find(catalog(), wanted, &Schedule::default_for);
  assert(row != catalog().end());
  return *row;
}

std::string unknown(std::string_view name) {
  std::vector<std::string> names;
  for (const Schedule& schedule : catalog()) names.emplace_back(schedule.name);
  std::string message = "no schedule '" + std::string(name) + "'" + did_you_mean(name, names);
  message += message.back() == '?' ? " There are " : "; there are ";
  return message + listed(names, "and");
}

}  // namespace sim::schedule
