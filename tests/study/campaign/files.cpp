// files.cpp — campaigns, tables of failures and traces as written, and everything that is read from
// them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>

#include "sim/input/plan/campaign.h"
#include "tests/cases.h"

namespace input = sim::input;

namespace {

// A temporary file, deleted at the end. Messages call it "it".
struct Written {
  explicit Written(const std::string& text) {
    std::string folder =
        (std::filesystem::temp_directory_path() / "campaign-").string() + std::string(6, 'X');
    if (::mkdtemp(folder.data()) == nullptr) FAIL("no folder " << folder);
    path = folder + "/written.textproto";
    std::ofstream(path, std::ios::binary) << text;
  }
  ~Written() { std::filesystem::remove_all(std::filesystem::path(path).parent_path()); }
  std::string refused(const sim::Diagnostics& problems) const {
    std::string all;
    for (const sim::Diagnostic& problem : problems) {
      std::string line = problem.where + ": " + problem.message + "\n";
      for (std::size_t at = line.find(path); at != std::string::npos; at = line.find(path))
        line.replace(at, path.size(), "it");
      all += line;
    }
    return all;
  }
  std::string path;
};

std::string told(const input::LifetimeFields& life) {
  return fmt::format("{} {:g} {:g} {:g} {:g}", life.law, life.mean, life.shape, life.early,
                     life.burn_in);
}

std::string told(const input::FailureFields& k) {
  return fmt::format(
      "{} ({}): part {}, takes {}, life {}, repair {}, detection {:g}, speed {:g}, found {}, {} "
      "sources\n",
      k.name, k.sure, static_cast<int>(k.part), static_cast<int>(k.takes), told(k.life),
      told(k.repair), k.detection, k.speed, told(k.found), k.sources.size());
}

std::string told(const input::CampaignFile& c) {
  std::string text = fmt::format(
      "{} of {} [{}]: length {:g}, failures {}, trace {}, mtbf {:g}, spares {}, answer {}, "
      "stragglers {}, missing {}\n",
      c.name, c.plan, fmt::join(c.settings, " "), c.length, c.failures, c.trace, c.mtbf, c.spares,
      c.answer, c.stragglers, c.missing_most);
  for (const input::CheckpointFields& k : c.checkpoints)
    text += fmt::format(
        "checkpoint {}: every {:g}, survives {}, {}{}{}, storage {}, node {}, writer {}, read {}, "
        "copies {}, write {:g}, background {:g}, load {:g}, fixed {:g}\n",
        k.name, k.interval, k.survives, k.asynchronous ? "asynchronous " : "",
        k.overlapped ? "overlapped " : "", k.in_memory ? "in memory" : "",
        k.storage.bytes_per_second, k.node.bytes_per_second, k.writer.bytes_per_second,
        k.read.bytes_per_second, k.copies, k.write, k.background, k.load, k.fixed);
  const input::RestartFields& r = c.restart;
  text += fmt::format("restart: {:g} {:g} {:g} {:g} {:g} {:g}, {} steps x {:g}\n", r.detection,
                      r.scheduling, r.start, r.communicators, r.compilation, r.search, r.slow_steps,
                      r.slow_factor);
  for (const input::PhaseFields& p : c.phases)
    text += fmt::format("phase {} [{}]: {:g} tokens, {} steps\n", p.name,
                        fmt::join(p.settings, " "), p.tokens, p.steps);
  for (const input::PoolFields& p : c.pools)
    text += fmt::format("pool [{}]: after {:g}, notice {:g}, {} nodes\n",
                        fmt::join(p.settings, " "), p.after, p.notice, p.nodes);
  return text;
}

}  // namespace

TEST_CASE("campaign: files of campaigns are read as they were") {
  cases::hold("tests/study/campaign/campaign_cases.txt", [](const std::string& text) {
    const Written file(text);
    const std::string is = input::is_campaign(file.path) ? "" : "no campaign\n";
    const auto read = input::load_campaign(file.path);
    return is + (read ? told(*read) : file.refused(read.errors()));
  });
  CHECK_FALSE(input::is_campaign("/nowhere/at.textproto"));
}

TEST_CASE("campaign: tables of failures are read as they were") {
  cases::hold("tests/study/campaign/failure_cases.txt", [](const std::string& text) {
    const Written file(text);
    const auto read = input::load_failures(file.path);
    if (!read) return file.refused(read.errors());
    std::string all = fmt::format("{}, {} sources\n", read->name, read->sources.size());
    for (const input::FailureFields& kind : read->kinds) all += told(kind);
    return all;
  });
}

TEST_CASE("campaign: traces of failures are read as they were") {
  std::vector<input::FailureFields> kinds(2);
  kinds[0].name = "gpu";
  kinds[1].name = "switch";
  cases::hold("tests/study/campaign/trace_cases.txt", [&](const std::string& text) {
    const Written file(text);
    const auto read = input::load_failure_trace(file.path, kinds, 4);
    if (!read) return file.refused(read.errors());
    std::string all;
    for (const input::TraceRow& row : *read)
      all += fmt::format("{:g} s: {} at {}, repair {:g}\n", row.seconds,
                         kinds[static_cast<std::size_t>(row.kind)].name, row.node, row.repair);
    return all;
  });
}
