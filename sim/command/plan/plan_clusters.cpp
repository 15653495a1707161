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
#include "sim/study/plan/clusters_document.h"

namespace sim::command {

namespace {

// "dgx-h100,dgx-a100" as the user wrote it; "" for one cluster or none.
std::string cluster_list(const Options& options) {
  std::vector<std::string> names;
  for (const std::string& word : options.words())
    if (word.find('=') == std::string::npos) names.push_back(word);
  const std::string list = options.has("cluster") ? options.text("cluster")
                           : names.size() == 2    ? names[1]
                                                  : "";
  return list.find(',') == std::string::npos ? "" : list;
}

// The question with one cluster in place of the list.
PlanArguments with_cluster(const PlanArguments& all, const std::string& list,
                           const std::string& cluster, Globals globals) {
  Arguments arguments = all.arguments;
  for (std::string& word : arguments) {
    if (word == list) word = cluster;
    if (word == "--cluster=" + list) word = "--cluster=" + cluster;
  }
  PlanArguments one = plan_arguments(arguments, globals);
  one.places.insert(all.places.begin(), all.places.end());
  return one;
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

std::vector<std::string> clusters_of(const Options& options) {
  std::vector<std::string> clusters;
  const std::string list = cluster_list(options);
  if (list.empty()) return clusters;
  for (const std::string& name : split(list)) {
    clusters.push_back(name);
    if (name.empty())
      throw Stop{exit_usage, fmt::format("'{}': a name is empty; write for example "
                                         "dgx-h100,dgx-a100",
                                         list)};
    if (std::ranges::count(clusters, name) > 1)
      throw Stop{exit_usage, fmt::format("'{}' names {} twice", list, name)};
  }
  return clusters;
}

int answer_clusters(const PlanArguments& all, const std::vector<std::string>& clusters,
                    const PlanOutput& into, int workers, const Globals& globals) {
  const Options& options = *all.options;
  for (const char* of_one : {"output", "shard", "constraints", "best", "launcher"})
    if (options.has(of_one))
      throw Stop{exit_usage, fmt::format("--{} is of one cluster; leave it out, or name one of {}",
                                         of_one, fmt::join(clusters, ", "))};
  const std::string list = cluster_list(options);
  std::vector<PlanTask> tasks;
  for (const std::string& cluster : clusters) {
    tasks.push_back(plan_task(with_cluster(all, list, cluster, globals), globals));
    tasks.back().wanted.workers = workers;
    tasks.back().wanted.list = 1;
    tasks.back().limit /= static_cast<double>(clusters.size());
  }
  std::vector<std::string> failures;
  std::vector<planner::BestOfCluster> found;
  for (std::size_t i = 0; i < tasks.size() && !interrupted(); ++i)
    found.push_back(best_of(tasks[i], clusters[i], globals, failures));
  if (interrupted()) throw Stop{exit_interrupted, "interrupted"};
  const std::string job =
      tasks.front().own ? tasks.front().own->path : tasks.front().question.model;
  const output::Document document = planner::clusters_document(job, found);
  if (!into.page.empty()) write_page(into.page, document);
  if (!into.csv.empty()) write_csv(into.csv, *document.table("clusters"));
  if (into.csv != "-") say(globals, "plan-clusters", document);
  say_failures(failures);
  if (!failures.empty()) return exit_bug;
  const bool any = std::ranges::any_of(
      found, [](const planner::BestOfCluster& one) { return one.problem.empty(); });
  return any ? exit_yes : exit_no;
}

}  // namespace sim::command
