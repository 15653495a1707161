#!/bin/sh
# static.sh — the static archive. Builds the preset `static` in a folder of its own, packs it as users
# do, and unpacks it. The tree takes only the C library from the machine, and it answers as where it
# was built. As root: also in a root that has only the C library. Prints the time from unpacking there
# to the first answer; over 10 s of CPU time is a failure.
#
#   tests/release/static.sh        some minutes
set -eu

source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
build=$work/build
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

fail() {
  printf 'static.sh: %s\n' "$1" >&2
  exit 1
}
# CPU time of all commands so far, in ms. A limit of wall time would fail on a busy machine.
cpu_ms() { awk -F '[ms ]+' 'NR == 2 { print int(1000 * (60 * ($1 + $3) + $2 + $4)) }' "$work/times"; }
# Runs a command; its output matters only if it fails.
quiet() { "$@" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; fail "$* failed"; }; }

cd "$source"
quiet cmake --preset static -B "$build"
quiet cmake --build "$build"
quiet cpack -G TGZ --config "$build/CPackConfig.cmake" -B "$work"
mkdir "$work/a place"
tar -xzf "$work"/rehearse_*.tar.gz -C "$work/a place"
tree=$(echo "$work/a place/"rehearse_*)

libraries=
for program in "$tree/bin/rehearse" "$tree/libexec/rehearse/rehearse-network"; do
  found=$(ldd "$program" | grep -v -F "$tree/" | grep -o '[^ 	]*\.so[^ ]*' | sort -u)
  others=$(echo "$found" | sed 's:.*/::' |
    grep -v -E '^(linux-vdso|lib(c|m|dl|rt|pthread)|ld-linux.*)\.so' || true)
  [ -z "$others" ] || fail "$program takes from the machine: $others"
  libraries="$libraries $(echo "$found" | grep / || true)"
done

cd "$work"
for command in 'run llama-2-7b-64' 'topo time dgx-h100 --ranks 0-15 --max 1MiB' 'list'; do
  # shellcheck disable=SC2086  # words of a command
  REHEARSE_ROOT=$source "$build/rehearse" $command >here
  # shellcheck disable=SC2086
  env -i LD_LIBRARY_PATH= HOME="$work" "$tree/bin/rehearse" $command >there
  cmp -s here there || fail "'$command' answers otherwise elsewhere"
done
needs=$(find "$tree" -type f \( -name '*.so*' -o -name 'rehearse*' \) -exec objdump -T {} + 2>/dev/null |
  grep -o 'GLIBC_2[.0-9]*' | sort -Vu | tail -n 1)
printf 'static: %s MB, needs %s\n' "$(du -sm "$tree" | cut -f 1)" "$needs"
[ "$(id -u)" = 0 ] || exit 0

root=$work/root
mkdir -p "$root/opt" "$root/tmp"
for library in $libraries; do
  mkdir -p "$root${library%/*}"
  cp -L "$library" "$root$library"
done
times >"$work/times"
begin=$(date +%s%N) cpu=$(cpu_ms)
tar -xzf "$work"/rehearse_*.tar.gz -C "$root/opt" --strip-components=1
env -i "$(command -v chroot)" "$root" /opt/bin/rehearse run llama-2-7b-64 >first
times >"$work/times"
answer=$((($(date +%s%N) - begin) / 1000000)) cpu=$(($(cpu_ms) - cpu))
REHEARSE_ROOT=$source "$build/rehearse" run llama-2-7b-64 >here
cmp -s here first || fail 'it answers otherwise in a root that has only the C library'
env -i "$(command -v chroot)" "$root" /opt/bin/rehearse topo time dgx-h100 --max 1MiB >first
printf 'static: first answer after %s ms (CPU %s ms)\n' "$answer" "$cpu"
[ "$cpu" -le 10000 ] || fail "the first answer took $cpu ms of CPU time, over 10000 ms"
