// pickle_opcodes.h — names of the pickle opcodes that the reader refuses.
#pragma once

namespace sim::allocator {

// Name and effect of an opcode that does not build plain data, for the error message. nullptr: the
// opcode is unknown.
const char* refused_opcode(unsigned char opcode);

}  // namespace sim::allocator
