// commands.cpp — the table of commands. A new command needs a file in this room, a line in
// command.h and a row here.
#include "sim/command/common/command.h"

namespace sim::command {

const std::vector<Command>& commands() {
  static const std::vector<Command> table = {
      {"run", "PLAN [KEY=VALUE ...]", "one training step: the answer, then what limits it",
       "llama-2-7b-64 tp=4", run_run},
      {"explain", "PLAN [KEY=VALUE ...]", "where the memory goes, why it runs out, what would fit",
       "llama-2-7b-64", run_explain},
      {"sweep", "GRID | KEY=V1,V2 ...", "every point of a grid: what fits, how fast, why not",
       "paper-454 -o results", run_sweep},
      {"plan", "MODEL CLUSTER | PLAN|FILE", "the best of all plans, and why not the others",
       "llama-3.1-8b dgx-h100 --gpus 16 --batch 64 --sequence 8192", run_plan},
      {"merge", "FOLDER ... [-o FOLDER]", "shards of many machines become the whole",
       "results -o whole", run_merge},
      {"whatif", "PLAN --vary KEY=V1,V2", "the same plan under changed conditions, side by side",
       "llama-2-7b-64 --vary tp=2,8", run_whatif},
      {"schedule", "NAME --stages P ...", "a pipeline schedule: its picture, time and memory",
       "1f1b --stages 4 --microbatches 8", run_schedule},
      {"campaign", "FILE | PLAN | --step-time T",
       "a run over weeks: failures, checkpoints, what is kept",
       "--step-time 10 --gpus 64 --mtbf 3h --checkpoint-write 60s", run_campaign},
      {"topo", "check|time|place|import|export", "a cluster: what is wrong, how fast, its drawing",
       "check dgx-h100", run_topo},
      {"memory", "estimate PLAN | replay FILE",
       "the closed form; replay of a snapshot or a trace", "estimate llama-2-7b-64",
       run_memory},
      {"calibrate", "SOURCE ...", "fit a profile to measurements: traces, logs, tables",
       "nccl.csv --profile a100-80", run_calibrate},
      {"capture", "PLAN [KEY=VALUE ...]", "a script that measures a node at the shapes of a plan",
       "llama-2-7b-64 -o capture.py", run_capture},
      {"validate", "RUNS.csv ...", "predicted against measured, for tables of measured runs",
       "runs.csv", run_validate},
      {"compare", "LOG PLAN | PLAN PLAN",
       "logs beside the prediction, or two plans: what differs", "train.log llama-2-7b-64",
       run_compare},
      {"report", "FOLDER|PLAN ... [-o FILE]", "sweeps, searches, runs or plans as one page (HTML)",
       "llama-2-7b-64 -o run.html", run_report},
      {"serve", "[FOLDER ...] [--port N]", "a page on this machine to change every setting",
       "--port 8600", run_serve},
      {"init", "KIND [FILE]", "a commented plan, cluster, grid, search or table",
       "plan my-plan.textproto", run_init},
      {"doc", "NAME ...", "what a field, a term of the output or a listed name is", "bubble",
       run_doc},
      {"list", "[KIND]", "what there is, by name", "models", run_list},
      {"check", "FILE ... | KEY=VALUE ...", "every problem of input files, or of a plan in words",
       "my-plan.textproto", run_check},
      {"completion", "bash|zsh|fish", "completion of commands and options for a shell", "bash",
       run_completion},
      {"man", "[COMMAND] [-o FOLDER]", "manual pages", "plan", run_man},
  };
  return table;
}

}  // namespace sim::command
