#!/bin/sh
# Runs inside the build stages of deploy/Dockerfile, at the root of the source tree.
#
#   build-binary.sh all OUT       puts the program at OUT, and openskill-readers, which workers start, beside it
#   build-binary.sh gateway OUT   the one of the gateway's image, which has no worker in it
#
# A prebuilt dist/openskill-$TARGETARCH or dist/openskill wins and needs no Rust. The gateway takes dist/openskill-gateway-$TARGETARCH
# or dist/openskill-gateway before these: the program with a worker serves as well, and is larger. Without any, cargo builds it.
# openskill-readers is taken from dist/openskill-readers-$TARGETARCH or dist/openskill-readers: without it, workers read neither the
# definitions in source code nor PDF files, and say so. All symbols are dropped: `make dist` keeps those of a release in a file of their own.
set -eu

kind=$1
out=$2

# put BINARY TO: where there is no strip, or nothing to strip, a plain copy.
put() {
    mkdir -p "$(dirname "$2")" || exit 1
    strip --strip-all -o "$2" "$1" 2>/dev/null || cp "$1" "$2" || exit 1
    chmod 0755 "$2" || exit 1
}

# put_prebuilt NAME TO: whether there is one.
put_prebuilt() {
    for prebuilt in "dist/$1-${TARGETARCH:-none}" "dist/$1"; do
        if [ -f "$prebuilt" ]; then
            echo "using the prebuilt $prebuilt"
            put "$prebuilt" "$2"
            return 0
        fi
    done
    return 1
}

readers=$(dirname "$out")/openskill-readers

names=openskill
features=
if [ "$kind" = gateway ]; then
    names="openskill-gateway openskill"
    features=--no-default-features
fi
for name in $names; do
    if put_prebuilt "$name" "$out"; then
        [ "$kind" = gateway ] || put_prebuilt openskill-readers "$readers" ||
            echo "there is no dist/openskill-readers: this image reads no definitions and no PDF files" >&2
        exit 0
    fi
done
command -v cargo >/dev/null || {
    echo "there is no dist/openskill in the build context and no cargo in BUILD_IMAGE: one of them is needed" >&2
    exit 1
}
# Not in the source tree, and gone afterwards: gigabytes that would stay in the layer for nothing.
CARGO_TARGET_DIR=$(mktemp -d)
export CARGO_TARGET_DIR
cargo build --profile dist --locked -p openskill ${features:+"$features"}
put "$CARGO_TARGET_DIR/dist/openskill" "$out"
if [ "$kind" = all ]; then
    cargo build --profile dist --locked --manifest-path crates/readers/Cargo.toml
    put "$CARGO_TARGET_DIR/dist/openskill-readers" "$readers"
fi
rm -rf "$CARGO_TARGET_DIR"
