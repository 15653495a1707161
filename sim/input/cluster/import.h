// import.h — reads machine and fabric descriptions that other tools print.
//
// `rehearse topo import` calls it. Formats: NCCL's topology XML (NCCL_TOPO_DUMP_FILE), `nvidia-smi
// topo -m`, Slurm's topology.conf, ibnetdiscover.
//
// Invariants
//  (1) Bounded: files up to max_file_bytes, host lists up to max_hosts names, recursion at most as
//      deep as the switches. An XML document type is refused, because it could define entities.
//  (2) All problems of a file are reported at once, each with its line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/base/result.h"
#include "sim/cluster/topology/cluster.h"
#include "sim/cluster/topology/inspect.h"

namespace sim::input {

constexpr std::size_t max_hosts = 1 << 20;

struct Imported {
  std::string format;
  std::optional<topology::Node> node;  // one machine; a rate of 0: unknown
  std::optional<topology::Wiring> wiring;
  bool nvlinks_known = true;            // false: the file lists PCI devices only
  std::vector<std::string> notes = {};  // devices of the file that the node leaves out
};

// Imports a file or text. The contents select the format.
Result<Imported> import_topology(const std::string& path);
Result<Imported> import_text(const std::string& text, const std::string& path);

// One function for each format.
Result<Imported> import_nccl_xml(const std::string& text, const std::string& path);
Result<Imported> import_nvidia_smi(const std::string& text, const std::string& path);
Result<Imported> import_slurm(const std::string& text, const std::string& path);
Result<Imported> import_ibnetdiscover(const std::string& text, const std::string& path);

// The text of a `node` block for a cluster file, with its source.
std::string node_text(const topology::Node& node, const std::string& source);

}  // namespace sim::input
