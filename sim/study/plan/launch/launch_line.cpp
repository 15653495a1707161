#include "sim/study/plan/launch/launch_line.h"

#include <fmt/format.h>

#include <algorithm>

namespace sim::planner {

namespace {

constexpr const char* on_every_node =
    "# on every node: MASTER_ADDR is the node of rank 0, NODE_RANK counts the nodes from 0\n";

std::string torchrun(const LaunchNodes& to) {
  if (to.nodes == 1) return fmt::format("torchrun --nproc_per_node {}", to.per_node);
  return fmt::format(
      "torchrun --nnodes {} --nproc_per_node {} --node_rank \"${{NODE_RANK:?}}\" "
      "--master_addr \"${{MASTER_ADDR:?}}\" --master_port \"${{MASTER_PORT:-29500}}\"",
      to.nodes, to.per_node);
}

// The head of a batch script. Each node runs one torchrun; the nodes meet at the first one.
std::string slurm_head(const LaunchNodes& to) {
  const std::string cores =
      to.cores > 0 ? fmt::format("#SBATCH --cpus-per-task={}\n", to.cores)
                   : "# write the CPU cores of a node here: #SBATCH --cpus-per-task=N\n";
  return fmt::format(
      "#!/bin/bash\n#SBATCH --job-name={}\n#SBATCH --nodes={}\n#SBATCH --ntasks-per-node=1\n"
      "#SBATCH --gpus-per-node={}\n{}#SBATCH --exclusive\n#SBATCH --output=%x-%j.log\n"
      "# write your time limit here: #SBATCH --time=HH:MM:SS\n"
      "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n",
      to.job, to.nodes, to.per_node, cores);
}

// One task on each node. Since Slurm 22.05 srun does not take over --cpus-per-task.
std::string srun(const LaunchNodes& to) {
  return fmt::format(
      "srun --cpus-per-task=\"$SLURM_CPUS_ON_NODE\" torchrun --nnodes {} --nproc_per_node {} "
      "--rdzv_id \"$SLURM_JOB_ID\" --rdzv_backend "
      "c10d --rdzv_endpoint \"$MASTER_ADDR:29500\"",
      to.nodes, to.per_node);
}

}  // namespace

LaunchNodes launch_nodes(const program::Plan& plan, const std::string& model, int gpus_per_node,
                         Launcher launcher) {
  LaunchNodes to;
  to.per_node = std::min(gpus_per_node, plan.world());
  to.nodes = plan.world() / to.per_node;
  to.launcher = launcher;
  for (const char c : model.substr(model.find_last_of('/') + 1))
    to.job += std::string_view(" \t'\"$`\\").find(c) == std::string_view::npos ? c : '-';
  if (to.job.empty()) to.job = "training";
  return to;
}

Environment environment_of(const program::Plan& plan) {
  Environment all;
  const bool one_queue = plan.mesh.tp > 1 || plan.mesh.cp > 1;
  if (one_queue && !plan.shards_parameters()) all.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS", "1");
  if (!plan.environment.allocator_options.empty())
    all.emplace_back("PYTORCH_CUDA_ALLOC_CONF", plan.environment.allocator_options);
  if (plan.environment.avoid_record_streams)
    all.emplace_back("TORCH_NCCL_AVOID_RECORD_STREAMS", "1");
  if (plan.environment.launch_blocking) all.emplace_back("CUDA_LAUNCH_BLOCKING", "1");
  // Modules whose inputs go to the CPU: TransformerEngine 2.10 and later would offload weights too
  // [core_v0.19.0 megatron/training/arguments.py:validate_args].
  if (plan.policy.offload_modules != 0) all.emplace_back("NVTE_CPU_OFFLOAD_V1", "1");
  return all;
}

std::string shell_script(const program::Plan& plan, const LaunchNodes& nodes,
                         const std::string& note, const std::string& program) {
  return shell_script(environment_of(plan), nodes, note, program);
}

std::string shell_script(const Environment& environment, const LaunchNodes& nodes,
                         const std::string& note, const std::string& program) {
  const bool slurm = nodes.launcher == Launcher::slurm;
  std::string text = slurm ? slurm_head(nodes) : "";
  for (const auto& [name, value] : environment)
    if (!slurm || !name.starts_with("MASTER_"))  // the head's, of the job's first node
      text += fmt::format("export {}={}\n", name, value);
  text += note;
  if (!slurm && nodes.nodes > 1) text += on_every_node;
  return text + (slurm ? srun(nodes) : torchrun(nodes)) + " " + program;
}

std::string environment_comment(const program::Plan& plan) {
  std::string text;
  for (const auto& [name, value] : environment_of(plan))
    text += fmt::format("# export {}={}\n", name, value);
  return text;
}

std::string command_comment(const LaunchNodes& nodes, const std::string& program) {
  if (nodes.launcher == Launcher::torchrun)
    return fmt::format("{}# {} {}\n", nodes.nodes > 1 ? on_every_node : "", torchrun(nodes),
                       program);
  return fmt::format(
      "# sbatch --job-name={} --nodes={} --ntasks-per-node=1 --gpus-per-node={} --exclusive "
      "--output=%x-%j.log --wrap='MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | "
      "head -n 1); {} {}'\n",
      nodes.job, nodes.nodes, nodes.per_node, srun(nodes), program);
}

}  // namespace sim::planner
