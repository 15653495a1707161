#!/bin/sh
# A sweep as an array of Slurm, and what puts it together when all of it is done. On the login node:
#   sh workloads/jobs/slurm.sh GRID FOLDER [TASKS]
# An array that lost tasks is submitted again as it is: every task goes on with what it has.
set -eu
grid=$1 folder=$2 tasks=${3:-8}
rehearse=${REHEARSE:-rehearse}
array=$(sbatch --parsable --array="1-$tasks" --ntasks=1 --job-name=rehearse-sweep \
  --output="$folder-%a.log" ${SBATCH_OPTIONS:-} \
  --wrap "'$rehearse' sweep '$grid' -o '$folder' --shard auto --resume")
# A task that fails keeps the merge from running; out of memory is a result, not a failure.
merge=$(sbatch --parsable --dependency="afterok:$array" --ntasks=1 --job-name=rehearse-merge \
  --output="$folder-merge.log" ${SBATCH_OPTIONS:-} \
  --wrap "'$rehearse' merge '$folder'")
echo "array $array, merge $merge; results will be in $folder/results.csv"
