#include "sim/base/descriptor.h"

#include <unistd.h>

#include <cerrno>

namespace sim {

bool read_exactly(int descriptor, void* into, std::size_t bytes) {
  char* at = static_cast<char*>(into);
  while (bytes > 0) {
    const ssize_t got = ::read(descriptor, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace sim
