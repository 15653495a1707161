// memory.cpp — `rehearse memory replay`: fragmentation at the peak, and other allocator options.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/golden/program.h"

using golden::run;

namespace {

const std::string data = REHEARSE_SOURCE_DIR "/tests/allocator/";
const std::string other = " allocator_options=expandable_segments:True";

nlohmann::json options_of(const golden::Finished& finished) {
  REQUIRE(finished.code == 0);
  return nlohmann::json::parse(finished.out).at("result").at("options");
}

}  // namespace

TEST_CASE("golden: a snapshot's requests are replayed under other allocator options") {
  const std::string folder = golden::scratch("other-options");
  const std::string command =
      "./rehearse memory replay " + data + "data/h100_8b_stage.pickle" + other;
  const nlohmann::json rows = options_of(run(command + " --json", folder));
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["options"] == "as recorded");
  CHECK(rows[1]["options"] == "expandable_segments:True");
  CHECK(rows[0]["peak_allocated_bytes"] == rows[1]["peak_allocated_bytes"]);
  for (const auto& row : rows) {
    CHECK(row["allocated_at_peak_bytes"] <= row["peak_reserved_bytes"]);
    CHECK(row["largest_free_at_peak_bytes"].get<double>() <=
          row["peak_reserved_bytes"].get<double>() - row["allocated_at_peak_bytes"].get<double>());
  }
  const golden::Finished text = run(command, folder);
  CHECK(text.out.find("at that peak: largest free block") != std::string::npos);
  CHECK(text.out.find("Both replays have unlimited memory") != std::string::npos);
}

TEST_CASE("golden: what memory replay prints of a trace is PyTorch's answers, byte for byte") {
  const std::string folder = golden::scratch("trace-answers");
  const std::filesystem::path cases = data + "cases";
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(cases)) {
    const std::filesystem::path& path = entry.path();
    const bool older = path.extension() == ".0";  // NAME.expected.2.4.0
    if (path.extension() != ".expected" && !older) continue;
    const std::string name = path.filename().string();
    const std::string trace = (cases / name.substr(0, name.find(".expected"))).string() + ".trace";
    INFO(path);
    CHECK(run("./rehearse memory replay " + trace + (older ? " --rules 2.4.0" : ""), folder).out ==
          golden::text_of(path.string()));
    ++compared;
  }
  CHECK(compared == 12);
}

TEST_CASE("golden: a trace in text is replayed under other allocator options") {
  const std::string folder = golden::scratch("trace-options");
  golden::write(folder + "/a.trace",
                "# capacity=1073741824 conf=-\na 1 12582912\nf 1\na 2 14680064\n");
  const nlohmann::json rows =
      options_of(run("./rehearse memory replay a.trace --json" + other, folder));
  CHECK(rows[0]["peak_reserved_bytes"] == 26 << 20);
  CHECK(rows[0]["free_blocks_at_peak"] == 1);
  CHECK(rows[1]["peak_reserved_bytes"] == 20 << 20);
  CHECK(run("./rehearse memory replay a.trace", folder).err ==
        "at the peak of reserved memory: 27262976 bytes reserved, 14680064 allocated, 12582912 in "
        "the largest of 1 free blocks\n");
  const golden::Finished refused =
      run("./rehearse memory replay a.trace expandable_segments:True", folder);
  CHECK(refused.code == 64);
  CHECK(refused.err.find("allocator_options=expandable_segments:True") != std::string::npos);
  const golden::Finished limited =
      run("./rehearse memory replay " + data +
              "data/h100_8b_stage.pickle allocator_options=garbage_collection_threshold:0.8",
          folder);
  CHECK(limited.code == 65);
  CHECK(limited.err.find("depends on the memory of the device") != std::string::npos);
}

TEST_CASE("golden: files of measurements name the command that reads them") {
  const std::string folder = golden::scratch("other-command");
  const std::string snapshot = data + "data/h100_8b_stage.pickle";
  for (const std::string& command :
       std::vector<std::string>{"compare " + snapshot + " llama-2-7b-64", "explain " + snapshot,
                                "calibrate " + snapshot + " --profile h100-80"}) {
    const golden::Finished finished = run("./rehearse " + command, folder);
    INFO(command << "\n" << finished.err);
    CHECK(finished.code == 65);
    CHECK(finished.err.find("rehearse memory replay " + snapshot) != std::string::npos);
  }
  const golden::Finished trace = run("./rehearse calibrate " REHEARSE_SOURCE_DIR
                                     "/tests/fuzz/corpus/calibrate_readers/kineto.json "
                                     "--profile h100-80",
                                     folder);
  CHECK(trace.code == 65);
  CHECK(trace.err.find("kernels that no operator claims; --plan PLAN") != std::string::npos);
}
