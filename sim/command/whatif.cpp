// whatif.cpp — `rehearse whatif`: evaluates a plan under changed conditions, side by side.
#include "sim/input/plan/whatif.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/base/cores.h"
#include "sim/base/quantity.h"
#include "sim/command/common/command.h"
#include "sim/command/common/cost_options.h"
#include "sim/command/common/csv_option.h"
#include "sim/command/common/detail.h"
#include "sim/command/common/interrupt.h"
#include "sim/command/common/progress.h"
#include "sim/command/common/session.h"
#include "sim/command/common/watch.h"
#include "sim/command/report.h"
#include "sim/input/fields/cluster_fields.h"
#include "sim/input/plan/plan.h"
#include "sim/output/documents/whatif_document.h"
#include "sim/study/tune/whatif.h"

namespace sim::command {

namespace {

std::string key_problem(const std::string& key) {
  return input::is_cluster_setting(key + "=") ? input::cluster_setting_problem(key)
                                              : input::setting_problem(key);
}

void ask(const input::Setting& setting, const study::WhatifSettings& settings,
         Diagnostics& problems) {
  for (Diagnostic& problem : input::setting_problems(setting, settings.plan))
    problems.push_back(std::move(problem));
}

// --megatron-args and --cluster, as `run` takes them.
void read_launch(const Options& options, study::WhatifSettings& settings) {
  if (options.has("cluster")) settings.settings.push_back("cluster=" + options.text("cluster"));
  if (!options.has("megatron-args")) return;
  refuse_beside_launch(settings.plan);
  settings.launch = options.text("megatron-args");
}

// The variants of --variants and --vary. Settings of the file and of the command line go to
// `settings`. A value that no plan can have is an input error. A value that only this plan cannot
// have is a row with its reason.
std::vector<input::Variant> variants_of(const Options& options, study::WhatifSettings& settings) {
  std::vector<input::Variant> variants;
  if (options.has("variants")) {
    const input::WhatifFile file = need(input::load_whatif(options.text("variants")));
    settings.plan = file.plan;
    settings.settings = file.settings;
    variants = file.variants;
  }
  const Options::Named from = options.named();
  settings.settings.insert(settings.settings.end(), from.settings.begin(), from.settings.end());
  if (!from.name.empty()) settings.plan = from.name;
  read_launch(options, settings);
  if (settings.plan.empty() && settings.settings.empty() && settings.launch.empty())
    throw Stop{exit_usage, "name a plan, or --megatron-args"};
  if (!settings.plan.empty()) settings.plan = workload_path(settings.plan);
  for (const std::string& text : options.list("variant"))
    variants.push_back(need(input::parse_variant(text)));
  Diagnostics problems;
  std::set<std::string> asked;
  for (const input::Variant& variant : variants)
    for (const std::string& text : variant.settings)
      if (asked.insert(text).second)
        ask({text,
             fmt::format("{}, {}", options.text("variants", "command line"), text.substr(0, 80))},
            settings, problems);
  std::vector<input::Vary> varies;
  for (const std::string& text : options.list("vary")) {
    const input::Vary& vary = varies.emplace_back(need(input::parse_vary(text)));
    if (std::string problem = key_problem(vary.key); !problem.empty()) {
      problems.push_back({"--vary " + text.substr(0, 80), std::move(problem)});
      continue;
    }
    for (const std::string& value : vary.values) {
      const std::string one = vary.key + "=" + value;
      ask({one, "--vary " + one.substr(0, 80)}, settings, problems);
    }
  }
  if (!problems.empty()) throw Stop{complain(problems), ""};
  const std::vector<input::Variant> more = need(input::combinations(varies));
  variants.insert(variants.end(), more.begin(), more.end());
  if (variants.empty())
    throw Stop{exit_usage,
               "nothing varies: --vary KEY=V1,V2, --variant 'KEY=VALUE ...' or --variants FILE"};
  return variants;
}

// The columns with one value per row: lists and objects are for --json.
std::string scalar_csv(output::Rows table) {
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    for (const std::vector<output::Json>& cells : table.cells)
      if (cells[i].is_structured()) table.columns[i].key.clear();
  return output::csv(table);
}

bool is_coupled(const Options& options) {
  const std::string network =
      options.choice("network", "isolated", {"isolated", "coupled", "ns-3"});
  if (network == "ns-3")
    throw Stop{
        exit_usage,
        "--network ns-3: a step has too many packets; topo time --network ns-3 follows those "
        "of one collective"};
  return network == "coupled";
}

}  // namespace

int run_whatif(const Arguments& arguments, Globals globals) {
  Options options("whatif");
  options
      .values("vary", "KEY=V1,V2",
              "a setting of the plan or its cluster; may be given again: all "
              "combinations")
      .values("variant", "SETTINGS",
              "one variant with settings of its own: 'cluster=gb200-nvl72 cluster.node.gpus=64'; "
              "may be given again")
      .value("variants", "FILE", "variants with names, schema whatif.proto")
      .value(
          "price", "NUMBER",
          "what a GPU costs per hour: adds the cost of a million tokens; NAME=NUMBER[,...]: of a "
          "cluster or a variant")
      .value("csv", "FILE", "also one row per variant into FILE; -: on stdout instead of the text")
      .value("network", "NAME", "isolated (default), or coupled: all traffic shares the links")
      .value("seeds", "N",
             "draws of chance per variant: mean and 90 % range over N seeds of flow hashes and of "
             "jitter (default 8 where flows are hashed over several leaves, else 1)")
      .value("jobs,j", "N", "worker processes (default: the cores)")
      .words(0, 1000);
  declare_plan(options);
  declare_detail(options);
  declare_tokens(options);
  declare_report(options);
  options.parse(arguments, globals);
  const std::string csv = csv_file(options, globals);
  study::WhatifSettings settings;
  const std::vector<input::Variant> variants = variants_of(options, settings);
  settings.seeds = options.has("seeds") ? static_cast<int>(options.number("seeds", 1, 1, 1000)) : 0;
  settings.workers = jobs_of(options, cores());
  settings.coupled = is_coupled(options);
  settings.memory = detail_of(options, settings.coupled ? "--network coupled" : "");
  const Prices prices = prices_of(options);
  settings.price_per_gpu_hour = prices.each;
  settings.prices = prices.named;
  settings.tokens = tokens_of(options);
  settings.residuals = &kept_residuals();

  catch_interrupts();
  Progress progress("whatif", variants.size() + 1, globals.quiet);
  const auto rows = study::whatif(settings, variants, [&](std::size_t done) {
    progress.show(done, "");
    return !interrupted();
  });
  progress.clear();
  if (interrupted()) throw Stop{exit_interrupted, "interrupted"};
  const std::vector<output::WhatifRow> table = need(rows);
  if (options.has("report")) write_page(options.text("report"), output::whatif_page(table));
  const output::Document document = output::whatif_document(table);
  if (csv == "-")
    print(scalar_csv(*document.table(output::whole)));
  else if (!csv.empty())
    save(csv, scalar_csv(*document.table(output::whole)));
  if (csv != "-") say(globals, "whatif", document);
  return table.front().fits ? exit_yes : exit_no;
}

}  // namespace sim::command
