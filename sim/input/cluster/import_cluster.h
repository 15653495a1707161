// import_cluster.h — builds a complete cluster file from imports and a known cluster.
//
// `rehearse topo import --like` calls it. The imports give node and wiring; the known cluster
// `like` gives the GPU, rates and latencies.
#pragma once

#include <span>
#include <string>

#include "sim/input/cluster/import.h"

namespace sim::input {

struct ImportedFile {
  std::string path;
  Imported read;
};

// The text of a cluster file. It was parsed again and satisfies all rules. `like`: a cluster name
// or path. An import without NVLinks (cloud files list PCI devices only) takes those of `like`, if
// both have the same number of GPUs per node. Error: two imports of one kind.
Result<std::string> cluster_text(std::span<const ImportedFile> files, const std::string& like,
                                 const std::string& name);

}  // namespace sim::input
