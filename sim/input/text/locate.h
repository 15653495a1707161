// locate.h — finds data files by name: "dgx-h100" is topologies/dgx-h100.textproto of the
// repository.
//
// Every loader that takes a name calls it. $REHEARSE_ROOT is the repository root. Without it, the
// root is the nearest folder above the program that contains models/ and topologies/. An installed
// program has these folders in share/rehearse.
//
// A name with a slash, .textproto or .json is a path. It is looked up in three places, in this
// order: the folder of the file that names it, the working folder, the repository root. Any other
// name is looked up in the repository, then as a file without a suffix in the working folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.h"

namespace sim::input {

enum class Kind : std::uint8_t { model, topology, workload, profile };

// The path of the repository root; "" if there is none.
std::string repository_root();

// The path of the file. `beside`: path of the file that names it, "" for the command line. Error: a
// diagnostic that lists the existing names. The caller fills in its place.
Result<std::string> locate(Kind kind, std::string_view name, const std::string& beside = "");

// The path of a repository folder such as "models". Error: a diagnostic with the searched path.
Result<std::string> data_folder(std::string_view name);

// All names of a kind in the repository, sorted.
std::vector<std::string> names(Kind kind);

// Paths of the files of a folder with this extension, sorted by name; none without the folder.
// Throws if the folder is there and cannot be read (base/machine_error.h).
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder,
                                            std::string_view extension = ".textproto");

}  // namespace sim::input
