#include "sim/program/parallel/eager.h"

#include "sim/program/ir/rank.h"

namespace sim::program {

// The step counts of the tensors lie on the device, and the CPU reads them one by one
// [decoupled_weight_decay.py:adamw].
void adam_by_operators(Emitter& e, std::int64_t elements) {
  const std::int64_t bytes = 4 * elements;
  const Slot root = local_slot(0), denominator = local_slot(1);
  const auto run = [&](std::string_view name, std::int64_t tensors) {
    e.memory_bound(model::OperationKind::optimizer, name, tensors * bytes, optimizer_work);
  };
  e.sync_stream(Stream::compute, "step count");
  e.host(HostWork::blocking_read);
  run("adam scale", 2);
  run("adam add", 3);
  run("adam scale", 2);
  run("adam add square", 3);
  e.alloc(root, bytes, Category::temporaries, "root of exp_avg_sq");
  run("adam root", 2);
  e.alloc(denominator, bytes, Category::temporaries, "denominator");
  run("adam divide", 2);
  e.free(root);
  run("adam scale", 2);
  run("adam update", 4);
  e.free(denominator);
}

}  // namespace sim::program
