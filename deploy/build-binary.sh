#!/bin/sh
# Runs inside the build stages of deploy/Dockerfile, at the root of the source tree.
#
#   build-binary.sh all OUT       puts the program at OUT
#   build-binary.sh gateway OUT   the one of the gateway's image, which has no worker in it
#
# A prebuilt dist/openskill-$TARGETARCH or dist/openskill wins and needs no Rust. The gateway takes dist/openskill-gateway-$TARGETARCH
# or dist/openskill-gateway before these: the program with a worker serves as well, and is larger. Without any, cargo builds it.
# All symbols are dropped: `make dist` keeps those of a release in a file of their own.
set -eu

kind=$1
out=$2

# put BINARY: where there is no strip, or nothing to strip, a plain copy.
put() {
    mkdir -p "$(dirname "$out")"
    strip --strip-all -o "$out" "$1" 2>/dev/null || cp "$1" "$out"
    chmod 0755 "$out"
}

names=openskill
features=
if [ "$kind" = gateway ]; then
    names="openskill-gateway openskill"
    features=--no-default-features
fi
for name in $names; do
    for prebuilt in "dist/$name-${TARGETARCH:-none}" "dist/$name"; do
        if [ -f "$prebuilt" ]; then
            echo "using the prebuilt $prebuilt"
            put "$prebuilt"
            exit 0
        fi
    done
done
command -v cargo >/dev/null || {
    echo "there is no dist/openskill in the build context and no cargo in BUILD_IMAGE: one of them is needed" >&2
    exit 1
}
# Not in the source tree, and gone afterwards: gigabytes that would stay in the layer for nothing.
CARGO_TARGET_DIR=$(mktemp -d)
export CARGO_TARGET_DIR
cargo build --release --locked -p openskill ${features:+"$features"}
put "$CARGO_TARGET_DIR/release/openskill"
rm -rf "$CARGO_TARGET_DIR"
