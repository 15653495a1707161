#include "sim/input/launch/shell/directives.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace sim::shell {
namespace {

constexpr std::int64_t most = 1 << 24;

// The whole number at the start of a text: 8 of "8(S:0-1)".
std::int64_t leading_number(std::string_view text) {
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return error == std::errc{} && end != text.data() && n > 0 && n <= most ? n : 0;
}

// The number after the last colon: 4 of "gpu:a100:4".
std::int64_t last_number(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  return leading_number(text.substr(colon == std::string_view::npos ? 0 : colon + 1));
}

// The first directive wins: options of the submitting command come first.
void keep(std::int64_t& field, std::int64_t value) {
  if (value > 0 && field == 0) field = value;
}

struct Option {
  std::string_view name, value;
};

// The options of a directive: "--nodes=4", "-N 4", "-l select=2". A comment ends them.
std::vector<Option> options_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t i = 0; i < text.size();) {
    i = text.find_first_not_of(" \t\r", i);
    if (i == std::string_view::npos || text[i] == '#') break;
    const std::size_t end = std::min(text.find_first_of(" \t\r", i), text.size());
    words.push_back(text.substr(i, end - i));
    i = end;
  }
  std::vector<Option> options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with('-')) continue;
    const std::size_t equals = words[i].find('=');
    if (words[i].starts_with("--") && equals != std::string_view::npos)
      options.push_back({words[i].substr(0, equals), words[i].substr(equals + 1)});
    else if (i + 1 < words.size() && !words[i + 1].starts_with('-'))
      options.push_back({words[i], words[i + 1]});
  }
  return options;
}

void read_slurm(const Option& option, JobRequest& job) {
  const std::string_view name = option.name;
  if (name == "--nodes" || name == "-N") keep(job.nodes, leading_number(option.value));
  if (name == "--ntasks-per-node") keep(job.tasks_per_node, leading_number(option.value));
  if (name == "--ntasks" || name == "-n") keep(job.tasks, leading_number(option.value));
  if (name == "--cpus-per-task" || name == "-c")
    keep(job.cpus_per_task, leading_number(option.value));
  if (name == "--gpus-per-node" || (name == "--gres" && option.value.starts_with("gpu")))
    keep(job.gpus_per_node, last_number(option.value));
}

// "select=16:ngpus=8:mpiprocs=8", "nodes=4:ppn=8:gpus=8" and "rt_F=16" (whole nodes of ABCI).
void read_resources(std::string_view list, JobRequest& job) {
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t end = std::min(list.find_first_of(":,", at), list.size());
    const std::string_view part = list.substr(at, end - at);
    at = end + 1;
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = part.substr(0, equals);
    const std::int64_t value = leading_number(part.substr(equals + 1));
    if (name == "select" || name == "nodes" || name == "node" || name == "rt_F" || name == "rt_HF")
      keep(job.nodes, value);
    if (name == "ngpus" || name == "gpus" || name == "gpu") keep(job.gpus_per_node, value);
    if (name == "mpiprocs" || name == "ppn") keep(job.tasks_per_node, value);
  }
}

void read_lsf(const Option& option, JobRequest& job) {
  if (option.name == "-nnodes") keep(job.nodes, leading_number(option.value));
  if (option.name == "-n") keep(job.tasks, leading_number(option.value));
  if (option.name == "-gpu")
    if (const std::size_t at = option.value.find("num="); at != std::string_view::npos)
      keep(job.gpus_per_node, leading_number(option.value.substr(at + 4)));
}

enum class Batch : std::uint8_t { slurm, pbs, grid_engine, lsf, pjm, none };

// The batch system of a directive and the rest of its line.
std::pair<Batch, std::string_view> batch_of(std::string_view line) {
  constexpr std::array<std::pair<std::string_view, Batch>, 5> marks = {{{"#SBATCH", Batch::slurm},
                                                                        {"#PBS", Batch::pbs},
                                                                        {"#$", Batch::grid_engine},
                                                                        {"#BSUB", Batch::lsf},
                                                                        {"#PJM", Batch::pjm}}};
  for (const auto& [mark, batch] : marks)
    if (line.starts_with(mark) && line.size() > mark.size() &&
        (line[mark.size()] == ' ' || line[mark.size()] == '\t'))
      return {batch, line.substr(mark.size())};
  return {Batch::none, {}};
}

void read_directive(std::string_view line, JobRequest& job) {
  const auto [batch, rest] = batch_of(line);
  for (const Option& option : options_of(rest)) {
    if (batch == Batch::slurm) read_slurm(option, job);
    if (batch == Batch::lsf) read_lsf(option, job);
    if ((batch == Batch::pbs || batch == Batch::grid_engine) && option.name == "-l")
      read_resources(option.value, job);
    if (batch == Batch::pjm && option.name == "-L") read_resources(option.value, job);
  }
}

}  // namespace

void add_directives(const std::string& script, std::vector<std::string>& to) {
  for (std::size_t line = 0; line < script.size();) {
    const std::size_t end = std::min(script.find('\n', line), script.size());
    const std::string text = script.substr(line, end - line);
    if (text.starts_with('#') && !text.starts_with("#!") && !text.starts_with("# "))
      to.push_back(text);
    line = end + 1;
  }
}

JobRequest job_request(const std::vector<std::string>& directives) {
  JobRequest job;
  for (const std::string& line : directives) read_directive(line, job);
  return job;
}

std::map<std::string, std::string> job_variables(const std::vector<std::string>& directives) {
  const JobRequest job = job_request(directives);
  const auto uses = [&](Batch batch) {
    return std::ranges::any_of(
        directives, [&](const std::string& line) { return batch_of(line).first == batch; });
  };
  std::map<std::string, std::string> variables;
  const auto define = [&](const char* name, std::int64_t value) {
    if (value > 0) variables[name] = std::to_string(value);
  };
  const std::int64_t tasks = job.tasks > 0 ? job.tasks : job.nodes * job.tasks_per_node;
  if (uses(Batch::slurm)) {
    for (const char* name : {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}) define(name, job.nodes);
    for (const char* name : {"SLURM_NTASKS", "SLURM_NPROCS"}) define(name, tasks);
    for (const char* name : {"SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"})
      define(name, job.tasks_per_node);
    for (const char* name : {"SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"})
      define(name, job.gpus_per_node);
    define("SLURM_CPUS_PER_TASK", job.cpus_per_task);
  }
  if (uses(Batch::pbs)) {
    define("PBS_NUM_NODES", job.nodes);
    define("PBS_NUM_PPN", job.tasks_per_node);
    define("PBS_NP", tasks);
  }
  if (uses(Batch::grid_engine)) define("NHOSTS", job.nodes);
  if (uses(Batch::lsf)) define("LSB_DJOB_NUMPROC", tasks);
  if (uses(Batch::pjm)) define("PJM_NODE", job.nodes);
  return variables;
}

}  // namespace sim::shell
