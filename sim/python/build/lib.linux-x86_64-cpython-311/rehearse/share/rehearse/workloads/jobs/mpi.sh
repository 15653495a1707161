#!/bin/sh
# Runs a sweep with all processes of one job, inside of an allocation:
#   sh workloads/jobs/mpi.sh GRID FOLDER [PROCESSES]
# If the program was built with Open MPI, idle processes ask for points. Otherwise every process has
# a fixed share, and the last one merges them. FOLDER has the complete result in both cases. Under
# Slurm, `srun --mpi=pmix rehearse sweep GRID -o FOLDER` does the same.
set -eu
grid=$1 folder=$2 processes=${3:-8}
exec mpirun ${MPIRUN_OPTIONS:-} -n "$processes" "${REHEARSE:-rehearse}" sweep "$grid" -o "$folder" \
  --resume
