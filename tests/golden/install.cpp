// install.cpp — an installed tree works from any folder, without the repository.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/golden/program.h"

using golden::Finished;
using golden::run;
namespace fs = std::filesystem;

TEST_CASE("golden: an installed program answers as the built one, also where it was moved") {
  const std::string folder = golden::scratch("install");
  const Finished made = run("cmake --install '" REHEARSE_BINARY_DIR "' --prefix first", folder);
  INFO(made.err);
  REQUIRE(made.code == 0);
  fs::rename(folder + "/first", folder + "/second place");
  for (const char* link : {"models", "topologies", "workloads", "calibration"})
    fs::remove(folder + "/" + link);
  // An empty environment except for the folder of the cache.
  const std::string program = "env -i XDG_CACHE_HOME=\"$PWD/cache\" './second place/bin/rehearse' ";
  for (const std::string command : {"run llama-2-7b-64 --json", "list models", "--version"}) {
    const Finished moved = run(program + command, folder);
    INFO(command << "\n" << moved.err);
    CHECK(moved.code == 0);
    const Finished built = run("./rehearse " + command, golden::scratch("not_installed"));
    CHECK(moved.out == built.out);
  }
  for (const char* file :
       {"share/man/man1/rehearse.1", "share/man/man1/rehearse-run.1",
        "share/bash-completion/completions/rehearse", "share/zsh/site-functions/_rehearse",
        "share/fish/vendor_completions.d/rehearse.fish", "share/rehearse/sim/schemas/run.json",
        "libexec/rehearse/rehearse-network", "share/doc/rehearse/README.md",
        "share/doc/rehearse/sim/README.md", "share/doc/rehearse/sim/formats.md",
        "share/doc/rehearse/sim/CHANGELOG.md", "share/doc/rehearse/sim/extending.md"}) {
    INFO(file);
    CHECK(fs::file_size(folder + "/second place/" + file) > 100);
  }
  fs::remove_all(folder);
}

TEST_CASE("golden: a C++ project finds the installed library, and gets the program's answer") {
  const std::string folder = golden::scratch("library");
  const Finished made = run("cmake --install '" REHEARSE_BINARY_DIR
                            "' --prefix tree && cmake -S '" REHEARSE_SOURCE_DIR
                            "/sim/library/example' -B example -DCMAKE_PREFIX_PATH=\"$PWD/tree\" && "
                            "cmake --build example",
                            folder);
  INFO(made.out << made.err);
  REQUIRE(made.code == 0);
  const Finished asked = run("env -u REHEARSE_ROOT ./example/example", folder);
  INFO(asked.err);
  CHECK(asked.code == 0);
  const Finished built = run("./rehearse run llama-2-7b-64 tp=4 --json", folder);
  CHECK(nlohmann::json::parse(asked.out) == nlohmann::json::parse(built.out));
  fs::remove_all(folder);
}
