// plan.cpp — `rehearse plan`: finds the best plans for a job.
#include <fmt/format.h>

#include "sim/command/common/interrupt.h"
#include "sim/command/plan/plan_answer.h"
#include "sim/command/plan/plan_clusters.h"
#include "sim/command/plan/plan_shares.h"
#include "sim/study/sweep/records.h"

namespace sim::command {

void keep_sweep(const std::string& folder) {
  const study::FolderContents there = study::contents_of(folder);
  if (there == study::FolderContents::sweep || there == study::FolderContents::foreign_table)
    throw Stop{exit_data, folder +
                              " holds what a sweep found, and --output would write over it; "
                              "name another folder, or --overwrite"};
}

int run_plan(const Arguments& arguments, Globals globals) {
  const PlanArguments all = plan_arguments(arguments, globals);
  const Options& options = *all.options;
  const Share share = share_of(options, false);
  if (share.shard)
    for (const char* whole : {"report", "time-limit", "csv"})
      if (options.has(whole))
        throw Stop{exit_usage,
                   fmt::format("--{} is of a whole search; a shard takes part in one: leave it out",
                               whole)};
  const PlanOutput into = plan_output(options, globals);
  catch_interrupts();
  const std::vector<AskedCluster> clusters = clusters_of(options);
  if (clusters.size() > 1) return answer_clusters(all, clusters, into, share.workers, globals);
  PlanTask task = clusters.empty() ? plan_task(all, globals)
                                   : plan_task(of_cluster(all, clusters.front(), globals), globals);
  task.wanted.workers = share.workers;
  if (share.shard) return answer_share(task, options, share, globals);
  if (!into.folder.empty() && !into.overwrite) keep_sweep(into.folder);
  return answer_plan(task, into, globals);
}

}  // namespace sim::command
