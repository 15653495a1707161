#include "sim/output/documents/stage_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/output/documents/class_rows.h"
#include "sim/output/documents/run_text.h"

namespace sim::output {

namespace {

using engine::Account;
using engine::ClassReport;

double account(const ClassReport& who, Account which) {
  return seconds(who.accounts[static_cast<std::size_t>(which)]);
}

// The rank classes of each stage, with its context-parallel ranks together.
std::vector<std::vector<const ClassReport*>> stages(const engine::RunReport& run) {
  std::vector<std::vector<const ClassReport*>> all;
  for (const ClassReport& who : run.classes) {
    const auto stage = static_cast<std::size_t>(who.stage);
    if (all.size() <= stage) all.resize(stage + 1);
    all[stage].push_back(&who);
  }
  return all;
}

// Mean over the ranks of a stage.
template <class Value>
double mean(const std::vector<const ClassReport*>& stage, const Value& value) {
  double sum = 0;
  double ranks = 0;
  for (const ClassReport* who : stage) {
    sum += value(*who) * who->ranks;
    ranks += who->ranks;
  }
  return sum / ranks;
}

// The rank class of each stage that reserves the most memory.
std::vector<std::size_t> fullest_of_stages(const engine::RunReport& run) {
  std::vector<std::size_t> all;
  for (const auto& stage : stages(run)) {
    const ClassReport* const who = *std::max_element(
        stage.begin(), stage.end(), [](const ClassReport* a, const ClassReport* b) {
          return a->peak_reserved < b->peak_reserved;
        });
    all.push_back(static_cast<std::size_t>(who - run.classes.data()));
  }
  return all;
}

}  // namespace

Rows step_rows(const answer::Answer& answer) {
  const std::vector<double> accounts = answer::accounts_without_retries(answer);
  const double step = answer::step_seconds(answer);
  Rows rows{"step_accounts",
            "where the step goes (mean over ranks; the accounts are disjoint)",
            {{"account", "account", "", 0, true},
             {"seconds", "seconds", "", 4},
             {"share", "share", "", 1, false, " %", 100}},
            {}};
  for (std::size_t a = 0; a < accounts.size(); ++a) {
    if (accounts[a] == 0) continue;
    rows.cells.push_back({answer::words(static_cast<Account>(a)), accounts[a], accounts[a] / step});
  }
  if (const double retries = seconds(answer.retry_cost); retries > 0)
    rows.cells.push_back({"allocator retries", retries, retries / step});
  rows.cells.push_back({"step", step, 1.0});
  const program::Plan& plan = answer.plan;
  rows.footnote = fmt::format(
      "  bubble {} of the step; textbook (1F1B) (p-1)/(mv+p-1) {} with p {}, m {}, v {}\n",
      percent(answer.run.bubble), percent(answer::textbook_bubble(plan)), plan.mesh.pp,
      plan.microbatches(), plan.pipeline.virtual_stages);
  return rows;
}

Rows stage_time_rows(const answer::Answer& answer) {
  struct Time {
    const char* key;
    const char* heading;
    Account account;
  };
  const Column bubble{"bubble", "bubble", "", 1, false, " %", 100};
  const std::vector<Time> exposed = {{"exposed_tp_s", "TP", Account::tp_exposed},
                                     {"exposed_cp_s", "CP", Account::cp_exposed},
                                     {"exposed_ep_s", "EP", Account::ep_exposed},
                                     {"exposed_dp_s", "DP", Account::dp_exposed},
                                     {"rank_wait_s", "rank wait", Account::rank_wait}};
  const std::vector<Account> pp_wait = {Account::pp_fill_drain, Account::pp_imbalance,
                                        Account::pp_transfer};
  const std::vector<Account> host = {Account::host, Account::data};
  const std::vector<double> spent = answer::mean_accounts(answer.run);
  // Where there is hardly any, the column is of JSON alone.
  const auto shown = [&](Account one) {
    if (one == Account::ep_exposed) return answer.plan.architecture.is_mixture();
    constexpr double seen = 0.001;  // of the step: less is not worth a column
    return one != Account::rank_wait ||
           spent[static_cast<std::size_t>(one)] > seen * answer::step_seconds(answer);
  };
  const auto time = [](const char* key, const char* heading) {
    return Column{key, heading, "s", 4};
  };
  Rows rows{"stage_times",
            "time by stage (mean over its ranks; communication that nothing hides)",
            {{"stage", "stage"}, {"ranks", "ranks"}, time("busy_s", "busy")},
            {}};
  for (const Time& one : exposed)
    rows.columns.push_back(shown(one.account) ? time(one.key, one.heading) : Column{one.key, ""});
  rows.columns.insert(rows.columns.end(),
                      {time("pp_wait_s", "PP wait"), bubble, time("host_s", "host")});
  for (const auto& stage : stages(answer.run)) {
    int ranks = 0;
    for (const ClassReport* who : stage) ranks += who->ranks;
    const auto sum = [&](const std::vector<Account>& accounts) {
      return mean(stage, [&](const ClassReport& who) {
        double all = 0;
        for (const Account a : accounts) all += account(who, a);
        return all;
      });
    };
    std::vector<Json> cells = {stage[0]->stage, ranks, mean(stage, [](const ClassReport& who) {
                                 return seconds(who.busy);
                               })};
    for (const Time& one : exposed) cells.emplace_back(sum({one.account}));
    cells.emplace_back(sum(pp_wait));
    cells.emplace_back(mean(stage, [](const ClassReport& who) { return who.bubble; }));
    cells.emplace_back(sum(host));
    rows.cells.push_back(std::move(cells));
  }
  return rows;
}

Rows stage_memory_rows(const answer::Answer& answer, const Rows& classes) {
  std::vector<std::string> columns = {"stage",
                                      "layers",
                                      "parameters",
                                      "static_bytes",
                                      "the rest",
                                      "peak_allocated_bytes",
                                      "peak_reserved_bytes",
                                      "capacity_bytes",
                                      "used",
                                      "allocation_retries"};
  // The upper limit follows the lower limit.
  if (answer.run.bounded) columns.insert(columns.begin() + 7, "peak_reserved_most_bytes");
  Rows rows =
      picked(classes, fullest_of_stages(answer.run), columns,
             "memory by stage (peaks in GiB, of the rank that needs most; the rest: activations, "
             "logits, temporaries)");
  const bool ends = answer.run.memory == engine::MemoryDetail::bounded;
  if (!answer.run.fits())
    rows.footnote = fmt::format("  peaks: what the run would have needed from there on{}\n",
                                ends ? ", until it was sure that it does not fit" : "");
  return rows;
}

}  // namespace sim::output
