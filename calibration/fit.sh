#!/bin/sh
# fit.sh — fits the profiles of this folder again, each to the tables that fits.csv lists for it.
#
#   calibration/fit.sh [-o FOLDER] [PROFILE ...]    all profiles without a name
#
# The new profiles go to FOLDER (build/fits), beside the errors of the runs before and after. A fit in
# doubt is not written, and the command says why. Nothing in calibration/ changes.
set -eu

here=${0%/*}
case $here in "$0") here=. ;; esac
root=$here/..
folder=$root/build/fits
if [ "${1-}" = -o ]; then
  folder=$2
  shift 2
fi
mkdir -p "$folder"

while IFS=, read -r profile sources _; do
  if [ "$profile" = profile ]; then continue; fi
  case " $* " in '  ' | *" $profile "*) ;; *) continue ;; esac
  set -f
  paths=
  for source in $sources; do paths="$paths $here/measured/$source"; done
  printf '== %s\n' "$profile"
  # shellcheck disable=SC2086  # a list of words
  "$root/rehearse" calibrate $paths --profile "$profile" -o "$folder/$profile.textproto" \
    >"$folder/$profile.txt" || printf '%s: in doubt, not written\n' "$profile"
  set +f
  sed -n -e '/^  error /p' -e '/^90 % interval/p' "$folder/$profile.txt"
done <"$here/fits.csv"
