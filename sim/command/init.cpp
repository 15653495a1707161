// init.cpp — `rehearse init`: writes a commented plan, cluster, grid, search or table of
// measurements to start from.
#include <fmt/format.h>

#include <array>

#include "sim/base/text.h"
#include "sim/calibrate/readers/reader.h"
#include "sim/command/common/command.h"

namespace sim::command {

namespace {

struct Start {
  const char* name;
  const char* file;  // default path
  const char* next;  // the command to run next
  const char* text;
  const char* format = "";  // of a table whose columns {1} and {2} stand in `text`
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
  vary { keys: "micro_batch" rows: "1|2" }
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
#   global_batch, micro_batch   sequences of a step, and of a microbatch (also gbs, mbs)
#   sequence      tokens of a sequence (also seq)
#   iter_time_s   seconds of a step; or tokens_s_gpu, tokens per second and GPU
#   settings      everything else, as in a plan file: "recompute=full; cp=2"
row_id,model,framework,n_gpus,tp,pp,micro_batch,global_batch,sequence,)text"
     R"text(iter_time_s,tokens_s_gpu,settings
run-1,llama-3.1-8b,megatron-lm,64,4,2,1,512,8192,9.9,,
run-2,llama-3.1-8b,megatron-lm,64,8,1,1,512,8192,,7000,recompute=selective
)text"},
    {"kernels", "gemm.csv", "rehearse calibrate {0} --profile h100-80",
     R"text(# Measured kernels of one GPU, a line each. `rehearse check {0}` checks them.
# `rehearse validate {0}` compares them with the profile of the GPU, and
# `rehearse calibrate {0} --profile NAME -o mine.textproto` fits a profile to them.
# `rehearse capture` writes a script that measures them.
# Cells that a kernel does not need stay blank.
{1}{2}
my node,matmul,H100-SXM5-80GB,bf16,8192,4096,4096,TN,False,,,,,,,,,,412,,
my node,matmul,H100-SXM5-80GB,bf16,8192,11008,4096,TN,False,,,,,,,,,640,,,
my node,attention,H100-SXM5-80GB,bf16,,,,,,1,8192,32,8,128,128,1,fwd,,1100,cuDNN,
my node,norm,H100-SXM5-80GB,bf16,,,,,,,,,,,,,,,52,,134217728
)text",
     "gemm.csv"},
    {"collectives", "nccl.csv", "rehearse calibrate {0} --profile h100-80",
     R"text(# Measured collectives, a line each. `rehearse check {0}` checks them.
# `rehearse validate {0}` compares them with the profile of the GPU, and
# `rehearse calibrate {0} --profile NAME -o mine.textproto` fits a profile to them.
# `calibrate` also reads the output of nccl-tests itself.
{1}{2}
my node,all_reduce,H100-SXM5-80GB,8,1,NVLink4/NVSwitch,,2.27.5,auto,1073741824,4200,
my node,all_gather,H100-SXM5-80GB,16,2,NVLink4/NVSwitch,IB 8x400Gb/s,2.27.5,auto,1073741824,,380
)text",
     "nccl.csv"},
};

std::string replaced(std::string all, std::string_view mark, const std::string& by) {
  for (std::size_t at = 0; (at = all.find(mark, at)) != std::string::npos; at += by.size())
    all.replace(at, mark.size(), by);
  return all;
}

// The columns of a table as comments, one line each, and as the table's first line.
std::string with_columns(const Start& start) {
  std::string comments, head;
  for (const calibrate::Reader& reader : calibrate::readers()) {
    if (reader.name != start.format) continue;
    for (const calibrate::TableColumn& column : reader.columns) {
      comments += fmt::format("#   {:<13} {}\n", column.name, column.line);
      head += fmt::format("{}{}", head.empty() ? "" : ",", column.name);
    }
  }
  return replaced(replaced(start.text, "{1}", comments), "{2}", head);
}

std::string filled(std::string text, const std::string& path) {
  return replaced(std::move(text), "{0}", path);
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
    save(path, filled(with_columns(start), path));
    say_written(globals, path,
                fmt::format("{}: written; next: {}", path, filled(start.next, path)));
    return exit_yes;
  }
  throw Stop{exit_usage,
             fmt::format("`rehearse init` writes a {}, not a '{}'{}", fmt::join(names, ", a "),
                         options.words()[0], did_you_mean(options.words()[0], names))};
}

}  // namespace sim::command
