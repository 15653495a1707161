// cache.h — answers of the solver on disk, so that the next process need not start it.
//
// One file per query, named by the 128-bit xxh3 hash of its text; written under another name and
// renamed, so a reader sees all of it or nothing. A file that is not exactly what was written
// (length, checksum) is ignored. Times are written so that they read back to the same bits: answers
// with and without the cache are equal. A folder that cannot be written is no error.
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
