// setting_cases.cpp — settings of plans and clusters, one line of settings per case: the changes
// against the plan of the line "base", or the refusal.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "sim/answer/evaluate.h"
#include "sim/input/plan/plan.h"
#include "sim/output/json.h"
#include "tests/answer/reasons.h"
#include "tests/cases.h"

using namespace sim;

namespace {

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> all;
  for (std::string word; in >> word;) all.push_back(word);
  return all;
}

// The changed fields, as "mesh.tp 1 -> 4; ...".
std::string differences(const output::Json& before, const output::Json& after) {
  std::string text;
  const output::Json flat = before.flatten(), now = after.flatten();
  const auto note = [&](const std::string& key, const std::string& from, const std::string& to) {
    text += (text.empty() ? "" : "; ") + key.substr(1) + " " + from + " -> " + to;
  };
  for (const auto& [key, value] : now.items())
    if (!flat.contains(key)) {
      note(key, "none", value.dump());
    } else if (flat.at(key) != value) {
      note(key, flat.at(key).dump(), value.dump());
    }
  for (const auto& [key, value] : flat.items())
    if (!now.contains(key)) note(key, value.dump(), "none");
  return text.empty() ? "the same" : text;
}

// The messages without the files that the folders of the repository hold.
std::string said(const Diagnostics& problems) {
  std::string text;
  for (const Diagnostic& problem : problems)
    text += (text.empty() ? "refused: " : " | ") +
            problem.message.substr(0, problem.message.find("; " REHEARSE_SOURCE_DIR));
  return text;
}

std::string told(const input::Machine& machine) {
  const topology::Cluster& c = machine.cluster;
  const auto list = [](const std::vector<int>& all) {
    return fmt::format("{}", fmt::join(all, " "));
  };
  std::string text = fmt::format(
      "{} nodes of {} GPUs and {} NICs ({}) on {} sockets ({}; {}), {} of {} per leaf, {}:1, {} B",
      c.nodes, c.node.gpus, c.node.nics, list(c.node.nic_of_gpu), c.node.sockets,
      list(c.node.socket_of_gpu), list(c.node.socket_of_nic), static_cast<int>(c.fabric.kind),
      c.fabric.nodes_per_leaf, c.fabric.oversubscription, machine.gpu.memory.n);
  for (const topology::Condition& one : c.conditions)
    text += fmt::format(" [{} {} {} {} {}: {} {}]", one.node, one.gpu, one.nic, one.leaf, one.spine,
                        one.speed, one.bandwidth);
  return text;
}

std::string told(const std::string& lines, answer::Sites& sites) {
  std::vector<std::string> base;
  output::Json plain;
  std::string place;
  std::string all, line;
  for (std::istringstream in(lines); std::getline(in, line);) {
    std::vector<std::string> settings = words(line);
    if (settings.empty()) continue;
    const bool named = settings.front() == "base";
    const bool first = named || plain.is_null();
    if (named) {
      settings.erase(settings.begin());
      base = settings;
    } else {
      settings.insert(settings.begin(), base.begin(), base.end());
    }
    const auto file = input::load_plan("", settings);
    if (!file) {
      all += said(file.errors()) + "\n";
      continue;
    }
    if (first) plain = output::to_json(file->plan), place = told(file->machine);
    const auto site = sites.of(file->machine);
    std::string text =
        first ? program::short_name(file->plan) : differences(plain, output::to_json(file->plan));
    if (const std::string now = told(file->machine); first || now != place)
      text = (text == "the same" ? "" : text + " | ") + now;
    if (!site) text += " | " + said(site.errors());
    if (site)
      for (const std::string& problem : support::reasons(file->plan, **site))
        text += " | impossible: " + problem;
    all += text + "\n";
  }
  return all;
}

}  // namespace

TEST_CASE("study: every setting changes what it names, or says why it cannot") {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  answer::Sites sites;
  cases::hold("tests/study/setting_cases.txt",
              [&](const std::string& lines) { return told(lines, sites); });
}
