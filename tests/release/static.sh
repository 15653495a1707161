#!/bin/sh
# static.sh — builds the preset `static` and checks the tree that it installs: nothing but the C
# library is taken from the machine, and it answers as it did where it was built, from another place
# and without an environment.
#
#   tests/release/static.sh        some minutes
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/static
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  printf 'static.sh: %s\n' "$1" >&2
  exit 1
}

cd "$root"
cmake --preset static --log-level=WARNING >"$work/log" 2>&1 && ninja -C "$build" >>"$work/log" 2>&1 ||
  { tail -n 20 "$work/log" >&2; exit 70; }
cmake --install "$build" --prefix "$work/made" --strip >/dev/null
mkdir "$work/a place"
mv "$work/made" "$work/a place/moved"
tree="$work/a place/moved"

for program in "$tree/bin/rehearse" "$tree/libexec/rehearse/rehearse-network"; do
  others=$(ldd "$program" | grep -v -F "$tree/" | sed 's/^[[:space:]]*\([^ ]*\).*/\1/' |
    grep -v -E '^(linux-vdso|lib(c|m|dl|rt|pthread))\.so|ld-linux' || true)
  [ -z "$others" ] || fail "$program takes from the machine: $others"
done

cd "$work"
for command in 'run llama-2-7b-64' 'topo time dgx-h100 --ranks 0-15 --max 1MiB' 'list'; do
  # shellcheck disable=SC2086  # words of a command
  REHEARSE_ROOT=$root "$build/rehearse" $command >here
  # shellcheck disable=SC2086
  env -i LD_LIBRARY_PATH= HOME="$work" "$tree/bin/rehearse" $command >there
  cmp -s here there || fail "'$command' answers otherwise elsewhere"
done
needs=$(find "$tree" -type f \( -name '*.so*' -o -name 'rehearse*' \) -exec objdump -T {} + 2>/dev/null |
  grep -o 'GLIBC_2[.0-9]*' | sort -Vu | tail -n 1)
printf 'static: %s MB, needs %s\n' "$(du -sm "$tree" | cut -f 1)" "$needs"
