#!/usr/bin/env bash
# Draws where the gateway's time goes under load: `make flamegraph`. Needs perf, the right to use it, and inferno
# (cargo install inferno). The load is the benchmark's own: an echo through gateway and worker, 1 to 256 calls in flight.
set -euo pipefail
cd "$(dirname "$0")/../.."

picture=${1:-target/flamegraph.svg}
for program in perf inferno-collapse-perf inferno-flamegraph; do
    command -v "$program" >/dev/null || { echo "missing: $program (perf: apt-get install linux-perf; the others: cargo install inferno)" >&2; exit 1; }
done
folder=$(mktemp -d)
"$BENCH" calls --only invoke --no-memory --rounds 1 --seconds 4 >"$folder/load" 2>&1 &
load=$!
trap 'kill "$load" 2>/dev/null || true; wait "$load" 2>/dev/null || true; rm -rf "$folder"' EXIT

# The benchmark's own child.
gateway=
until [ -n "$gateway" ]; do
    kill -0 "$load" 2>/dev/null || { cat "$folder/load" >&2; exit 1; }
    gateway=$(pgrep -P "$load" -f 'openskill up' || true)
    sleep 0.1
done
# Until the load is over: the gateway ends then. Its stacks are deep, so they are copied whole, and not often.
perf record --quiet --freq 197 --call-graph dwarf,65528 --pid "$gateway" --output "$folder/perf.data" || true
[ -s "$folder/perf.data" ] || { echo "perf recorded nothing: see kernel.perf_event_paranoid" >&2; exit 1; }
perf script --no-inline --input "$folder/perf.data" 2>/dev/null | inferno-collapse-perf >"$folder/folded"
inferno-flamegraph --title "openskill gateway, Invoke of an echo" --minwidth 0.3 "$folder/folded" >"$picture"
echo "$picture"
