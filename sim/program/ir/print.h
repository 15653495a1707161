// print.h — the program of a rank class as text, and a fingerprint of that text.
//
// Tests compare fingerprints (tests/program/fingerprints.txt) to show that a change of the builder
// leaves every program as it was. The text shows where two programs differ.
//
// Two builders print the same text if their ranks issue the same work. The text hides numbers that
// a builder chooses freely:
//
//     tensor      named by the instruction that made it: template, call, count in its block
//     wait        named by the instruction that recorded its event
//     operation   written out at each use; transfers and exchanges too
//     block       numbered by content, in order of first appearance; templates too
//     move        not printed: it changes the slot of a tensor, not the memory
//
// Example:
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
// A walk binds the blocks of a template to the tensors that they receive.
#pragma once

#include <cstdint>
#include <string>

#include "sim/program/ir/program.h"

namespace sim::program {

// The program as text.
std::string print(const Program& program);
// A hash of the content of print(), computed without the text.
std::uint64_t fingerprint(const Program& program);

}  // namespace sim::program
