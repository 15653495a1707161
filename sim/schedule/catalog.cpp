// catalog.cpp — every pipeline schedule, in one table.
//
// To add one: write schedule/<name>.cpp, then add its two lines here. Nothing else changes: the
// command line, the help text, and the tests every schedule must pass all read this table.
#include <array>
#include <cstdint>
#include <vector>

#include "sim/core/text.h"
#include "sim/schedule/schedule.h"

namespace sim::schedule {

Order gpipe(const Shape& shape, int stage);
Order one_f_one_b(const Shape& shape, int stage);
Order interleaved_one_f_one_b(const Shape& shape, int stage);
Order zb_h1(const Shape& shape, int stage);

namespace {

// What every schedule asks of a shape. The limits keep an order within a few tens of megabytes.
std::string out_of_range(const Shape& shape) {
  const auto outside = [](const char* what, int given, int most) {
    return std::string(what) + " is " + std::to_string(given) + "; it must be 1 to " +
           std::to_string(most);
  };
  if (shape.stages < 1 || shape.stages > max_stages)
    return outside("the number of pipeline stages", shape.stages, max_stages);
  if (shape.microbatches < 1 || shape.microbatches > max_passes)
    return outside("the number of microbatches", shape.microbatches, max_passes);
  if (shape.chunks < 1 || shape.chunks > max_passes)
    return outside("the number of virtual stages", shape.chunks, max_passes);
  const std::int64_t passes = std::int64_t{shape.microbatches} * shape.chunks;
  if (passes > max_passes)
    return "microbatches x virtual stages is " + std::to_string(passes) + "; it must be at most " +
           std::to_string(max_passes);
  return "";
}

std::string needs_one_chunk(const Shape& shape) {
  if (std::string problem = out_of_range(shape); !problem.empty()) return problem;
  if (shape.chunks != 1)
    return "the schedule runs one model chunk per stage, not " + std::to_string(shape.chunks) +
           " virtual stages; write 1, or use interleaved-1f1b";
  return "";
}

std::string needs_whole_groups(const Shape& shape) {
  if (std::string problem = out_of_range(shape); !problem.empty()) return problem;
  if (shape.stages < 2)
    return "interleaving needs at least 2 pipeline stages, not 1; use 1f1b for one stage";
  if (shape.chunks < 2)
    return "interleaving needs at least 2 virtual stages, not 1; use 1f1b for one";
  if (const int over = shape.microbatches % shape.stages; over != 0) {
    const int below = shape.microbatches - over;
    std::string message = "interleaving needs a number of microbatches that is a multiple of the ";
    message += std::to_string(shape.stages) + " stages, not ";
    message += std::to_string(shape.microbatches) + "; write ";
    if (below > 0) message += std::to_string(below) + " or ";
    return message + std::to_string(std::int64_t{below} + shape.stages);
  }
  return "";
}

}  // namespace

std::span<const Schedule> catalog() {
  static constexpr std::array table{
      Schedule{"gpipe", "all forwards, then all backwards", "arXiv:1811.06965", false, false,
               needs_one_chunk, gpipe},
      Schedule{"1f1b", "one forward, one backward; bounded memory", "arXiv:2006.09503", false,
               false, needs_one_chunk, one_f_one_b},
      Schedule{"interleaved-1f1b", "1f1b over several model chunks per stage; smaller bubble",
               "arXiv:2104.04473", false, true, needs_whole_groups, interleaved_one_f_one_b},
      Schedule{"zb-h1", "weight gradients split off to fill the drain; memory of 1f1b",
               "arXiv:2401.10241", true, false, needs_one_chunk, zb_h1},
  };
  return table;
}

const Schedule* find(std::string_view name) {
  for (const Schedule& schedule : catalog())
    if (schedule.name == name) return &schedule;
  return nullptr;
}

std::string unknown(std::string_view name) {
  std::vector<std::string> names;
  for (const Schedule& schedule : catalog()) names.emplace_back(schedule.name);
  std::string message = "no schedule '" + std::string(name) + "'" + did_you_mean(name, names);
  message += message.back() == '?' ? " There are " : "; there are ";
  for (std::size_t i = 0; i < names.size(); ++i)
    message += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return message;
}

}  // namespace sim::schedule
