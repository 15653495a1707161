// ranks.h — the processes that mpirun or srun started together. Rank 0 has the items and stores the
// answers; the other ranks ask for items (pool.h).
//
// The MPI library is behind this interface in a shared library (mpi/ranks.cpp, rehearse-mpi.so).
// The build creates it if Open MPI is installed. Without it every process takes a fixed share
// (shard.h).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "sim/study/sweep/shard.h"

namespace sim::study {

struct RankMessage {
  int from = 0;
  std::string bytes;
};

class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void send(int to, const std::string& bytes) = 0;
  // The next message, if one has arrived.
  virtual std::optional<RankMessage> receive() = 0;
};

// Connects to the other ranks; nullptr if this process is alone or the library is missing. Call it
// once per process.
std::unique_ptr<Ranks> open_ranks(const Environment& environment);

}  // namespace sim::study
