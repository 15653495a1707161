#include "sim/engine/deadlock.h"

#include <fmt/format.h>

#include <algorithm>

namespace sim::engine {

namespace {

std::string text_of(const Deadlock::Waiting& one) {
  const std::string rank = fmt::format("stage {} (rank class {})", one.stage, one.rank_class);
  if (one.at_end) return rank + " at the end of the step, with open operations";
  const ProgramLocation& place = one.place;
  std::string text = fmt::format("{} at step {}, {}", rank, place.step, program::name(place.pass));
  if (place.microbatch >= 0) text += fmt::format(" of microbatch {}", place.microbatch);
  if (place.layer >= 0) text += fmt::format(", layer {}", place.layer);
  return text + fmt::format(" ({}: {})", place.block, place.label);
}

std::string text_of(const std::vector<Deadlock::Waiting>& waiting) {
  constexpr std::size_t most = 4;
  std::string text = "ranks wait for each other: ";
  for (std::size_t i = 0; i < std::min(most, waiting.size()); ++i)
    text += (i == 0 ? "" : "; ") + text_of(waiting[i]);
  if (waiting.size() > most) text += fmt::format("; and {} more", waiting.size() - most);
  return text;
}

}  // namespace

Deadlock::Deadlock(std::vector<Waiting> waiting)
    : std::runtime_error(text_of(waiting)), waiting_(std::move(waiting)) {}

}  // namespace sim::engine
