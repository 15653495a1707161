// init.cpp — `rehearse init`: writes a commented plan, cluster, grid, search or table of runs to
// start from.
#include <fmt/format.h>

#include <array>

#include "sim/base/text.h"
#include "sim/command/common/command.h"

namespace sim::command {

namespace {

struct Start {
  const char* name;
  const char* file;  // default path
  const char* next;  // the command to run next
  const char* text;
};

constexpr Start starts[] = {
    {"plan", "plan.textproto", "rehearse run {0}",
     R"text(# One training run. `rehearse run {0}` rehearses it; a setting can be changed there:
# `rehearse run {0} tp=8 micro_batch=2`. `rehearse list` shows models and clusters by name.
model: "llama-3.1-8b"  # a name, or the path of a Hugging Face config.json
cluster: "dgx-h100"    # a name, or the path of a cluster file (rehearse init cluster)
gpus: 64
tp: 4                  # tensor parallelism, inside of a node
pp: 2                  # pipeline stages; data parallelism is what remains: 64 / 4 / 2 = 8
cp: 1                  # context parallelism, for long sequences
micro_batch: 1
global_batch: 512
sequence: 8192
# schedule: "interleaved-1f1b"  # rehearse list schedules
# virtual_stages: 4             # chunks of each stage
# recompute: selective          # none, selective, full
)text"},
    {"cluster", "cluster.textproto", "rehearse topo check {0}",
     R"text(# A cluster. `rehearse topo check {0}` looks for what is wrong with it; `rehearse topo
# time {0}` times its collectives. Every number wants its source: a data sheet, a measurement.
name: "my-cluster"
nodes: 16
source: "where the numbers below come from"

gpu {
  name: "H100-SXM5-80GB"
  profile: "h100-80"            # measured efficiencies: rehearse list profiles
  memory: "85045477376B"        # what CUDA reports
  memory_marketing: "80GB"      # what its name says
  memory_bandwidth: "3350GB/s"
  sms: 132
  bf16: "989.4TFLOP/s"          # dense
  tf32: "494.7TFLOP/s"
  fp32: "66.9TFLOP/s"
  fp8: "1978.9TFLOP/s"
  compute_capability: 90
  source: "NVIDIA H100 data sheet (SXM5)"
}

node {
  gpus: 8
  interconnect: nvswitch
  nvlinks_per_gpu: 18
  nvlink_bandwidth: "25GB/s"    # of one link and direction
  pcie_bandwidth: "63GB/s"
  nics: 8
  nic_bandwidth: "400Gb/s"
  nic_of_gpu: [0, 1, 2, 3, 4, 5, 6, 7]
  cpu: intel
  source: "how the nodes are built"
}

fabric {
  kind: rail_optimised          # NIC r of every node of a unit meets in leaf r
  nodes_per_leaf: 16
  oversubscription: 1           # 4: a quarter of the ports go up
  leaf_hop: "0ns"
  spine_hop: "700ns"
  source: "how they are cabled"
}
)text"},
    {"grid", "grid.textproto", "rehearse sweep {0}",
     R"text(# Many plans in one file. `rehearse sweep {0}` replays every point and keeps what comes
# out; `rehearse report results-<name>` draws it.
name: "my-grid"
bases {
  name: "base"
  plan {  # what all points have in common
    model: "llama-3.1-8b"
    cluster: "dgx-h100"
    gpus: 64
    global_batch: 512
    sequence: 8192
  }
}
families {
  name: "all"
  base: "base"
  # Every combination of these; the first varies slowest. Impossible ones say why.
  vary { keys: "tp" rows: "1|2|4|8" }
  vary { keys: "pp" rows: "1|2|4" }
  vary { keys: "mbs" rows: "1|2" }
  # Settings that change together: vary { keys: "tp pp" rows: "4 2" rows: "8 1" }
}
)text"},
    {"search", "search.textproto", "rehearse plan {0}",
     R"text(# Which plan should I run? `rehearse plan {0}` looks through all of them; what is said
# there as well, `rehearse plan {0} --gpus 128 tp=8`, takes the place of what is said here.
model: "llama-3.1-8b"  # a name, or the path of a Hugging Face config.json
cluster: "dgx-h100"    # a name, or the path of a cluster file (rehearse init cluster)
gpus: 64               # several: each of these
batch: 128             # sequences of a step
sequence: 8192
# What to hold fixed and what to choose among; what is not named is searched.
set: "zero=1"
set: "schedule=1f1b,interleaved-1f1b,zb-v"
# objective: cost      # time (the shortest step), cost (tokens for the money), gpus (the fewest)
# price: 2.5           # of a GPU and hour
# rate: 1e6            # tokens per second that the job must reach
# headroom: "4GiB"     # memory that must stay free
# time_limit: 60       # seconds; then the best so far
)text"},
    {"runs", "runs.csv", "rehearse calibrate {0} --cluster NAME -o mine.textproto",
     R"text(# Measured runs of one cluster, a line each. `rehearse check {0}` checks them.
# `rehearse calibrate {0} --cluster NAME -o mine.textproto` fits a profile to them, and
# `rehearse validate {0} --cluster NAME --profile ./mine.textproto` compares them with it.
#   model         a name of `rehearse list models`, or the path of a config.json; other networks
#                 have columns layers, hidden, heads, kv_heads, ffn, vocab, glu (1: gated)
#   framework     a name of `rehearse list frameworks`; its defaults fill what is left out
#   gbs, mbs      sequences of a step, and of a micro-batch
#   iter_time_s   seconds of a step; or tokens_s_gpu, tokens per second and GPU
#   settings      everything else, as in a plan file: "recompute=full; cp=2"
row_id,model,framework,n_gpus,tp,pp,mbs,gbs,seq,iter_time_s,tokens_s_gpu,settings
run-1,llama-3.1-8b,megatron-lm,64,4,2,1,512,8192,9.9,,
run-2,llama-3.1-8b,megatron-lm,64,8,1,1,512,8192,,7000,recompute=selective
)text"},
};

std::string filled(const char* text, const std::string& path) {
  std::string all(text);
  for (std::size_t at = 0; (at = all.find("{0}", at)) != std::string::npos; at += path.size())
    all.replace(at, 3, path);
  return all;
}

}  // namespace

int run_init(const Arguments& arguments, Globals globals) {
  Options options("init");
  options.flag("overwrite", "replace a file that is there").words(1, 2).parse(arguments, globals);
  std::vector<std::string> names;
  for (const Start& start : starts) {
    names.emplace_back(start.name);
    if (options.words()[0] != start.name) continue;
    const std::string path = options.words().size() > 1 ? options.words()[1] : start.file;
    keep_file(options, path);
    save(path, filled(start.text, path));
    say_written(globals, path,
                fmt::format("{}: written; next: {}", path, filled(start.next, path)));
    return exit_yes;
  }
  throw Stop{exit_usage,
             fmt::format("`rehearse init` writes a {}, not a '{}'{}", fmt::join(names, ", a "),
                         options.words()[0], did_you_mean(options.words()[0], names))};
}

}  // namespace sim::command
