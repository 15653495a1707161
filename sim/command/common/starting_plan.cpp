#include "sim/command/common/starting_plan.h"

#include <fmt/format.h>

#include "sim/command/common/gpu_list.h"
#include "sim/input/fields/cluster_fields.h"
#include "sim/input/text/locate.h"

namespace sim::command {

namespace {

// The words of the command line: names, and settings.
struct Words {
  std::vector<std::string> names, settings;
};

Words words_of(const Options& options) {
  Words words;
  for (const std::string& word : options.words())
    (word.find('=') == std::string::npos ? words.names : words.settings).push_back(word);
  return words;
}

bool names_job(const std::string& setting) {
  return setting.starts_with("cluster=") || setting.starts_with("model=");
}

// The options that state the job, as settings. Of several numbers of GPUs only `first_gpus`.
std::vector<std::string> job_options(const Options& options, bool first_gpus) {
  std::vector<std::string> settings;
  if (options.has("cluster")) settings.push_back("cluster=" + options.text("cluster"));
  if (options.has("gpus")) {
    const std::vector<int> gpus = gpu_list(options.text("gpus"));
    if (gpus.size() == 1 || first_gpus) settings.push_back(fmt::format("gpus={}", gpus.front()));
  }
  if (options.has("batch"))
    settings.push_back(fmt::format("global_batch={}", options.number("batch", 0, 1, 1 << 24)));
  if (options.has("sequence"))
    settings.push_back(fmt::format("sequence={}", options.number("sequence", 0, 1, 1 << 26)));
  return settings;
}

}  // namespace

std::optional<planner::OwnPlan> starting_plan(const Options& options, const Globals& globals) {
  const Words words = words_of(options);
  std::string path = options.text("megatron-args");
  const bool launch_file = !path.empty();
  if (launch_file && !words.names.empty())
    throw Stop{exit_usage, fmt::format("either {} or --megatron-args, not both; the cluster is "
                                       "--cluster NAME",
                                       words.names.front())};
  if (!launch_file) {
    if (words.names.size() == 2 && options.has("cluster"))
      throw Stop{exit_usage, fmt::format("either {} or --cluster, not both", words.names[1])};
    const bool is_model = options.has("cluster") && words.names.size() == 1 &&
                          !input::locate(input::Kind::workload, words.names[0]);
    if (words.names.size() != 1 || is_model) return {};
    path = words.names.front();
  }
  const std::string found = launch_file ? path : workload_path(path);
  std::vector<std::string> settings = job_options(options, false);
  for (const std::string& one : words.settings)
    if (names_job(one)) settings.push_back(one);
  for (const std::string& one : planner::changes_of_job(words.settings)) settings.push_back(one);
  Result<input::PlanFile> file = planner::load_own(found, launch_file, settings);
  if (!file) {
    // The file may leave values open.
    settings = job_options(options, true);
    for (const std::string& one : words.settings)
      if (one.find(',') == std::string::npos) settings.push_back(one);
    file = planner::load_own(found, launch_file, settings);
  }
  planner::OwnPlan own{path, launch_file, settings, words.settings, need(file), {}, {}};
  if (launch_file) own.script = planner::own_script(found, settings);
  if (!globals.quiet)
    for (const std::string& text : own.file.notes) note("note: " + text);
  return own;
}

planner::Question question_from(const planner::OwnPlan& own, const Options& options) {
  planner::Question question;
  const program::Plan& plan = *own.file.plan;
  for (const std::string& one : own.file.stated) {
    if (one.starts_with("model=")) question.model = one.substr(6);
    if (one.starts_with("cluster=")) question.cluster = one.substr(8);
    if (input::is_cluster_setting(one)) question.settings.push_back(one);
  }
  question.gpus = options.has("gpus") ? gpu_list(options.text("gpus"))
                                      : std::vector{static_cast<int>(plan.world())};
  for (const std::string& one : words_of(options).settings)
    if (!names_job(one)) question.settings.push_back(one);
  question.job = planner::job_of(own.file, question.settings);
  for (const std::string& one : own.file.stated)
    if (one.starts_with("framework="))
      question.beyond = planner::fields_beyond(one.substr(10), plan);
  question.settings.push_back(fmt::format("global_batch={}", plan.batch.global_batch));
  question.settings.push_back(fmt::format("sequence={}", plan.batch.sequence));
  return question;
}

}  // namespace sim::command
