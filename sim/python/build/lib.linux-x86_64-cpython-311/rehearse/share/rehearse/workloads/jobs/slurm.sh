#!/bin/sh
# Runs a sweep as an array job of Slurm, and merges the shards at the end. On the login node:
#   sh workloads/jobs/slurm.sh GRID FOLDER [TASKS]
# If tasks were lost, submit the array again: every task resumes its records.
set -eu
grid=$1 folder=$2 tasks=${3:-8}
rehearse=${REHEARSE:-rehearse}
array=$(sbatch --parsable --array="1-$tasks" --ntasks=1 --job-name=rehearse-sweep \
  --output="$folder-%a.log" ${SBATCH_OPTIONS:-} \
  --wrap "'$rehearse' sweep '$grid' -o '$folder' --shard auto --resume")
# A failed task prevents the merge. Out of memory is a result, not a failure.
merge=$(sbatch --parsable --dependency="afterok:$array" --ntasks=1 --job-name=rehearse-merge \
  --output="$folder-merge.log" ${SBATCH_OPTIONS:-} \
  --wrap "'$rehearse' merge '$folder'")
echo "array $array, merge $merge; results will be in $folder/results.csv"
