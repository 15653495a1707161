// report.cpp — `rehearse report`: writes a finished sweep or a plan as one HTML file. Also
// implements --report of other commands.
#include "sim/command/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sim/answer/interval.h"
#include "sim/cluster/topology/draw_svg.h"
#include "sim/command/common/watch.h"
#include "sim/input/profile/residuals.h"
#include "sim/output/document.h"
#include "sim/output/documents/run_document.h"
#include "sim/output/documents/sweep_document.h"
#include "sim/output/documents/whatif_document.h"
#include "sim/output/output.h"
#include "sim/output/page.h"
#include "sim/output/record.h"
#include "sim/study/tune/link_use.h"
#include "sim/study/tune/whatif.h"

namespace sim::command {

namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t results_bytes_max = std::uintmax_t{1} << 30;
constexpr std::size_t problems_shown = 20;

// The records in the folder of a sweep.
std::vector<output::Json> load_records(const std::string& folder) {
  const std::string path = folder + "/results.jsonl";
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error) {
    throw Stop{complain({{path, error.message() + "; a folder of `rehearse sweep` has it",
                          Fault::missing}}),
               ""};
  }
  if (size > results_bytes_max) throw Stop{complain({{path, "is larger than 1 GiB"}}), ""};
  std::ifstream in(path, std::ios::binary);
  std::vector<output::Json> records;
  Diagnostics problems;
  int number = 0;
  for (std::string line; std::getline(in, line) && problems.size() < problems_shown;) {
    ++number;
    output::Json record = output::Json::parse(line, nullptr, false);
    const std::string problem =
        record.is_discarded() ? "is no JSON" : output::record_problem(record);
    if (problem.empty()) {
      records.push_back(std::move(record));
    } else {
      problems.push_back({fmt::format("{}:{}", path, number), problem});
    }
  }
  if (problems.empty() && records.empty()) problems.push_back({path, "holds no records"});
  if (!problems.empty()) throw Stop{complain(problems), ""};
  return records;
}

struct Links {
  std::vector<output::LinkBusy> busy;
  std::string drawing;
};

// Limits of the drawing: more GPUs cannot be distinguished, and the page must fit into a mail.
constexpr std::int64_t drawn_gpus_most = 65'536, drawn_alike_from = 144;
constexpr std::size_t drawing_bytes_most = 600'000;

std::string drawing_of(const std::vector<study::LinkUse>& uses, const input::PlanFile& file,
                       answer::Site& site) {
  const topology::Cluster& whole = site.machine.cluster;
  const int nodes = topology::nodes_of(file.plan->world(), whole.node.gpus);
  const topology::Cluster cluster =
      topology::first_nodes(whole, topology::nodes_reached(whole, nodes));
  const std::int64_t gpus = std::int64_t{cluster.nodes} * cluster.node.gpus;
  if (gpus > drawn_gpus_most) return "";
  std::vector<double> busy(static_cast<std::size_t>(site.network->cover(nodes).link_count()), 0);
  for (const study::LinkUse& use : uses) busy[static_cast<std::size_t>(use.link)] = use.busy;
  std::string text = topology::svg(cluster, busy, gpus > drawn_alike_from);
  return text.size() > drawing_bytes_most ? "" : text;
}

Links links_of(const input::PlanFile& file, const answer::CheckedPlan& plan,
               const answer::Answer& answer) {
  answer::Site& site = plan.site();
  Links links;
  if (!answer.run.fits()) return links;
  const auto uses = study::link_use(plan, answer.run.step_time);
  if (uses.empty()) return links;
  for (const study::LinkKindUse& kind : study::by_kind(uses, site.network->cover(1)))
    links.busy.push_back({kind.kind, kind.busiest, kind.traffic, kind.busy, kind.mean, kind.links});
  links.drawing = drawing_of(uses, file, site);
  return links;
}

