#!/bin/sh
# run.sh — fuzzes every reader and prints, for each, how often it ran and what it reached.
#
#   tests/fuzz/run.sh EXECUTIONS [TARGET...]     so many executions of each target
#
# Builds with clang++ into build/fuzz; what is new goes to build/fuzz/corpus/TARGET beside copies of
# tests/fuzz/corpus/TARGET and of the repository's own files. An input that crashes is kept as
# build/fuzz/crash-TARGET-*; the script then exits 1.
#   blocks    edges of the instrumented rooms that inputs reach
#   features  the same with how often each is reached
set -eu

[ $# -ge 1 ] || { sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 64; }
executions=$1
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/fuzz
[ $# -ge 1 ] || set -- huggingface textproto loaders plan_file tables topology_import launch_file \
  calibrate_readers memory_trace memory_pickle records page_request

mkdir -p "$build"
[ -f "$build/build.ninja" ] || CC=clang CXX=clang++ cmake -S "$root" -B "$build" -G Ninja \
  -DREHEARSE_FUZZ=ON -DREHEARSE_TESTS=OFF -DREHEARSE_BATCHES=ON >"$build/configure.log" 2>&1 ||
  { cat "$build/configure.log" >&2; exit 70; }
ninja -C "$build" $(printf 'fuzz_%s ' "$@") >"$build/build.log" 2>&1 ||
  { tail -n 20 "$build/build.log" >&2; exit 70; }

# Copies small files as seeds, behind the byte $1 that says what they are.
seed() {
  byte=$1 folder=$2
  shift 2
  for file in "$@"; do
    [ -f "$file" ] || continue
    name=$(basename "$file")
    { printf '%s' "$byte"; head -c 4000 "$file"; } >"$folder/seed-${byte:-x}-$name"
  done
}

seeds() {
  folder=$build/corpus/$1
  mkdir -p "$folder"
  cp "$root/tests/fuzz/corpus/$1/"* "$folder/" 2>/dev/null || true
  case $1 in
    huggingface) seed '' "$folder" "$root"/models/*.json ;;
    textproto | loaders)
      seed c "$folder" "$root"/topologies/*.textproto
      seed o "$folder" "$root"/calibration/*.textproto
      seed l "$folder" "$root"/workloads/campaigns/*.textproto
      seed t "$folder" "$root"/workloads/failures/*.textproto
      seed f "$folder" "$root"/workloads/frameworks/*.textproto
      seed r "$folder" "$root"/calibration/residuals/*.textproto
      seed g "$folder" "$root"/workloads/paper-454.textproto
      seed p "$folder" "$root"/workloads/llama*.textproto
      ;;
    plan_file)
      seed p "$folder" "$root"/workloads/*.textproto
      seed m "$folder" "$root"/workloads/jobs/*
      ;;
    tables) for file in "$root"/calibration/measured/*.csv; do
      head -n 8 "$file" >"$folder/seed-$(basename "$file")"
    done ;;
    calibrate_readers)
      seed '' "$folder" "$root"/tests/calibrate/data/*
      for file in "$root"/calibration/measured/*.csv; do
        head -n 8 "$file" >"$folder/seed-$(basename "$file")"
      done
      ;;
  esac
}

failed=0 all=0
printf '%-18s %12s %8s %9s %6s\n' reader executions blocks features corpus
for target in "$@"; do
  seeds "$target"
  log=$build/$target.log
  code=0
  "$build/tests/fuzz/fuzz_$target" "$build/corpus/$target" -runs="$executions" -max_len=4096 \
    -rss_limit_mb=2048 -timeout=60 -use_value_profile=0 -dict="$build/tests/fuzz/schemas.dict" \
    -artifact_prefix="$build/crash-$target-" -print_final_stats=1 >"$log" 2>&1 || code=$?
  last=$(grep -a -E '^#[0-9]+.*cov:' "$log" | tail -n 1)
  done=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  cov=${last#*cov: } ft=${last#*ft: }
  printf '%-18s %12s %8s %9s %6s%s\n' "$target" "${done:-0}" "${cov%% *}" "${ft%% *}" \
    "$(find "$build/corpus/$target" -type f | wc -l)" "$([ "$code" = 0 ] || echo '  FAILED')"
  all=$((all + ${done:-0}))
  [ "$code" = 0 ] || failed=1
done
printf '%-18s %12s\n' all "$all"
exit "$failed"
