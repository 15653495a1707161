// confine.h — restricts which files this process reads, for requests that come from a network.
//
// `rehearse serve` calls confine_reads in each worker before its first request. read_file and
// locate ask may_read for every path. Without confine_reads every file may be read.
#pragma once

#include <string>
#include <vector>

namespace sim::input {

// From now on only files in these folders and below may be read. Not reversible: a second call can
// only be made with the same folders.
void confine_reads(const std::vector<std::string>& folders);

// Whether the file may be read, with all symbolic links resolved.
bool may_read(const std::string& path);

}  // namespace sim::input
