// launcher.cpp — the script ./rehearse, with stand-ins for cmake, ninja, dpkg-query, apt-get, id
// and the program: what it calls, when, and what it passes on.
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/golden/program.h"

using golden::run;
using golden::text_of;
namespace fs = std::filesystem;

namespace {

void script(const std::string& path, const std::string& text) {
  golden::write(path, "#!/bin/sh\n" + text);
  ::chmod(path.c_str(), 0755);
}

// An empty repository in a folder with a blank in its name, and a PATH that begins with the
// stand-ins. Every stand-in writes a line to `calls`.
struct Repository {
  std::string folder, root;

  explicit Repository(const std::string& name) {
    folder = golden::scratch(name);
    root = folder + "/a b";
    fs::create_directories(root + "/sim/core");
    fs::create_directories(folder + "/bin");
    fs::copy(fs::path(REHEARSE_SOURCE_DIR) / "rehearse", root);
    for (const char* file : {"/CMakeLists.txt", "/CMakePresets.json", "/sim/core/a.cpp"}) {
      golden::write(root + file, "");
    }
    const std::string calls = folder + "/calls";
    script(folder + "/bin/cmake", "echo cmake >>'" + calls + "'\n");
    script(folder + "/bin/ninja",
           "case \" $* \" in *\" -t \"*) exit ;; esac\n"
           "echo ninja begins >>'" +
               calls +
               "'; sleep 0.2\n"
               "printf '#!/bin/sh\\necho \"$REHEARSE_ROOT|$*|$PWD\"; exit 3\\n' >\"$2/rehearse\"\n"
               "chmod +x \"$2/rehearse\"; echo ninja ends >>'" +
               calls + "'\n");
    script(folder + "/bin/dpkg-query", "echo installed\n");
    script(folder + "/bin/apt-get", "echo apt-get \"$@\" >>'" + calls + "'\n");
    script(folder + "/bin/ctest", "echo ctest \"$@\"; exit 8\n");
  }

  golden::Finished start(const std::string& command) const {
    return run("unset REHEARSE_ROOT; PATH=\"$PWD/bin:$PATH\"; " + command, folder);
  }
  std::string calls() const { return text_of(folder + "/calls"); }
};

const std::string built = "cmake\nninja begins\nninja ends\n";

}  // namespace

TEST_CASE("golden: the launcher builds once and passes arguments and the exit code on") {
  const Repository repository("launcher");
  const golden::Finished first = repository.start("'a b/rehearse' run 'x y' z");
  CHECK(first.code == 3);
  CHECK(first.out == repository.root + "|run x y z|" + repository.folder + "\n");
  CHECK(repository.calls() == built);
  repository.start("'a b/rehearse' list");
  repository.start("cd 'a b/sim' && ../rehearse list");
  repository.start("ln -s 'a b/rehearse' link && ./link list");
  CHECK(repository.calls() == built);
}

TEST_CASE("golden: the launcher builds again when a source changed or went away") {
  const Repository repository("stale");
  repository.start("'a b/rehearse' list");
  repository.start("sleep 0.01; touch 'a b/sim/core/a.cpp'; 'a b/rehearse' list");
  CHECK(repository.calls() == built + built);
  repository.start("sleep 0.01; rm 'a b/sim/core/a.cpp'; 'a b/rehearse' list");
  CHECK(repository.calls() == built + built + built);
}

TEST_CASE("golden: two launchers at once take turns") {
  const Repository repository("turns");
  repository.start("'a b/rehearse' list & 'a b/rehearse' list; wait");
  CHECK(repository.calls() == built + built);
}

TEST_CASE("golden: a build that fails says so and the program is not started") {
  const Repository repository("broken");
  script(repository.folder + "/bin/ninja", "exit 1\n");
  const golden::Finished finished = repository.start("'a b/rehearse' list");
  CHECK(finished.code == 70);
  CHECK(finished.out.empty());
  CHECK(finished.err.find("rehearse: the build failed") != std::string::npos);
}

// A build of a file (8 half seconds), a unity source (10) and an archive (1) that prints `steps`.
// By this clock the first file is built after 40 s.
static void builds_slowly(const Repository& repository, const std::string& steps) {
  script(repository.folder + "/bin/date",
         "echo . >>clock; echo $((1000 + 40 * ($(wc -l <clock) / 2)))\n");
  script(repository.folder + "/bin/ninja",
         "case \" $* \" in *\" -t \"*)\n"
         "  echo 'c++ a.cpp'; echo 'c++ build/Unity/unity_b_cxx.cxx'; "
         "echo 'ar build/Unity/unity_b_cxx.cxx.o'; exit\n"
         "esac\n" +
             steps);
}

