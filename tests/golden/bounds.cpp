// bounds.cpp — no input makes the program exceed 2 GiB or run for a minute without output. Inputs
// are files that fuzzing found, endless files, archives that unpack to more than they declare, and
// plans at the limits of the rules.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/golden/program.h"

namespace fs = std::filesystem;

namespace {

struct Used {
  int code = 0;        // 128 + signal
  double mib = 0;      // the largest resident size
  double seconds = 0;  // of the CPU: the machine may do other things too
};

// Runs the program directly, without a shell, so that the system's resource usage is the program's
// own.
Used use(const std::string& folder, std::vector<std::string> words) {
  words.insert(words.begin(), "./rehearse");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
    const int nowhere = ::open("/dev/null", O_RDWR);
    for (const int one : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nowhere, one);
    ::alarm(600);  // what waits for ever is ended by a signal
    if (::chdir(folder.c_str()) == 0) ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  int status = 0;
  struct rusage usage {};
  ::wait4(child, &status, 0, &usage);
  Used used;
  used.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  used.mib = static_cast<double>(usage.ru_maxrss) / 1024;
  for (const ::timeval& of : {usage.ru_utime, usage.ru_stime})
    used.seconds += static_cast<double>(of.tv_sec) + static_cast<double>(of.tv_usec) / 1e6;
  return used;
}

void stays_within(const std::string& folder, const std::vector<std::string>& words,
                  double seconds_most = 20) {
  const Used used = use(folder, words);
  std::string line;
  for (const std::string& word : words) line += word + " ";
  INFO(line);
  const std::vector<int> answers = {0, 2, 64, 65, 66};
  CHECK(std::count(answers.begin(), answers.end(), used.code) == 1);
  CHECK(used.mib < 2048 * golden::memory_factor);
  CHECK(used.seconds < seconds_most * golden::cpu_time_factor);
}

}  // namespace

TEST_CASE("golden: what fuzzing kept uses little memory and time") {
  const std::string folder = golden::scratch("bounds_corpus");
  for (const auto& entry :
       fs::recursive_directory_iterator(REHEARSE_SOURCE_DIR "/tests/fuzz/corpus")) {
    if (!entry.is_regular_file()) continue;
    const std::string target = entry.path().parent_path().filename();
    std::string bytes = golden::text_of(entry.path().string());
    std::string name = "input" + entry.path().extension().string();
    // The first byte of these entries selects the schema and is removed.
    if (target == "loaders" || target == "textproto" || target == "plan_file") {
      bytes = bytes.empty() ? "" : bytes.substr(1);
      name = "input.textproto";
    }
    golden::write(folder + "/" + name, bytes);
    if (target == "memory_trace" || target == "memory_pickle")
      stays_within(folder, {"memory", "replay", name});
    else if (target == "calibrate_readers")
      stays_within(folder, {"calibrate", name, "--profile", "a100-80"});
    else if (target == "topology_import")
      stays_within(folder, {"topo", "import", name});
    else if (target == "tables")
      stays_within(folder, {"validate", name});
    else
      stays_within(folder, {"check", name});
  }
}

TEST_CASE("golden: files without end, and what unpacks to more than it says, are bounded") {
  const std::string folder = golden::scratch("bounds_files");
  stays_within(folder, {"check", "/dev/zero"});
  stays_within(folder, {"validate", "/dev/zero"});
  stays_within(folder, {"topo", "import", "/dev/zero"});
  stays_within(folder, {"memory", "replay", "/dev/zero"});
  stays_within(folder, {"calibrate", "/dev/zero", "--profile", "a100-80"});
  const std::string header = "# capacity=1000000000 conf=-\n";
  std::string lines = header;
  while (lines.size() < 66 << 20) lines += "?\n?\n?\n?\n?\n?\n?\n?\n";
  golden::write(folder + "/long.trace", lines);
  stays_within(folder, {"memory", "replay", "long.trace"});
  golden::run(
      "{ printf '{\"traceEvents\":['; yes '{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\","
      "\"ts\":1,\"dur\":1},' | head -n 3000000; printf '{}]}'; } | gzip -1 >bomb.json.gz",
      folder);
  stays_within(folder, {"calibrate", "bomb.json.gz", "--profile", "a100-80"}, 60);
}

TEST_CASE("golden: questions of tens of thousands of values are refused at once") {
  const std::string folder = golden::scratch("bounds_questions");
  const auto ask = [&](const std::string& key, const std::string& begin) {
    std::string values;
    for (int i = 1; i <= 32768; ++i) values += (i > 1 ? "," : "") + begin + std::to_string(i + 20);
    golden::write(folder + "/question.textproto",
                  "model: \"llama-2-7b\"\ncluster: \"dgx-h100\"\ngpus: 16\nbatch: 64\n"
                  "sequence: 4096\nset: \"" +
                      key + "=" + values + "\"\n");
    const Used used = use(folder, {"plan", "question.textproto"});
    INFO(key);
    CHECK(used.code == 65);
    CHECK(used.mib < 256 * golden::memory_factor);
    CHECK(used.seconds < 2 * golden::cpu_time_factor);
    const golden::Finished said = golden::run("./rehearse plan question.textproto", folder);
    CHECK(said.err.size() < 10'000);
    return said.err;
  };
  const std::string many = " (32768 values)";
  for (const auto& [key, begin] :
       std::vector<std::pair<std::string, std::string>>{{"allocator_options", "max_split_size_mb:"},
                                                        {"rank_order", "x"},
                                                        {"tp", ""},
                                                        {"recompute_layers", ""},
                                                        {"recompute_modules", "x"},
                                                        {"attention", "x"}}) {
    const std::string said = ask(key, begin);
    INFO(said);
    CHECK(said.find(key + many) != std::string::npos);
  }
  for (const char* key : {"recompute", "schedule", "zero"})
    CHECK(ask(key, "x").find("'" + std::string(key) + "=x21': is none of ") != std::string::npos);
  CHECK(ask("micro_batch", "x").find("'micro_batch=x21': takes whole numbers from 1 to ") !=
        std::string::npos);
}

TEST_CASE("golden: plans at the edge of what is simulated are bounded") {
  const std::string folder = golden::scratch("bounds_plans");
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"run", "model=llama-3.1-8b", "cluster=dgx-h100", "--quiet"});
    stays_within(folder, words, 60);
  };
  run({"gpus=8", "tp=8", "sequence=2048", "global_batch=200000"});
  run({"gpus=8", "tp=8", "sequence=2048", "global_batch=1000000"});
  run({"gpus=32", "tp=1", "pp=32", "sequence=2048", "global_batch=131072"});
  run({"gpus=1048576", "tp=8", "pp=32", "sequence=2048", "global_batch=1048576"});
  run({"gpus=64", "tp=1", "pp=1", "sequence=131072", "attention=unfused", "global_batch=64"});
  run({"gpus=8", "tp=8", "architecture.layers=4096", "sequence=2048", "global_batch=64"});
}
