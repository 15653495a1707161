// locate.h — finds data files by name: "dgx-h100" is topologies/dgx-h100.textproto of the
// repository, "mine/dgx.textproto" is that file.
//
// The repository root is $REHEARSE_ROOT, else the nearest folder above the program that holds
// models/ and topologies/, or has them in share/rehearse (an installed program). What looks like a
// path (a slash or a file extension that is read) is taken from the folder of the file that names
// it, then from the working folder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.h"

namespace sim::input {

enum class Kind : std::uint8_t { model, topology, workload, profile };

// "" when there is none.
std::string repository_root();

// The path of the file. `beside` is the path of the file that names it, "" for the command line.
// Nothing found: the diagnostic lists what there is; its place is for the caller to fill in.
Result<std::string> locate(Kind kind, std::string_view name, const std::string& beside = "");

// A folder of the repository, "models"; where it is missing, where it was looked for.
Result<std::string> data_folder(std::string_view name);

// The names of a kind in the repository, sorted.
std::vector<std::string> names(Kind kind);

}  // namespace sim::input
