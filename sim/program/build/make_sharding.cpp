#include "sim/program/build/make_sharding.h"

#include "sim/program/parallel/ddp/depth.h"
#include "sim/program/parallel/ddp/zero1.h"
#include "sim/program/parallel/deepspeed/deepspeed_zero1.h"
#include "sim/program/parallel/fsdp/fsdp.h"

namespace sim::program {

std::unique_ptr<Sharding> make_sharding(Rank& rank) {
  if (rank.plan.shards_parameters()) return std::make_unique<Fsdp>(rank);
  if (rank.plan.mesh.tensor_depth > 1) return std::make_unique<Depth>(rank);
  if (rank.plan.sharding.deepspeed_optimizer) return std::make_unique<DeepspeedZero1>(rank);
  if (rank.plan.sharding.distributed_optimizer) return std::make_unique<Zero1>(rank);
  return std::make_unique<Replicated>(rank);
}

}  // namespace sim::program
