#include "sim/answer/resolve_balanced.h"

#include "sim/answer/balance.h"
#include "sim/answer/layer_choices.h"
#include "sim/answer/microbatch_balance.h"
#include "sim/answer/slices.h"

namespace sim::answer {

CheckedPlan resolve_balanced(const CheckedPlan& plan) {
  return chosen(sliced(balance_microbatches(balanced(plan))));
}

}  // namespace sim::answer
