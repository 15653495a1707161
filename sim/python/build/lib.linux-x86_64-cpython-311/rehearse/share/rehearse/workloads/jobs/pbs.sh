#!/bin/sh
# Runs a sweep as an array job of PBS, and merges the shards at the end. On the login node:
#   sh workloads/jobs/pbs.sh GRID FOLDER [TASKS]
# PBS does not tell a task the size of its array, so the script does (auto/N). Options of a site
# (-q rt_HF -l select=1 -P GROUP) go into QSUB_OPTIONS.
set -eu
grid=$1 folder=$2 tasks=${3:-8}
rehearse=${REHEARSE:-rehearse}
array=$(echo "cd '$PWD' && '$rehearse' sweep '$grid' -o '$folder' --shard auto/$tasks --resume" |
  qsub -V -N rehearse-sweep -J "1-$tasks" ${QSUB_OPTIONS:-})
merge=$(echo "cd '$PWD' && '$rehearse' merge '$folder'" |
  qsub -V -N rehearse-merge -W "depend=afterok:$array" ${QSUB_OPTIONS:-})
echo "array $array, merge $merge; results will be in $folder/results.csv"
