// commands.cpp — the table of commands: adding one is a file beside this one, a line in command.h
// and a row here.
#include "sim/command/command.h"

namespace sim::command {

const std::vector<Command>& commands() {
  static const std::vector<Command> table = {
      {"run", "PLAN [KEY=VALUE ...]", "one training step: the answer, then what limits it",
       run_run},
      {"explain", "PLAN [KEY=VALUE ...]", "where the memory goes, why it runs out, what would fit",
       run_explain},
      {"sweep", "GRID [-o FOLDER]", "every point of a grid: what fits, how fast, why not",
       run_sweep},
      {"plan", "MODEL CLUSTER ... | FILE", "the best of all plans, and why not the others",
       run_plan},
      {"merge", "FOLDER ... [-o FOLDER]", "shards of many machines become the whole", run_merge},
      {"whatif", "PLAN --vary KEY=V1,V2", "the same plan under changed conditions, side by side",
       run_whatif},
      {"schedule", "NAME --stages P ...", "a pipeline schedule: its picture, time and memory",
       run_schedule},
      {"campaign", "FILE | PLAN | --step-time T",
       "a run over weeks: failures, checkpoints, what is kept", run_campaign},
      {"topo", "check|time|place|import|export", "a cluster: what is wrong, how fast, its drawing",
       run_topo},
      {"memory", "estimate PLAN | replay FILE",
       "the closed-form estimate; replay of an allocator trace", run_memory},
      {"calibrate", "SOURCE ...", "fit a profile to measurements: traces, logs, tables",
       run_calibrate},
      {"validate", "RUNS.csv ...", "predicted against measured, for tables of measured runs",
       run_validate},
      {"compare", "LOG PLAN | --megatron-args FILE",
       "a run's log beside its prediction, and why they differ", run_compare},
      {"report", "FOLDER|PLAN [-o FILE]", "a sweep or a run as one page with charts (HTML)",
       run_report},
      {"init", "plan|cluster|grid|search [FILE]", "a commented file to start from", run_init},
      {"doc", "FIELD ...", "what a field of a plan or a cluster is", run_doc},
      {"list", "[KIND]", "what there is, by name", run_list},
      {"check", "FILE ...", "every problem of input files", run_check},
      {"completion", "bash|zsh|fish", "completion of commands and options for a shell",
       run_completion},
      {"man", "[COMMAND] [-o FOLDER]", "manual pages", run_man},
  };
  return table;
}

}  // namespace sim::command
