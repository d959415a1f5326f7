#!/bin/sh
# Prints exactly one JSON value on stdout: the result.
set -eu
[ "$1" = "--" ] && shift
set -f
# shellcheck disable=SC2086  # split into words
set -- $1
printf '{"words": %d}\n' "$#"
