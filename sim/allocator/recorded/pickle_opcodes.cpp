#include "sim/allocator/recorded/pickle_opcodes.h"

#include <algorithm>
#include <array>

namespace sim::allocator {

namespace {

struct Refused {
  unsigned char opcode;
  const char* name;
};
constexpr std::array refused{
    Refused{'c', "GLOBAL (imports code)"},
    Refused{0x93, "STACK_GLOBAL (imports code)"},
    Refused{'R', "REDUCE (calls a function)"},
    Refused{'b', "BUILD (sets an object's state)"},
    Refused{'i', "INST (makes an object)"},
    Refused{'o', "OBJ (makes an object)"},
    Refused{0x81, "NEWOBJ (makes an object)"},
    Refused{0x92, "NEWOBJ_EX (makes an object)"},
    Refused{'P', "PERSID (outside reference)"},
    Refused{'Q', "BINPERSID (outside reference)"},
    Refused{0x82, "EXT1 (registered code)"},
    Refused{0x83, "EXT2 (registered code)"},
    Refused{0x84, "EXT4 (registered code)"},
    Refused{0x8f, "EMPTY_SET"},
    Refused{0x90, "ADDITEMS"},
    Refused{0x91, "FROZENSET"},
    Refused{0x96, "BYTEARRAY8"},
    Refused{0x97, "NEXT_BUFFER (outside buffer)"},
    Refused{0x98, "READONLY_BUFFER (outside buffer)"},
    Refused{'I', "INT (text protocol 0)"},
    Refused{'L', "LONG (text protocol 0)"},
    Refused{'F', "FLOAT (text protocol 0)"},
    Refused{'S', "STRING (text protocol 0)"},
    Refused{'V', "UNICODE (text protocol 0)"},
    Refused{'T', "BINSTRING (Python 2)"},
    Refused{'U', "SHORT_BINSTRING (Python 2)"},
    Refused{'g', "GET (text protocol 0)"},
    Refused{'p', "PUT (text protocol 0)"},
};

}  // namespace

const char* refused_opcode(unsigned char opcode) {
  const auto row = std::ranges::find(refused, opcode, &Refused::opcode);
  return row == refused.end() ? nullptr : row->name;
}

}  // namespace sim::allocator
