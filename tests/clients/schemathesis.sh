#!/usr/bin/env bash
# Asks a gateway with the shipped skills whether it does what its OpenAPI document says.
#
#   schemathesis.sh BINARY ST [OPTION...]     ST: the program of schemathesis; options go to `st run`
set -euo pipefail

binary=$(realpath "$1") st=$(realpath -s "$2")
shift 2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$(dirname "$here")")
folder=$(mktemp -d)
gateway=
finish() {
    [ -z "$gateway" ] || { kill "$gateway" 2>/dev/null; wait "$gateway" 2>/dev/null || true; }
    rm -rf "$folder"
}
trap finish EXIT

# Skills may write: they get a copy.
cp -r "$root/data" "$folder/data"
cd "$folder"
env -i PATH="$PATH" OPENSKILL_TRACE_DIR=memory OPENSKILL_AGENT_STORE=memory OPENSKILL_ALLOWED_ROOT="$folder/data" \
    CIRCUIT_FAILURE_THRESHOLD=0 OPENSKILL_CIRCUIT_MINIMUM_CALLS=0 \
    "$binary" up --listen 127.0.0.1:0 --skills-dir "$root/worker/skills" >out 2>log &
gateway=$!
for _ in $(seq 300); do
    url=$(sed -n 's/^openskill is ready.*\(http:\/\/[0-9.:]*\).*/\1/p' out)
    [ -z "$url" ] || break
    kill -0 "$gateway" 2>/dev/null || { cat log >&2; exit 1; }
    sleep 0.1
done
[ -n "$url" ] || { echo "the gateway is not ready" >&2; exit 1; }
"$st" --config-file "$here/schemathesis.toml" run "$@" "$url/openapi.json"
