#include "sim/command/serve/work.h"

#include <fmt/format.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/answer/evaluate.h"
#include "sim/answer/interval.h"
#include "sim/answer/resolve_balanced.h"
#include "sim/command/common/progress.h"
#include "sim/command/common/result_folder.h"
#include "sim/command/common/session.h"
#include "sim/command/common/watch.h"
#include "sim/command/report.h"
#include "sim/command/serve/dropped_file.h"
#include "sim/input/frameworks/framework.h"
#include "sim/input/plan/plan.h"
#include "sim/output/document.h"
#include "sim/output/json.h"
#include "sim/study/plan/launch/launch_writer.h"

namespace sim::command::web {

namespace {

using output::Json;

int status_of(int code) {
  switch (code) {
    case exit_yes:
    case exit_no:
    case exit_interrupted:
      return 200;
    case exit_bug:
    case exit_io:
      return 500;
    case exit_system:
      return 503;
    default:
      return 422;
  }
}

std::string reply(const Reply& one) {
  return fmt::format("{}\n{}", one.status, one.body);
}

// The output of a command as a reply.
std::string reply(const command::Reply& one) {
  return fmt::format("{}\n{}", status_of(one.code), one.said.out);
}

Arguments words_of(const Json& request) {
  Arguments words;
  if (const std::string plan = request.value("plan", ""); !plan.empty()) words.push_back(plan);
  for (const Json& setting : request.value("settings", Json::array()))
    words.push_back(setting.get<std::string>());
  return words;
}

input::PlanFile plan_of(const Json& request) {
  const std::string name = request.value("plan", "");
  std::vector<std::string> settings;
  for (const Json& setting : request.value("settings", Json::array()))
    settings.push_back(setting.get<std::string>());
  return need(input::load_plan(name.empty() ? "" : workload_path(name), settings));
}

int charts(const Json& request) {
  const input::PlanFile file = plan_of(request);
  const answer::CheckedPlan plan = checked(file, kept_sites());
  RunPage page("");
  engine::Observers watchers;
  watchers.all = page.observers();
  engine::Options how;
  how.observer = &watchers;
  const answer::Answer answer = answer::evaluate(plan, how);
  const answer::Site& site = plan.site();
  const answer::Intervals intervals = answer::intervals(
      answer, kept_residuals(),
      answer::basis_of(site.profile.device, site.machine.gpu.name, file.framework), "megatron");
  print(output::line(
      output::to_json(page.document(file, plan, answer, answer::intervals_text(intervals)))));
  return exit_yes;
}

int launch(const Json& request) {
  const input::PlanFile file = plan_of(request);
  const answer::CheckedPlan plan = answer::resolve_balanced(checked(file, kept_sites()));
  Json all = Json::array();
  for (const planner::LaunchText& one :
       planner::launches(plan.plan(), request.value("model", plan->architecture.name),
                         file.machine.cluster.name, file.machine))
    all.push_back(
        {{"program", one.program}, {"file", one.file}, {"text", one.text}, {"left", one.left}});
  print(output::line(all));
  return exit_yes;
}

// The page of a folder that the server was started with.
int folder(const Json& request) {
  print(output::line(output::to_json(folders_page({request.at("folder").get<std::string>()}))));
  return exit_yes;
}

command::Reply search(const Json& request, const Tell& tell) {
  Arguments arguments;
  for (const Json& word : request.at("words")) arguments.push_back(word.get<std::string>());
  listen_to_progress(
      [&](std::size_t done, std::size_t total, const std::string& text, const Found& found) {
        const Json head = {{"decided", done}, {"plans", total}, {"text", text}};
        std::string told = output::line(head);
        told.insert(told.size() - 1, ",\"found\":" + (found ? found() : std::string("[]")));
        tell(told);
      });
  // The search ends with its best so far on SIGINT; between searches a worker ignores it.
  std::signal(SIGINT, SIG_DFL);
  command::Reply reply = ask("plan", arguments);
  std::signal(SIGINT, SIG_IGN);
  listen_to_progress(nullptr);
  return reply;
}

}  // namespace

void prepare_worker() {
  keep_freed_memory();
  // A problem of the data is answered to each request that needs them.
  [[maybe_unused]] const command::Reply ignored = listen([] {
    kept_residuals();
    need(input::frameworks());
    return 0;
  });
}

std::string answer(const std::string& text, const Tell& tell, const std::string& scratch) {
  const Json request = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const std::string what = request.is_object() ? request.value("do", "") : "";
  if (what == "run") return reply(ask("run", words_of(request)));
  if (what == "fixes") {
    Arguments words = words_of(request);
    words.emplace_back("--fixes");
    return reply(ask("run", words));
  }
  if (what == "charts") return reply(listen([&] { return charts(request); }));
  if (what == "launch") return reply(listen([&] { return launch(request); }));
  if (what == "search") return reply(search(request, tell));
  if (what == "list") return reply(ask("list", words_of(request)));
  if (what == "sweep") return reply(listen([&] { return folder(request); }));
  if (what == "snapshot") return reply(listen([&] { return read_snapshot(request); }));
  if (what == "file") return reply(listen([&] { return read_dropped(request, scratch); }));
  return reply(problem(404, "the server has no such request"));
}

}  // namespace sim::command::web
