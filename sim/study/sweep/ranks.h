// ranks.h — the processes that mpirun or srun started together, as a pool of workers sees them:
// rank 0 has the items and keeps the answers, the others ask for items (pool.h).
//
// The MPI library stands behind this interface in a library of its own (mpi/ranks.cpp,
// rehearse-mpi.so), which the build makes where Open MPI is installed. Where it is not, or where
// the job was not started by it, every process takes a fixed share instead (shard.h).
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

// None where this process is alone, or where the library is not there. Called once in a process.
std::unique_ptr<Ranks> open_ranks(const Environment& environment);

}  // namespace sim::study
