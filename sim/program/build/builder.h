// builder.h — writes the program of one rank: a template for each kind of pass, chunk, moment and
// state of its data parallelism, and the passes of a step in the order of its schedule.
//
// A template is what a pass calls:
//
//     forward    begin, batch, [ends] embedding, ([unit] layer)..., head, [ends], end
//     backward   begin, [ends] head, ([unit] recomputed layers, layer)..., embedding, [ends], end
//     weight     ([unit] weight gradients of a layer)..., [ends], end
//
// with [unit] and [ends] what data parallelism does around a unit (sharding.h). Blocks that say
// nothing about parameters are written once and shared by all templates.
#pragma once

#include "sim/program/build/build.h"

namespace sim::program {

// The passes of every stage in the first step and in a later one, in their order.
struct Orders {
  std::vector<schedule::Order> first_step, step;
};
// REQUIRES: problems(plan) is empty.
Orders orders_of(const Plan& plan);

// REQUIRES: problems(plan) is empty; `orders` are the plan's; `program` says its stage and its
// context-parallel rank.
void write_program(const Plan& plan, const Environment& environment, const Orders& orders,
                   Program& program);

}  // namespace sim::program