TEST_CASE("golden: a long build says how long is left, and errors stand as they are") {
  const Repository repository("left");
  builds_slowly(repository,
                "echo '[step] 1 3 a.o'\n"
                "echo 'a.cpp:1: warning: of the compiler'\n"
                "echo '[step] 2 3 build/Unity/unity_b_cxx.cxx.o'\n");
  const golden::Finished finished = repository.start("'a b/rehearse' test");
  CHECK(finished.err ==
        "rehearse: building for the first time, a few minutes\n"
        "rehearse: 42 % built, about 55 s left\n"
        "a.cpp:1: warning: of the compiler\n");
}

TEST_CASE("golden: a build that goes on says how long is left of what is left") {
  const Repository repository("goes-on");
  // Two of three steps are done, taken for two thirds of the work.
  builds_slowly(repository, "echo '[step] 1 2 a.o'\n");
  const golden::Finished finished = repository.start("'a b/rehearse' test");
  CHECK(finished.err ==
        "rehearse: building for the first time, a few minutes\n"
        "rehearse: 66 % built, about 20 s left\n");
}

TEST_CASE("golden: help of test and bench is printed, and nothing is built") {
  const Repository repository("help");
  for (const std::string command : {"test", "bench"}) {
    const golden::Finished finished = repository.start("'a b/rehearse' " + command + " --help");
    CHECK(finished.code == 0);
    CHECK(finished.out.starts_with("usage: rehearse " + command));
  }
  CHECK(repository.calls().empty());
}

TEST_CASE("golden: a build folder that cannot be written ends with 74 and says what to do") {
  const Repository repository("unwritable");
  // A folder has the name of the lock, so even root cannot open it as a file.
  fs::create_directories(repository.root + "/build/.lock");
  const golden::Finished finished = repository.start("'a b/rehearse' list");
  CHECK(finished.code == 74);
  CHECK(finished.err.starts_with("rehearse: cannot write to "));
  CHECK(finished.err.find("copy the folder") != std::string::npos);
  CHECK(repository.calls().empty());
}

TEST_CASE("golden: a build goes without optional packages, and says what is left out") {
  const Repository repository("optional");
  script(repository.folder + "/bin/dpkg-query",
         "for last; do :; done; [ \"$last\" = pybind11-dev ] || echo installed\n");
  script(repository.folder + "/bin/python3", "exit 1\n");
  script(repository.folder + "/bin/id", "echo 1000\n");
  script(repository.folder + "/bin/sudo", "exit 1\n");
  script(repository.folder + "/bin/cmake", "echo '-- left out: the Python module (why)'\n");
  const golden::Finished finished = repository.start("'a b/rehearse' list");
  CHECK(finished.code == 3);
  CHECK(finished.err.find("rehearse: left out: the Python module (why)\n") != std::string::npos);
}

TEST_CASE("golden: missing packages are installed by root and asked for from others") {
  const Repository repository("packages");
  script(repository.folder + "/bin/dpkg-query",
         "for last; do :; done; [ \"$last\" = libfmt-dev ] || [ \"$last\" = catch2 ] || "
         "echo installed\n");
  script(repository.folder + "/bin/id", "echo 0\n");
  repository.start("'a b/rehearse' list");
  CHECK(repository.calls() ==
        "apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends libfmt-dev "
        "catch2\n" +
            built);

  const Repository other("no-root");
  fs::copy_file(repository.folder + "/bin/dpkg-query", other.folder + "/bin/dpkg-query",
                fs::copy_options::overwrite_existing);
  script(other.folder + "/bin/id", "echo 1000\n");
  // PATH has no sudo: only the stand-ins and a folder with the script's own tools.
  for (const char* tool : {"sh", "mkdir", "flock", "cat", "rm", "mv", "grep", "tail"}) {
    fs::create_symlink(fs::exists(std::string("/bin/") + tool) ? std::string("/bin/") + tool
                                                               : std::string("/usr/bin/") + tool,
                       other.folder + "/bin/" + tool);
  }
  // The program can be built without Catch2, and the tests cannot.
  for (const auto& [command, missing] :
       {std::pair{"list", "libfmt-dev\n"}, std::pair{"test", "libfmt-dev catch2\n"}}) {
    const golden::Finished refused =
        run(std::string("PATH=\"$PWD/bin\"; 'a b/rehearse' ") + command, other.folder);
    CHECK(refused.code == 66);
    CHECK(refused.err.find(std::string("only root may install them: apt-get install ") + missing) !=
          std::string::npos);
  }
}

TEST_CASE("golden: the launcher's test command ends with what ctest says") {
  const Repository repository("ctest");
  const golden::Finished finished = repository.start("'a b/rehearse' test memory -V");
  CHECK(finished.code == 8);
  CHECK(finished.out.find("ctest --test-dir " + repository.root + "/build/ci") == 0);
  CHECK(finished.out.find(" -R memory -V\n") != std::string::npos);
}
