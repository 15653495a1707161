// commands.cpp — the command line itself: help, usage, exit codes, output that cannot arrive.
#include <catch2/catch.hpp>

#include "tests/golden/program.h"

using golden::run;

TEST_CASE("golden: an unknown command names the nearest and exits 64") {
  const std::string folder = golden::scratch("usage");
  const golden::Finished finished = run("./rehearse swep x", folder);
  CHECK(finished.code == 64);
  CHECK(finished.out.empty());
  CHECK(finished.err.find("there is no command 'swep'; did you mean 'sweep'?") !=
        std::string::npos);
}

TEST_CASE("golden: options are never guessed from abbreviations") {
  const std::string folder = golden::scratch("options");
  const golden::Finished finished = run("./rehearse sweep x --resum", folder);
  CHECK(finished.code == 64);
  CHECK(finished.err.find("did you mean '--resume'?") != std::string::npos);
}

TEST_CASE("golden: a number outside its range is refused with the range") {
  const std::string folder = golden::scratch("numbers");
  for (const char* number : {"0", "-1", "x", "99999999999999999999", "1.5", ""}) {
    INFO(number);
    const golden::Finished finished = run(
        std::string("./rehearse sweep workloads/paper-454.textproto -j '") + number + "'", folder);
    CHECK(finished.code == 64);
    CHECK(finished.err.find("--jobs takes a whole number from 1 to ") != std::string::npos);
  }
}

TEST_CASE("golden: help and version go to stdout and exit 0") {
  const std::string folder = golden::scratch("help");
  CHECK(run("./rehearse --help", folder).out.find("usage: rehearse COMMAND") == 0);
  CHECK(run("./rehearse --version", folder).out.find("rehearse ") == 0);
  for (const char* command : {"run", "sweep", "memory", "calibrate", "validate", "list", "check"}) {
    const golden::Finished finished = run(std::string("./rehearse ") + command + " --help", folder);
    INFO(command);
    CHECK(finished.code == 0);
    CHECK(finished.out.find(std::string("rehearse ") + command) == 0);
  }
  CHECK(run("./rehearse", folder).code == 64);
}

TEST_CASE("golden: a result that cannot be written exits 74") {
  const std::string folder = golden::scratch("stdout");
  const golden::Finished finished = run("./rehearse list > /dev/full", folder);
  CHECK(finished.code == 74);
  CHECK(finished.err == "rehearse: stdout: No space left on device\n");
}

TEST_CASE("golden: an input that is not there exits 66 and one that is wrong exits 65") {
  const std::string folder = golden::scratch("inputs");
  CHECK(run("./rehearse run no-such.textproto", folder).code == 66);
  CHECK(run("./rehearse validate no-such.csv", folder).code == 66);
  CHECK(run("./rehearse memory replay no-such.trace", folder).code == 66);
  CHECK(run("./rehearse calibrate no-such.csv --profile a100-80", folder).code == 66);
  golden::write(folder + "/bad.csv", "hello\n");
  CHECK(run("./rehearse calibrate bad.csv --profile a100-80", folder).code == 65);
  golden::write(folder + "/bad.trace", "# capacity=x conf=-\n");
  CHECK(run("./rehearse memory replay bad.trace", folder).code == 65);
  golden::write(folder + "/bad.textproto", "tpp: 2\nmodel \n");
  const golden::Finished finished = run("./rehearse check bad.textproto", folder);
  CHECK(finished.code == 65);
  CHECK(finished.err.find("bad.textproto:1:1: error: ") != std::string::npos);
}