// Several plans in one page, with the same settings after each.
int report_plans(const std::vector<std::string>& names, const std::vector<std::string>& settings,
                 const std::string& path) {
  answer::Sites sites;
  std::vector<output::WhatifRow> rows;
  for (const std::string& name : names) {
    if (fs::is_directory(name))
      throw Stop{exit_usage, name + " is a folder; `rehearse report FOLDER` takes one, alone"};
    study::WhatifSettings one;
    one.plan = workload_path(name);
    one.settings = settings;
    rows.push_back(study::whatif_row({fs::path(name).stem().string(), {}}, one, sites));
  }
  output::Document document = output::whatif_page(rows);
  document.title = "Plans side by side";
  document.subtitle = fmt::format("{}", fmt::join(names, ", "));
  write_page(path, document);
  return std::ranges::all_of(rows, &output::WhatifRow::fits) ? exit_yes : exit_no;
}

}  // namespace

void declare_report(Options& options) {
  options.output("report", "FILE", "also write a page with charts (HTML, one file, works offline)");
}

void keep_results(const std::string& folder, const std::string& page, const char* option) {
  for (const char* kept : {"results.jsonl", "results.csv"}) {
    const fs::path result = fs::path(folder) / kept;
    std::error_code ignored;  // ignored if neither file exists yet
    if (fs::weakly_canonical(page, ignored) == fs::weakly_canonical(result, ignored) ||
        fs::equivalent(page, result, ignored)) {
      constexpr const char* text =
          "holds what the sweep found, and --{} would write over it; name another";
      throw Stop{complain({{page, fmt::format(text, option)}}), ""};
    }
  }
}

void write_page(const std::string& path, const output::Document& document) {
  save(path, output::page(document));
}

output::Document RunPage::document(const input::PlanFile& file, const answer::CheckedPlan& plan,
                                   const answer::Answer& answer,
                                   const std::string& intervals) const {
  const Links links = links_of(file, plan, answer);
  return output::run_document(answer, intervals, passes_, memory_, links.busy, links.drawing);
}

void RunPage::finish(const input::PlanFile& file, const answer::CheckedPlan& plan,
                     const answer::Answer& answer, const std::string& intervals) const {
  write_page(path_, document(file, plan, answer, intervals));
}

int run_report(const Arguments& arguments, Globals globals) {
  Options options("report");
  options.output("output,o", "FILE", "the page (report.html)");
  declare_plan(options);
  options.words(0, 1000).parse(arguments, globals);
  const std::string path = options.text("output", "report.html");
  const std::vector<std::string>& words = options.words();
  int code = exit_yes;
  std::error_code no_folder;  // the reader of plans says why a path cannot be followed
  std::vector<std::string> names, settings;
  for (const std::string& word : words)
    (word.find('=') == std::string::npos ? names : settings).push_back(word);
  if (names.size() > 1) {
    options.only({"output"});
    code = report_plans(names, settings, path);
  } else if (words.size() == 1 && fs::is_directory(words[0], no_folder)) {
    options.only({"output"});
    keep_results(words[0], path, "output");
    const std::string name = fs::path(fs::absolute(words[0])).lexically_normal().filename();
    write_page(path,
               output::sweep_document(name.empty() ? words[0] : name, load_records(words[0])));
  } else {
    const input::PlanFile file = load_plan(options, globals);
    answer::Sites sites;
    const answer::CheckedPlan plan = checked(file, sites);
    answer::Site& site = plan.site();
    RunPage page(path);
    engine::Observers watchers;
    for (engine::Observer* one : page.observers()) watchers.all.push_back(one);
    engine::Options how;
    how.observer = &watchers;
    const answer::Answer answer = answer::evaluate(plan, how);
    const answer::Intervals intervals = answer::intervals(
        answer, need(input::find_residuals()),
        answer::basis_of(site.profile.device, site.machine.gpu.name, file.framework), "paper");
    page.finish(file, plan, answer, answer::intervals_text(intervals));
    code = answer.run.fits() ? exit_yes : exit_no;
  }
  say_written(globals, path, "report: " + path);
  return code;
}

}  // namespace sim::command
