#include "sim/study/plan/items.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace sim::planner {

namespace {

using output::Json;

constexpr int variant_bits = 16, step_bits = 2;

std::string bound_text(const SecondBound& bound) {
  constexpr std::int64_t unknown = std::numeric_limits<std::int64_t>::max();
  const std::int64_t room = bound.capacity > 0 ? bound.room() : unknown;
  return Json({{"step_ps", bound.step_ps}, {"room", room}, {"bytes", bound.bytes}}).dump();
}

}  // namespace

std::size_t item_of(const Entry& entry) {
  const auto step = static_cast<std::size_t>(entry.known) - static_cast<int>(Known::waiting);
  return ((std::size_t{entry.core} << variant_bits | entry.variant) << step_bits) | step;
}

std::uint32_t core_of(std::size_t item) {
  return static_cast<std::uint32_t>(item >> (variant_bits + step_bits));
}

Known known_before(std::size_t item) {
  return static_cast<Known>((item & 3) + static_cast<std::size_t>(Known::waiting));
}

std::string answer_item(const Space& space, FirstBounds& first, std::size_t item,
                        answer::Site& site, const Wanted& wanted) {
  const std::uint32_t core = core_of(item);
  const int variant = static_cast<int>(item >> step_bits & 0xffff);
  const PlanShape& of = space.cores()[core];
  const Known known = known_before(item);
  const program::Plan plan = space.plan(of, variant);
  const Result<answer::CheckedPlan> checked = answer::check(plan, site);
  if (!checked) return "null";
  if (known >= Known::third_bound) {
    const Extent extent = known == Known::replay ? Extent::few_retries : Extent::while_it_fits;
    return to_text(replay_plan(space, core, variant, site, wanted, extent));
  }
  if (known == Known::second_bound) return bound_text(third_bound(*checked));
  return bound_text(second_bound(first, of, plan, site));
}

bool sound(const Answers& answers) {
  return std::ranges::all_of(answers, [](const auto& answer) {
    try {
      const Json json = Json::parse(answer.second);
      if (json.is_null()) return true;
      if (known_before(answer.first) >= Known::third_bound) {
        const Replayed one = replayed_of(answer.second);
        return one.step_ps > 0 || !one.fits;
      }
      return json.at("step_ps").is_number_integer() && json.at("room").is_number_integer() &&
             json.at("bytes").is_number_integer();
    } catch (const Json::exception&) {
      return false;
    }
  });
}

}  // namespace sim::planner
