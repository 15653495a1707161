#!/bin/sh
# package.sh — the Debian package in a root that debootstrap makes. Packs the folder BUILD, or a build
# of the preset `release` in a folder of its own. Installs the package with its dependencies, asks it,
# and removes it. Prints the time from the installation to the first answer; over 10 s of CPU time is
# a failure. Dependencies are downloaded before the clock starts.
#
#   tests/release/package.sh [BUILD]      as root, with debootstrap and a mirror of Debian 12; minutes
set -eu

source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
root=$work/root
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

fail() {
  printf 'package.sh: %s\n' "$1" >&2
  exit 1
}
# CPU time of all commands so far, in ms. A limit of wall time would fail on a busy machine.
cpu_ms() { awk -F '[ms ]+' 'NR == 2 { print int(1000 * (60 * ($1 + $3) + $2 + $4)) }' "$work/times"; }
# Runs a command; its output matters only if it fails.
quiet() { "$@" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; fail "$* failed"; }; }
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }

cd "$source"
build=${1:-$work/build}
if [ $# = 0 ]; then
  quiet cmake --preset release -B "$build" -DREHEARSE_TESTS=OFF
  quiet cmake --build "$build"
fi
quiet cpack -G DEB --config "$build/CPackConfig.cmake" -B "$work"
quiet debootstrap --variant=minbase bookworm "$root"
cp "$work"/rehearse_*.deb "$root/tmp/rehearse.deb"
install='apt-get -q install -y --no-install-recommends'
quiet inside apt-get -q update
begin=$(date +%s%N)
quiet inside $install --download-only /tmp/rehearse.deb
download=$((($(date +%s%N) - begin) / 1000000))

times >"$work/times"
begin=$(date +%s%N) cpu=$(cpu_ms)
quiet inside $install /tmp/rehearse.deb
quiet inside rehearse run llama-2-7b-64
times >"$work/times"
answer=$((($(date +%s%N) - begin) / 1000000)) cpu=$(($(cpu_ms) - cpu))

quiet inside sh -ec 'cd /tmp && rehearse --version && rehearse topo time dgx-h100 --max 1MiB &&
  rehearse sweep model=llama-2-7b cluster=dgx-h100 gpus=8 global_batch=8 sequence=4096 -o grid &&
  rehearse init plan mine.textproto &&
  rehearse check mine.textproto && rehearse list schemas'
for file in /usr/share/man/man1/rehearse.1 /usr/share/bash-completion/completions/rehearse; do
  [ -s "$root$file" ] || [ -s "$root$file.gz" ] || fail "$file is missing"
done
quiet inside apt-get -q purge -y rehearse
left=$(find "$root/usr" "$root/etc" "$root/var/lib" -name '*rehearse*' ! -path '*/dpkg/*')
[ -z "$left" ] || fail "left behind: $left"
printf 'package: downloads in %s ms, first answer after %s ms (CPU %s ms), removed without a trace\n' \
  "$download" "$answer" "$cpu"
[ "$cpu" -le 10000 ] || fail "the first answer took $cpu ms of CPU time, over 10000 ms"
