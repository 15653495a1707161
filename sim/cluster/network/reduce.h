// reduce.h — reduces a max-min problem by its symmetry, without changing its answer.
//
// (1) A link whose users and weights are those of a narrower link never binds first: dropped.
// (2) Indistinguishable flows and links are merged (colour refinement of the graph of flows and
//     links, the coarsest equitable partition). Water-filling raises all flows at one pace and
//     freezes flows on a full link. By induction it treats all members of a class alike, so the
//     quotient, in which the flows of a class count together, has exactly their rates.
// (3) Flows that share no link with another class need no solver: bytes x weight / capacity of
//     their tightest link.
//
// The merging is checked against the definition before use; hashes only propose it.
//
// Bertsekas and Gallager, Data Networks, 2nd ed., section 6.5.2 (max-min fairness by
// water-filling); Paige and Tarjan, SIAM J. Comput. 16 (1987) (coarsest equitable partition).
#pragma once

#include "sim/cluster/network/query.h"

namespace sim::network {

struct Reduced {
  // The finish of each class that needs no solver; 0 for the others.
  std::vector<double> alone;
  std::vector<int> class_of_flow;
  // The query for the solver, and the class of each of its flows. Empty: no solver is needed.
  Query query;
  std::vector<int> class_of_query_flow;
};

Reduced reduce(const Query& query);

// The unchanged query, only without unused links.
Reduced unreduced(const Query& query);

// The finish of every flow of the original query, from the solver's answer to `reduced.query`.
Finish expand(const Reduced& reduced, const Finish& solved);

}  // namespace sim::network
