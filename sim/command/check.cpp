// check.cpp — `rehearse check`: every problem of input files, of whatever kind they are.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/command/command.h"
#include "sim/config/campaign.h"
#include "sim/config/cluster.h"
#include "sim/config/grid.h"
#include "sim/config/huggingface.h"
#include "sim/config/locate.h"
#include "sim/config/plan.h"
#include "sim/config/profile.h"
#include "sim/config/runs_csv.h"
#include "sim/config/textproto.h"
#include "sim/memory/replay.h"
#include "sim/memory/snapshot.h"
#include "sim/report/json.h"

namespace sim::command {

namespace {

constexpr std::int64_t trace_bytes_max = std::int64_t{2} << 30;

template <class T>
Diagnostics problems_of(const Result<T>& result) {
  return result ? Diagnostics{} : result.errors();
}

Diagnostics check_trace(const std::string& path) {
  const Result<std::string> text = config::read_file(path, trace_bytes_max);
  return text ? problems_of(memory::parse_trace(*text, path, memory::Rules::newer)) : text.errors();
}

Diagnostics check_snapshot(const std::string& path) {
  const Result<std::string> bytes = config::read_file(path, trace_bytes_max);
  return bytes ? problems_of(memory::read_snapshot(*bytes, path)) : bytes.errors();
}

// With the table and the trace that it names, and the plan of each of its phases and pools.
Diagnostics check_campaign(const std::string& path) {
  const Result<config::CampaignFile> file = config::load_campaign(path);
  if (!file) return file.errors();
  Diagnostics problems;
  const auto take = [&](Diagnostics more) {
    problems.insert(problems.end(), more.begin(), more.end());
  };
  if (!file->failures.empty()) {
    const Result<config::FailureFile> table = config::load_failures(file->failures, file->path);
    take(problems_of(table));
    if (table && !file->trace.empty())
      take(problems_of(config::load_failure_trace(file->trace, table->kinds, 1'000'000)));
  }
  if (file->plan.empty()) return problems;
  const Result<std::string> plan = config::locate(config::Kind::workload, file->plan, file->path);
  if (!plan) return plan.errors();
  std::vector<std::vector<std::string>> beside = {{}};
  for (const config::PhaseFields& phase : file->phases) beside.push_back(phase.settings);
  for (const config::PoolFields& pool : file->pools) beside.push_back(pool.settings);
  for (const std::vector<std::string>& more : beside) {
    std::vector<std::string> settings = file->settings;
    settings.insert(settings.end(), more.begin(), more.end());
    take(problems_of(config::load_plan(*plan, settings)));
  }
  return problems;
}

struct Kind {
  const char* name;
  Diagnostics (*problems)(const std::string& path);
};
constexpr std::array<Kind, 11> kinds = {{
    {"plan", [](const std::string& path) { return problems_of(config::load_plan(path)); }},
    {"grid", [](const std::string& path) { return problems_of(config::load_grid(path)); }},
    {"cluster", [](const std::string& path) { return problems_of(config::load_cluster(path)); }},
    {"profile", [](const std::string& path) { return problems_of(config::load_profile(path)); }},
    {"model", [](const std::string& path) { return problems_of(config::load_huggingface(path)); }},
    {"launch-script",
     [](const std::string& path) { return problems_of(config::load_megatron(path)); }},
    {"runs", [](const std::string& path) { return problems_of(config::load_runs(path)); }},
    {"campaign", check_campaign},
    {"failures", [](const std::string& path) { return problems_of(config::load_failures(path)); }},
    {"trace", check_trace},
    {"snapshot", check_snapshot},
}};

// Names of the outermost fields of a text-format file: letters before the first colon or brace of a
// line, outside of braces, strings and comments.
std::set<std::string> outer_fields(std::string_view text) {
  std::set<std::string> names;
  std::string word;
  int depth = 0;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == '\\') ++i;
      if (c == quote || c == '\n') quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else if (depth == 0 && (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_')) {
      word += c;
    } else {
      if (depth == 0 && (c == ':' || c == '{') && !word.empty()) names.insert(word);
      if (c != ' ') word.clear();
      if (c == '{') ++depth;
      if (c == '}') --depth;
    }
  }
  return names;
}

// What a text-format file is meant to be, by the fields that only its kind has; a plan if nothing
// else.
std::string kind_of_text(const std::string& path) {
  const Result<std::string> text = config::read_file(path);
  if (!text) return "plan";
  const std::set<std::string> names = outer_fields(*text);
  const auto has = [&](const char* name) { return names.count(name) > 0; };
  if (has("fabric") || has("node") || has("gpu")) return "cluster";
  if (has("provenance") || has("gemm") || has("communication")) return "profile";
  if (has("bases") || has("families")) return "grid";
  if (has("length")) return "campaign";
  if (has("kind") || has("watched")) return "failures";
  return "plan";
}

std::string kind_of(const std::string& path) {
  const std::string suffix = std::filesystem::path(path).extension().string();
  if (suffix == ".json") return "model";
  if (suffix == ".csv") return "runs";
  if (suffix == ".sh") return "launch-script";
  if (suffix == ".trace") return "trace";
  if (suffix == ".pickle") return "snapshot";
  return kind_of_text(path);
}

}  // namespace

int run_check(const Arguments& arguments, Globals globals) {
  Options options("check");
  options.value("kind", "KIND", "what the files are, where their names and contents do not say it")
      .words(1, 100000)
      .parse(arguments, globals);
  std::vector<std::string> names;
  for (const Kind& kind : kinds) names.emplace_back(kind.name);
  const std::string wanted = options.has("kind") ? options.choice("kind", "", names) : "";
  Diagnostics all;
  std::string text;
  report::Json json = report::Json::array();
  for (const std::string& path : options.words()) {
    const std::string name = wanted.empty() ? kind_of(path) : wanted;
    const auto kind = std::find_if(kinds.begin(), kinds.end(),
                                   [&](const Kind& candidate) { return name == candidate.name; });
    const Diagnostics problems = kind->problems(path);
    report::Json list = report::Json::array();
    for (const Diagnostic& problem : problems) {
      list.push_back({{"where", problem.where}, {"message", problem.message}});
    }
    json.push_back({{"file", path}, {"kind", name}, {"problems", std::move(list)}});
    if (problems.empty()) text += fmt::format("{}: {}, no problems\n", path, name);
    all.insert(all.end(), problems.begin(), problems.end());
  }
  print(globals.json ? report::document("check", json).dump(2) + "\n" : text);
  return all.empty() ? exit_yes : complain(all);
}

}  // namespace sim::command
