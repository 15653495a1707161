// items.h — the computations that a search hands to its workers: the next bound of a plan, or its
// replay. An item is a number, so that shards of a search can exchange answers.
#pragma once

#include <cstddef>
#include <string>

#include "sim/study/plan/bounds.h"
#include "sim/study/plan/candidates.h"

namespace sim::planner {

// The next computation of an entry. For an entry that was replayed already it is a second replay,
// which does not stop when less memory is free than the user wants (Extent::few_retries).
std::size_t item_of(const Entry& entry);
std::uint32_t core_of(std::size_t item);
// The kind of bound that a plan had before an item was computed.
Known known_before(std::size_t item);

// Computes an item, in a worker: JSON; "null" for a plan that is impossible.
std::string answer_item(const Space& space, FirstBounds& first, std::size_t item,
                        answer::Site& site, const Wanted& wanted);

}  // namespace sim::planner
