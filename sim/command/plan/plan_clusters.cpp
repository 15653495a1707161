#include "sim/command/plan/plan_clusters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/base/split.h"
#include "sim/base/text.h"
#include "sim/command/common/csv_option.h"
#include "sim/command/common/interrupt.h"
#include "sim/command/common/session.h"
#include "sim/command/report.h"
#include "sim/input/fields/cluster_fields.h"
#include "sim/study/plan/clusters_document.h"

namespace sim::command {

namespace {

// Where a name ends and its GPUs begin: "dgx-h100:1024". npos: no GPUs are named.
std::size_t colon_of(const std::string& text) {
  const std::size_t at = text.rfind(':');
  const bool number = at != text.npos && at + 1 < text.size() &&
                      text.find_first_not_of("0123456789.", at + 1) == text.npos;
  return number ? at : text.npos;
}

// "dgx-h100,dgx-a100" as the user wrote it; "" for one cluster without GPUs, or for none.
std::string cluster_list(const Options& options) {
  std::vector<std::string> names;
  for (const std::string& word : options.words())
    if (word.find('=') == std::string::npos) names.push_back(word);
  const std::string list = options.has("cluster") ? options.text("cluster")
                           : names.size() == 2    ? names[1]
                                                  : "";
  const bool one = list.find(',') == std::string::npos && colon_of(list) == std::string::npos;
  return one ? "" : list;
}

planner::BestOfCluster best_of(PlanTask& task, const std::string& cluster, const Globals& globals,
                               std::vector<std::string>& failures) {
  planner::BestOfCluster found;
  found.cluster = cluster;
  found.cost = task.cost;
  if (task.space.cores().empty()) {
    found.problem = why_impossible(task.space);
    return found;
  }
  RunningSearch asking(task, globals);
  task.wanted.failures = &failures;
  task.wanted.hurry = [&] { return asking.hurry(); };
  const planner::Outcome outcome =
      planner::find_best(task.space, kept_sites(), task.wanted,
                         [&](const planner::Progress& now) { return asking.show(now); });
  task.wanted.hurry = nullptr;  // it ends with the running search
  asking.clear();
  planner::read_best(task.space, outcome, found);
  return found;
}

}  // namespace

std::vector<AskedCluster> clusters_of(const Options& options) {
  std::vector<AskedCluster> clusters;
  const std::string list = cluster_list(options);
  if (list.empty()) return clusters;
  for (const std::string& text : split(list)) {
    const std::size_t colon = colon_of(text);
    clusters.push_back({text.substr(0, colon), colon == text.npos ? "" : text.substr(colon + 1)});
    if (clusters.back().name.empty())
      throw Stop{exit_usage, fmt::format("'{}': a name is empty; write for example "
                                         "dgx-h100,dgx-a100 or dgx-h100:1024,dgx-a100:512",
                                         list)};
    if (std::ranges::count(clusters, clusters.back()) > 1)
      throw Stop{exit_usage, fmt::format("'{}' names {} twice", list, text)};
  }
  return clusters;
}

PlanArguments of_cluster(const PlanArguments& all, const AskedCluster& cluster, Globals globals) {
  const std::string list = cluster_list(*all.options);
  Arguments arguments;
  for (std::size_t i = 0; i < all.arguments.size(); ++i) {
    const std::string& word = all.arguments[i];
    const bool gpus = !cluster.gpus.empty() && (word == "--gpus" || word.starts_with("--gpus="));
    if (word == list)
      arguments.push_back(cluster.name);
    else if (word == "--cluster=" + list)
      arguments.push_back("--cluster=" + cluster.name);
    else if (!gpus)
      arguments.push_back(word);
    if (gpus && word == "--gpus") ++i;  // its value
  }
  if (!cluster.gpus.empty()) arguments.push_back("--gpus=" + cluster.gpus);
  PlanArguments one = plan_arguments(arguments, globals);
  one.places.insert(all.places.begin(), all.places.end());
  return one;
}

int answer_clusters(const PlanArguments& all, const std::vector<AskedCluster>& clusters,
                    const PlanOutput& into, int workers, const Globals& globals) {
  const Options& options = *all.options;
  std::vector<std::string> names;
  for (const AskedCluster& cluster : clusters)
    names.push_back(std::ranges::count(clusters, cluster.name, &AskedCluster::name) == 1
                        ? cluster.name
                        : cluster.name + ":" + cluster.gpus);
  for (const char* of_one : {"output", "shard", "constraints", "best", "launcher"})
    if (options.has(of_one))
      throw Stop{exit_usage, fmt::format("--{} is of one cluster; leave it out, or name one of {}",
                                         of_one, fmt::join(names, ", "))};
  for (const std::string& word : options.words())
    if (input::is_cluster_setting(word) && word.find('=') != word.npos && !globals.quiet)
      note(fmt::format("note: {} changes each of {}; for one of them ask in a call of its own",
                       word, fmt::join(names, ", ")));
  std::vector<PlanTask> tasks;
  for (const AskedCluster& cluster : clusters) {
    tasks.push_back(plan_task(of_cluster(all, cluster, globals), globals));
    tasks.back().wanted.workers = workers;
    tasks.back().wanted.list = 1;
    tasks.back().limit /= static_cast<double>(clusters.size());
  }
  std::vector<std::string> failures;
  std::vector<planner::BestOfCluster> found;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (!interrupted()) {
      found.push_back(best_of(tasks[i], names[i], globals, failures));
      continue;
    }
    found.emplace_back();
    found.back().cluster = names[i];
    found.back().cost = tasks[i].cost;
    found.back().problem = "interrupted before its search";
  }
  const std::string job =
      tasks.front().own ? tasks.front().own->path : tasks.front().question.model;
  const output::Document document = planner::clusters_document(job, found);
  if (!into.page.empty()) write_page(into.page, document);
  if (!into.csv.empty()) write_csv(into.csv, *document.table("clusters"));
  if (into.csv != "-") say(globals, "plan-clusters", document);
  say_failures(failures);
  if (interrupted()) return exit_interrupted;
  if (!failures.empty()) return exit_bug;
  const bool any = std::ranges::any_of(
      found, [](const planner::BestOfCluster& one) { return one.problem.empty(); });
  return any ? exit_yes : exit_no;
}

}  // namespace sim::command
