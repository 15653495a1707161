// catalog_facts.h — what files of data say, in words: a cluster, a model, and the comment and the
// sources of any other file. catalog.cpp calls it.
#pragma once

#include <string>
#include <vector>

#include "sim/input/cluster/cluster.h"
#include "sim/model/architecture.h"

namespace sim::command {

// "128 x 8 A100-SXM4-40GB, NVSwitch 300 GB/s, 4 NICs of 100 Gb/s (EFA), fat_tree". Rates of links
// are those of one GPU in one direction.
std::string cluster_line(const input::Machine& machine);
std::vector<std::string> cluster_facts(const input::Machine& machine);

// "6.7 B parameters"
std::string model_line(const model::Architecture& model);
std::vector<std::string> model_facts(const model::Architecture& model);

// The comment at the top of a file, one paragraph a line; and its first sentence.
std::string top_comment(const std::string& text);
std::string first_sentence(const std::string& comment);

// The texts of all fields `source` of a file: `source: "..."`.
std::vector<std::string> sources_in(const std::string& text);

}  // namespace sim::command
