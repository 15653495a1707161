#!/bin/sh
# package.sh — the Debian package in a machine that has nothing else: installs it with what it
# declares, asks it, removes it, and says how long the first answer took. As root, with debootstrap
# and a mirror of Debian 12; the folder ROOT is made anew unless it is there.
#
#   tests/release/package.sh PACKAGE.deb ROOT
set -eu

[ $# = 2 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 64; }
package=$1 root=$2
[ -d "$root" ] || debootstrap --variant=minbase bookworm "$root" >/dev/null
cp "$package" "$root/tmp/rehearse.deb"
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
inside apt-get -q update >/dev/null

begin=$(date +%s%N)
inside apt-get -q install -y --no-install-recommends /tmp/rehearse.deb >/dev/null 2>&1
inside rehearse run llama-2-7b-64 >/dev/null
end=$(date +%s%N)

inside sh -c 'cd /tmp && rehearse --version && rehearse topo time dgx-h100 --max 1MiB &&
  rehearse sweep paper-454 -o grid && rehearse init plan mine.textproto &&
  rehearse check mine.textproto && rehearse list schemas' >/dev/null 2>&1
for file in /usr/share/man/man1/rehearse.1 /usr/share/bash-completion/completions/rehearse; do
  [ -s "$root$file" ] || [ -s "$root$file.gz" ]
done
inside apt-get -q purge -y rehearse >/dev/null 2>&1
left=$(find "$root/usr" "$root/etc" "$root/var/lib" -name '*rehearse*' ! -path '*/dpkg/*')
[ -z "$left" ] || { printf 'package.sh: left behind: %s\n' "$left" >&2; exit 1; }
printf 'package: first answer after %s ms, removed without a trace\n' "$(((end - begin) / 1000000))"
