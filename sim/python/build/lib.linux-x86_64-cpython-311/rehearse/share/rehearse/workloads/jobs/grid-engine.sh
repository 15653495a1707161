#!/bin/sh
# Runs a sweep as an array job of Grid Engine, and merges the shards at the end. On the login node:
#   sh workloads/jobs/grid-engine.sh GRID FOLDER [TASKS]
# Options of a site (-g GROUP, -l h_rt=1:00:00) go into QSUB_OPTIONS.
set -eu
grid=$1 folder=$2 tasks=${3:-8}
rehearse=${REHEARSE:-rehearse}
array=$(echo "'$rehearse' sweep '$grid' -o '$folder' --shard auto --resume" |
  qsub -terse -cwd -V -N rehearse-sweep -t "1-$tasks" ${QSUB_OPTIONS:-} | cut -d. -f1)
merge=$(echo "'$rehearse' merge '$folder'" |
  qsub -terse -cwd -V -N rehearse-merge -hold_jid "$array" ${QSUB_OPTIONS:-})
echo "array $array, merge $merge; results will be in $folder/results.csv"
