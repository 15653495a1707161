// pickle_opcodes.h — the pickle opcodes that are refused, by name.
//
// Source: Python's pickletools, protocols 0 to 5.
#pragma once

namespace sim::allocator {

// What an opcode that is not plain data would do, for the message; nullptr when it is not known.
const char* refused_opcode(unsigned char opcode);

}  // namespace sim::allocator
