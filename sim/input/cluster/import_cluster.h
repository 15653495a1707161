// import_cluster.h — a whole cluster from what other tools said of a machine and of a fabric, and
// from a cluster that is known for what they do not say: the GPU, rates, latencies.
#pragma once

#include <span>
#include <string>

#include "sim/input/cluster/import.h"

namespace sim::input {

struct ImportedFile {
  std::string path;
  Imported read;
};

// A cluster description, which was read back and broke no rule. `like`: a cluster by name or path.
// NVLinks that a file cannot know (the files of clouds list PCI functions alone) are those of
// `like` where it has as many GPUs a node. An import of one kind twice is a problem.
Result<std::string> cluster_text(std::span<const ImportedFile> files, const std::string& like,
                                 const std::string& name);

}  // namespace sim::input
