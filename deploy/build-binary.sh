#!/bin/sh
# Runs inside the build stage of deploy/Dockerfile, at the root of the source tree.
#
#   build-binary.sh OUT      puts the binary at OUT
#
# A prebuilt dist/openskill-$TARGETARCH or dist/openskill wins and needs no Rust. Without one, cargo builds it.
# All symbols are dropped: `make dist` keeps those of a release in a file of their own.
set -eu

out=$1
prebuilt=dist/openskill
[ -z "${TARGETARCH:-}" ] || [ ! -f "dist/openskill-$TARGETARCH" ] || prebuilt=dist/openskill-$TARGETARCH

# put BINARY: where there is no strip, or nothing to strip, a plain copy.
put() {
    mkdir -p "$(dirname "$out")"
    strip --strip-all -o "$out" "$1" 2>/dev/null || cp "$1" "$out"
    chmod 0755 "$out"
}

if [ -f "$prebuilt" ]; then
    echo "using the prebuilt $prebuilt"
    put "$prebuilt"
elif command -v cargo >/dev/null; then
    # Not in the source tree, and gone afterwards: gigabytes that would stay in the layer for nothing.
    CARGO_TARGET_DIR=$(mktemp -d)
    export CARGO_TARGET_DIR
    cargo build --release --locked -p openskill
    put "$CARGO_TARGET_DIR/release/openskill"
    rm -rf "$CARGO_TARGET_DIR"
else
    echo "there is no $prebuilt in the build context and no cargo in BUILD_IMAGE: one of them is needed" >&2
    exit 1
fi
