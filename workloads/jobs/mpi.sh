#!/bin/sh
# A sweep by all processes of one job, inside of an allocation:
#   sh workloads/jobs/mpi.sh GRID FOLDER [PROCESSES]
# With Open MPI on the machine that built the program, points go to whoever is free; without, every
# process has a fixed share and the last one puts them together. Either way FOLDER holds the whole.
# Under Slurm, `srun --mpi=pmix rehearse sweep GRID -o FOLDER` does the same.
set -eu
grid=$1 folder=$2 processes=${3:-8}
exec mpirun ${MPIRUN_OPTIONS:-} -n "$processes" "${REHEARSE:-rehearse}" sweep "$grid" -o "$folder" \
  --resume
