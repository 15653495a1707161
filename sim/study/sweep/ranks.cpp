#include "sim/study/sweep/ranks.h"

#include <dlfcn.h>

#include <filesystem>

#include "sim/base/program_files.h"

namespace sim::study {

namespace {

std::string library(const Environment& environment) {
  const char* given = environment("REHEARSE_MPI");
  return given != nullptr ? given : program_part("rehearse-mpi.so");
}

}  // namespace

std::unique_ptr<Ranks> open_ranks(const Environment& environment) {
  if (!step_shard(environment)) return nullptr;
  // Without an MPI plugin srun starts processes that cannot find each other.
  const bool connected =
      environment("OMPI_COMM_WORLD_SIZE") != nullptr || environment("PMIX_RANK") != nullptr;
  const std::string path = library(environment);
  std::error_code error;
  if (!connected || !std::filesystem::exists(path, error)) return nullptr;
  // Open MPI's plugins need its symbols to be global.
  void* loaded = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (loaded == nullptr) return nullptr;
  void* found = ::dlsym(loaded, "rehearse_open_ranks");
  if (found == nullptr) return nullptr;
  return std::unique_ptr<Ranks>(reinterpret_cast<Ranks* (*)()>(found)());
}

}  // namespace sim::study
