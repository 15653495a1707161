// descriptor.h — reads file descriptors of pipes and sockets to worker processes.
#pragma once

#include <cstddef>

namespace sim {

// Reads exactly `bytes`, again after interrupted calls; false at the end of the stream or an error.
bool read_exactly(int descriptor, void* into, std::size_t bytes);

}  // namespace sim
