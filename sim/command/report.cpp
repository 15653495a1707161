// report.cpp — `rehearse report`: writes finished sweeps, searches or plans as one HTML file. Also
// implements --report of other commands.
#include "sim/command/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/answer/interval.h"
#include "sim/cluster/topology/draw_svg.h"
#include "sim/command/common/result_folder.h"
#include "sim/command/common/watch.h"
#include "sim/input/profile/residuals.h"
#include "sim/output/document.h"
#include "sim/output/documents/run_document.h"
#include "sim/output/documents/whatif_document.h"
#include "sim/output/output.h"
#include "sim/output/page.h"
#include "sim/study/tune/link_use.h"
#include "sim/study/tune/whatif.h"

namespace sim::command {

namespace {

namespace fs = std::filesystem;

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

// The name of a plan without its folder and ".textproto": a dot is no end of "llama-3.1-8b".
std::string plan_title(const std::string& name) {
  const fs::path file = fs::path(name).filename();
  return (file.extension() == ".textproto" ? file.stem() : file).string();
}

// Several plans in one page, with the same settings after each.
int report_plans(const std::vector<std::string>& names, const std::vector<std::string>& settings,
                 const std::string& path) {
  answer::Sites sites;
  std::vector<output::WhatifRow> rows;
  for (const std::string& name : names) {
    study::WhatifSettings one;
    one.plan = workload_path(name);
    one.settings = settings;
    rows.push_back(study::whatif_row({plan_title(name), {}}, one, sites));
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
  const auto folders = std::ranges::count_if(
      names, [&](const std::string& name) { return fs::is_directory(name, no_folder); });
  if (folders > 0) {
    options.only({"output"});
    if (folders < std::ssize(names) || !settings.empty())
      throw Stop{exit_usage,
                 "a page has folders of sweeps, folders of searches, or plans with settings; make "
                 "one page of each"};
    for (const std::string& folder : names) keep_results(folder, path, "output");
    write_page(path, folders_page(names));
  } else if (names.size() > 1) {
    options.only({"output"});
    code = report_plans(names, settings, path);
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
        answer::basis_of(site.profile.device, site.machine.gpu.name, file.framework), "megatron");
    page.finish(file, plan, answer, answer::intervals_text(intervals));
    code = answer.run.fits() ? exit_yes : exit_no;
  }
  say_written(globals, path, "report: " + path);
  return code;
}

}  // namespace sim::command
