// import.h — reads what other tools say about a machine or a fabric: NCCL's topology XML
// (NCCL_TOPO_DUMP_FILE), `nvidia-smi topo -m`, Slurm's topology.conf, ibnetdiscover.
//
// Invariants
//  (1) Bounded: files up to max_file_bytes, host lists up to max_hosts names, no recursion deeper
//      than the switches there are; an XML document type (where entities could be) is refused.
//  (2) All problems of a file at once, each with its line.
#pragma once

#include <optional>
#include <string>

#include "sim/base/result.h"
#include "sim/cluster/topology/cluster.h"
#include "sim/cluster/topology/inspect.h"

namespace sim::input {

constexpr std::size_t max_hosts = 1 << 20;

struct Imported {
  std::string format;
  std::optional<topology::Node> node;  // one machine; rates of 0: the file does not say
  std::optional<topology::Wiring> wiring;
  bool nvlinks_known = true;  // false: the file lists PCI functions alone
};

// The format is told by what the text looks like.
Result<Imported> import_topology(const std::string& path);
Result<Imported> import_text(const std::string& text, const std::string& path);

// Each format by itself.
Result<Imported> import_nccl_xml(const std::string& text, const std::string& path);
Result<Imported> import_nvidia_smi(const std::string& text, const std::string& path);
Result<Imported> import_slurm(const std::string& text, const std::string& path);
Result<Imported> import_ibnetdiscover(const std::string& text, const std::string& path);

// The `node` block of a cluster description, with a source.
std::string node_text(const topology::Node& node, const std::string& source);

}  // namespace sim::input
