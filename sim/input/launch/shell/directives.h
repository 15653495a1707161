// directives.h — variables that a batch system sets from the directives of a job script.
//
// `follow` (script.h) asks for them before it runs the first command, and again for a job that a
// script submits. A script's own assignments replace them.
//
// Sources: Slurm sbatch(1), "output environment variables"; Altair PBS Professional reference,
// "environment variables"; Torque 6 qsub, "PBS_NUM_NODES"; Son of Grid Engine qsub(1), "NHOSTS";
// IBM Spectrum LSF, "LSB_DJOB_NUMPROC"; Fujitsu PJM, "PJM_NODE".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sim::shell {

// What the directives of a job ask for; 0: they do not say.
struct JobRequest {
  std::int64_t nodes = 0;
  std::int64_t gpus_per_node = 0;
  std::int64_t tasks_per_node = 0;
  std::int64_t tasks = 0;
  std::int64_t cpus_per_task = 0;
};

// Adds the lines of a script that may be directives: comments without a blank behind the "#".
void add_directives(const std::string& script, std::vector<std::string>& to);

// Reads "#SBATCH --nodes=4", "#PBS -l select=16:ngpus=8", "#$ -l rt_F=16", "#BSUB -nnodes 4",
// "#PJM -L node=8". The first one of its kind counts: options of the command
// that submits a job come first.
JobRequest job_request(const std::vector<std::string>& directives);

// Variables by name with their values, of the batch systems whose directives the script has.
std::map<std::string, std::string> job_variables(const std::vector<std::string>& directives);

}  // namespace sim::shell
