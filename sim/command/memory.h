// memory.h — a recorded CUDA memory snapshot as a page, for `serve`.
#pragma once

#include <string>

#include "sim/output/document.h"

namespace sim::command {

// Memory over the recorded events of each GPU, and how well our allocator repeats them. `bytes`:
// the pickle of torch.cuda.memory._dump_snapshot. Stops if it cannot be read.
output::Document snapshot_page(const std::string& bytes, const std::string& name);

}  // namespace sim::command
