#include "sim/allocator/recorded/pickle_opcodes.h"

namespace sim::allocator {

const char* refused_opcode(unsigned char opcode) {
  switch (opcode) {
    case 'c':
      return "GLOBAL (imports code)";
    case 0x93:
      return "STACK_GLOBAL (imports code)";
    case 'R':
      return "REDUCE (calls a function)";
    case 'b':
      return "BUILD (sets an object's state)";
    case 'i':
      return "INST (makes an object)";
    case 'o':
      return "OBJ (makes an object)";
    case 0x81:
      return "NEWOBJ (makes an object)";
    case 0x92:
      return "NEWOBJ_EX (makes an object)";
    case 'P':
      return "PERSID (outside reference)";
    case 'Q':
      return "BINPERSID (outside reference)";
    case 0x82:
      return "EXT1 (registered code)";
    case 0x83:
      return "EXT2 (registered code)";
    case 0x84:
      return "EXT4 (registered code)";
    case 0x8f:
      return "EMPTY_SET";
    case 0x90:
      return "ADDITEMS";
    case 0x91:
      return "FROZENSET";
    case 0x96:
      return "BYTEARRAY8";
    case 0x97:
      return "NEXT_BUFFER (outside buffer)";
    case 0x98:
      return "READONLY_BUFFER (outside buffer)";
    case 'I':
      return "INT (text protocol 0)";
    case 'L':
      return "LONG (text protocol 0)";
    case 'F':
      return "FLOAT (text protocol 0)";
    case 'S':
      return "STRING (text protocol 0)";
    case 'V':
      return "UNICODE (text protocol 0)";
    case 'T':
      return "BINSTRING (Python 2)";
    case 'U':
      return "SHORT_BINSTRING (Python 2)";
    case 'g':
      return "GET (text protocol 0)";
    case 'p':
      return "PUT (text protocol 0)";
    default:
      return nullptr;
  }
}

}  // namespace sim::allocator
