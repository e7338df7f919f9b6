#!/usr/bin/env bash
# Builds programs twice, in two folders, and compares the bytes.
#
#     tools/check_reproducible.sh [--profile NAME] [CRATE…]
#
# What a release is built with: no path of the machine in the program (--remap-path-prefix), and the versions of Cargo.lock.
# Needs twice the space of a build below target/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

profile=dist
if [[ ${1-} == --profile ]]; then
    profile=$2
    shift 2
fi
crates=("$@")
if [[ ${#crates[@]} == 0 ]]; then
    crates=(ort-cli ort-server)
fi

work=$(mktemp -d "${CARGO_TARGET_DIR:-$PWD/target}/reproducible.XXXXXX")
trap 'rm -rf "$work"' EXIT

# build FOLDER: a copy of the tracked files, built there.
build() {
    local folder=$1 name
    mkdir -p "$folder"
    git ls-files -z | grep -zv '^models/' | xargs -0 cp --parents -t "$folder"
    (
        cd "$folder"
        export CARGO_TARGET_DIR=$folder/target CARGO_INCREMENTAL=0
        export RUSTFLAGS="--remap-path-prefix=$folder=/src --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
        for name in "${crates[@]}"; do
            cargo build --quiet --locked --profile "$profile" -p "$name"
        done
    )
}

output=$profile
if [[ $profile == dev ]]; then
    output=debug
fi
build "$work/a"
build "$work/another/folder"
for name in "${crates[@]}"; do
    a=$work/a/target/$output/$name b=$work/another/folder/target/$output/$name
    if ! cmp "$a" "$b"; then
        echo "$name: two builds differ" >&2
        exit 1
    fi
    if grep -qaF "$work" "$a"; then
        echo "$name: contains a path of this machine" >&2
        exit 1
    fi
    echo "$name: $(sha256sum < "$a" | cut -d ' ' -f 1)"
done
