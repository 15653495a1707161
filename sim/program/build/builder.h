// builder.h — writes the program of one rank. It writes the templates of passes, and the passes of
// each step in the order of the schedule. A template depends on the kind of pass, the chunk, its
// place in the step and the state of data parallelism.
//
// A template lists the blocks that a pass calls:
//
//     forward    begin, batch, [ends] embedding, ([unit] layer)..., head, [ends], end
//     backward   begin, [ends] head, ([unit] recomputed layers, layer)..., embedding, [ends], end
//     weight     ([unit] weight gradients of a layer)..., [ends], end
//
// [unit] and [ends] are the work of data parallelism around a unit (sharding.h). Blocks without
// parameters are written once and shared by all templates.
#pragma once

#include "sim/job/schedule/order_cache.h"
#include "sim/program/build/build.h"

namespace sim::program {

// The passes of every stage in the first step and in a later one, in their order.
struct Orders {
  schedule::SharedOrders first_step, step;
};
// REQUIRES: problems(plan) is empty.
Orders orders_of(const Plan& plan);

// REQUIRES: problems(plan) is empty; `orders` are the plan's; `program` says its stage and its
// context-parallel rank.
void write_program(const Plan& plan, const Environment& environment, const Orders& orders,
                   Program& program);

}  // namespace sim::program
