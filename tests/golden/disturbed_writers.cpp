// disturbed_writers.cpp — one system call of a command goes wrong (fault.h), at each call and in
// each way. The command ends with a documented exit code and a message, or gives the answer and
// the files of an undisturbed run. Files are the old ones or the whole new ones.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tests/golden/fault.h"
#include "tests/golden/writers.h"

namespace {

namespace fs = std::filesystem;
using golden::Fault;
using golden::Finished;
using golden::Writer;

class DisturbedWriter {
 public:
  DisturbedWriter(const Writer& writer, const std::string& folder)
      : writer_(writer), folder_(folder) {
    golden::place_old(writer, folder);
    whole_ = golden::run(writer.command, folder);
    INFO(writer.command << "\n" << whole_.err);
    REQUIRE((whole_.code == 0 || whole_.code == 2));
    for (const std::string& file : writer.files) {
      texts_.push_back(golden::text_of(folder + "/" + file));
      REQUIRE(texts_.back() != golden::old_text);
    }
    names_ = names();
  }

  std::vector<Fault> faults() {
    golden::place_old(writer_, folder_);
    return golden::faults_of(writer_.command, folder_);
  }

  // What is wrong after this fault; "" if nothing is.
  std::string survives(const Fault& fault) {
    golden::place_old(writer_, folder_);
    const Finished spoilt = golden::with_fault(fault, writer_.command, folder_);
    if (std::string bad = golden::bad_ending(fault, spoilt); !bad.empty()) return bad;
    const bool passing =
        std::string_view(fault.way) == "interrupted" || std::string_view(fault.way) == "short";
    if (passing && spoilt.code != whole_.code)
      return golden::told(fault, "is stopped by it", spoilt);
    if (spoilt.code == 2 && whole_.code != 2) return golden::told(fault, "says no", spoilt);
    const bool done = spoilt.code == whole_.code;
    if (done && spoilt.out != whole_.out) return golden::told(fault, "prints otherwise", spoilt);
    for (std::size_t f = 0; f < texts_.size(); ++f) {
      const std::string left = golden::text_of(folder_ + "/" + writer_.files[f]);
      const bool whole = left == texts_[f], old = left == golden::old_text;
      // A sweep keeps points whose worker was lost, says so and ends with 75; --resume tries again.
      const bool lost = spoilt.code == 75 && left.find("killed from outside") != std::string::npos;
      if (done ? !whole : !whole && !old && !lost && !may_lack(f, left))
        return golden::told(fault,
                            fmt::format("leaves {} of {} bytes in {}", left.size(),
                                        texts_[f].size(), writer_.files[f]),
                            spoilt);
    }
    if (golden::kills(fault)) return "";
    for (const std::string& name : names())
      if (!names_.contains(name)) return golden::told(fault, "leaves " + name, spoilt);
    return "";
  }

 private:
  // Records are lines that are added one by one, in any order;
  // --overwrite takes old ones away first.
  bool may_lack(std::size_t file, const std::string& left) const {
    const std::string& name = writer_.files[file];
    const bool there = fs::exists(folder_ + "/" + name);
    if (writer_.only_new) return !there;
    if (writer_.command.find("--overwrite") == std::string::npos) return false;
    if (!there) return true;
    return name.ends_with(".jsonl") && golden::holds_records(left, texts_[file]);
  }

  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_))
      found.insert(entry.path().filename().string());
    if (fs::is_directory(folder_ + "/out"))
      for (const auto& entry : fs::recursive_directory_iterator(folder_ + "/out"))
        found.insert(entry.path().filename().string());
    found.insert({"calls", ".stdout", ".stderr"});
    return found;
  }

  const Writer& writer_;
  std::string folder_;
  Finished whole_;
  std::vector<std::string> texts_;
  std::set<std::string> names_;
};

// Commands that read and print. They write no file.
const std::vector<Writer>& printers() {
  static const std::vector<Writer> all = [] {
    const std::string plan = "llama-2-7b-64 global_batch=64 ";
    std::vector<Writer> made;
    for (const std::string& command :
         {"run " + plan + "--json", "explain " + plan + "--json",
          "compare run.log " + plan + "--json", std::string("list --json"),
          std::string("check workloads/paper-454.textproto"), std::string("doc tp"),
          std::string("memory estimate llama-2-7b-64"),
          std::string("memory replay " REHEARSE_SOURCE_DIR
                      "/tests/allocator/data/h100_8b_stage.pickle"),
          std::string("topo check dgx-h100"), std::string("topo time dgx-h100 --max 1MiB"),
          std::string("validate calibration/measured/nccl.csv --where nodes=1"),
          std::string("whatif llama-2-7b-64 --vary tp=1,2 --json")})
      made.push_back({"./rehearse " + command + " -q", {}});
    return made;
  }();
  return all;
}

// A log of Megatron-LM with 30 steps of 5 s.
void write_log(const std::string& path) {
  std::string log;
  for (int i = 1; i <= 30; ++i)
    log += fmt::format(
        " iteration {:8}/{:8} | elapsed time per iteration (ms): {:.1f} | global batch size: 64 "
        "|\n",
        i, 30, 5000.0 + i % 3);
  golden::write(path, log);
}

// Disturbs each command by at most `most` of its faults, evenly spread.
void disturb_each(const std::vector<Writer>& commands, const std::string& name, std::size_t most) {
  const std::string folder = golden::writers_scratch(name);
  write_log(folder + "/run.log");
  std::size_t first = 0;
  for (const Writer& writer : commands) {
    DYNAMIC_SECTION(writer.command) {
      DisturbedWriter disturbed(writer, folder);
      const std::vector<Fault> faults = disturbed.faults();
      const std::size_t step = (faults.size() + most - 1) / most;
      std::string wrong;
      for (std::size_t i = first % step; i < faults.size(); i += step) {
        const std::string problem = disturbed.survives(faults[i]);
        if (!problem.empty()) wrong += problem + "\n";
      }
      INFO(fmt::format("{} faults, every {}th tried", faults.size(), step));
      INFO(wrong);
      CHECK(wrong.empty());
    }
    first += 7;
  }
}

}  // namespace

TEST_CASE("golden: commands that write survive a fault in a system call, a sample of them") {
  disturb_each(golden::writers(), "disturbed-writers", 5);
}

TEST_CASE("golden: commands that write survive a fault in each of their system calls",
          "[.campaign]") {
  disturb_each(golden::writers(), "disturbed-writers-all", 2000);
}

TEST_CASE("golden: commands that print survive a fault in a system call, a sample of them") {
  disturb_each(printers(), "disturbed-printers", 10);
}

TEST_CASE("golden: commands that print survive a fault in each of their system calls",
          "[.campaign]") {
  disturb_each(printers(), "disturbed-printers-all", 2000);
}
