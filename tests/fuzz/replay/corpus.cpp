// corpus.cpp — what fuzzing found is read once more in every test run, by the same targets.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

using Target = int(const std::uint8_t* data, std::size_t size);

}  // namespace

// tests/CMakeLists.txt gives each target's LLVMFuzzerTestOneInput the name of its file.
extern "C" {
Target fuzz_calibrate_readers, fuzz_huggingface, fuzz_launch_file, fuzz_loaders, fuzz_memory_pickle,
    fuzz_memory_trace, fuzz_page_request, fuzz_plan_file, fuzz_records, fuzz_tables, fuzz_textproto,
    fuzz_topology_import;
}

TEST_CASE("fuzz: the corpus of every target is read without a fault") {
  const struct {
    const char* name;
    Target* target;
  } targets[] = {{"calibrate_readers", fuzz_calibrate_readers},
                 {"huggingface", fuzz_huggingface},
                 {"launch_file", fuzz_launch_file},
                 {"loaders", fuzz_loaders},
                 {"memory_pickle", fuzz_memory_pickle},
                 {"memory_trace", fuzz_memory_trace},
                 {"page_request", fuzz_page_request},
                 {"plan_file", fuzz_plan_file},
                 {"records", fuzz_records},
                 {"tables", fuzz_tables},
                 {"textproto", fuzz_textproto},
                 {"topology_import", fuzz_topology_import}};
  for (const auto& [name, target] : targets) {
    const std::string folder = std::string(REHEARSE_SOURCE_DIR "/tests/fuzz/corpus/") + name;
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      paths.push_back(entry.path().string());
    std::sort(paths.begin(), paths.end());
    INFO(folder);
    CHECK_FALSE(paths.empty());
    for (const std::string& path : paths) {
      INFO(path);
      std::ifstream in(path, std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(in), {}};
      CHECK(target(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()) == 0);
    }
  }
}
