// cache.h — a disk cache of the solver's answers, so that later processes need not start the
// solver.
//
// Each query has one file, named by the 128-bit xxh3 hash of its text. The file is written under
// another name and renamed, so a reader sees all of it or nothing. A damaged file (length,
// checksum) is ignored. Times are written so that they read back to the same bits: answers with and
// without the cache are equal. An unwritable folder is not an error.
#pragma once

#include <optional>
#include <string>

#include "sim/cluster/network/query.h"

namespace sim::network {

class Cache {
 public:
  // "": no cache.
  explicit Cache(std::string folder) : folder_(std::move(folder)) {}

  std::optional<Finish> find(const std::string& query_text) const;
  void put(const std::string& query_text, const Finish& finish) const;

 private:
  std::string path(const std::string& query_text) const;

  std::string folder_;
};

// $REHEARSE_CACHE, else $XDG_CACHE_HOME/rehearse, else ~/.cache/rehearse, else "". An empty
// REHEARSE_CACHE turns the cache off.
std::string default_cache_folder();

}  // namespace sim::network
