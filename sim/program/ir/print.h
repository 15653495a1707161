// print.h — the program of a rank class as text, and a fingerprint of that text.
//
// Numbers that a builder gives out do not show. A tensor is named by the instruction that made it
// (template, call, how many tensors its block had made), a wait by the instruction that set its
// event; operations, transfers and exchanges stand where they are used; blocks and templates are
// numbered as they first appear, blocks by what is in them. So two builders whose ranks issue the
// same print the same, whatever slots and events they use, and moves, which only change a
// tensor's holder, are not printed.
//
//     block 4 "layer forward"
//       host layer_forward 1
//       alloc %0 33554432 activations compute "norm output"
//       kernel compute norm "norm" ...
//       free ^2                        the third tensor that the block was handed
//     template 3 forward chunk 0, walk 5
//       call block 4 layer 7: t3.1.0 t0.0.12 -
//     pass template 3 walk 5 microbatch 2 frame 1 steady
//
// A walk is one binding of a template's blocks to the tensors that they are handed.
#pragma once

#include <cstdint>
#include <string>

#include "sim/program/ir/program.h"

namespace sim::program {

std::string print(const Program& program);
// Of what print() says, without writing it.
std::uint64_t fingerprint(const Program& program);

}  // namespace sim::program
