#!/usr/bin/env bash
# Makes the files of a release below a folder: programs that anyone can build again, their bills of materials, and checksums.
#
#     tools/release.sh FOLDER
#
# Run it on a clean checkout of the release's commit, after .ci/run. Publishing is left to a person.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=${1:?usage: tools/release.sh FOLDER}
if [[ -n $(git status --porcelain) ]]; then
    echo "tools/release.sh: there are uncommitted changes" >&2
    exit 1
fi
mkdir -p "$folder"
crates=(ort-cli ort-server)
export RUSTFLAGS="--remap-path-prefix=$PWD=/src --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
for crate in "${crates[@]}"; do
    cargo build --locked --profile dist -p "$crate"
    cp "${CARGO_TARGET_DIR:-target}/dist/$crate" "$folder/"
    python3 tools/make_sbom.py "$crate" > "$folder/$crate.cdx.json"
done
cp LICENSE-APACHE LICENSE-MIT CHANGELOG.md SECURITY.md "$folder/"
rustc --version --verbose > "$folder/toolchain.txt"
git rev-parse HEAD > "$folder/commit.txt"
rm -f "$folder/SHA256SUMS"
sums=$(cd "$folder" && sha256sum -- *)
tee "$folder/SHA256SUMS" <<< "$sums"
