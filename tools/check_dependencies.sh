#!/usr/bin/env bash
# Checks licences, sources, versions and advisories of all dependencies against deny.toml, with cargo-deny.
#
#     tools/check_dependencies.sh
#
# Installs cargo-deny below target/ if it is missing, in a minute and a half of one core. Advisories are checked
# if `cargo deny fetch` has downloaded their database, which no package registry carries.
# Exits with 69 and the reason if cargo-deny, or the dependencies of other platforms, cannot be downloaded.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=0.20.2
tools=${CARGO_TARGET_DIR:-$PWD/target}/tools
export PATH=$PATH:$tools/bin

if ! cargo-deny --version > /dev/null 2>&1; then
    mkdir -p "$tools"
    if ! cargo install cargo-deny --version "$version" --debug --locked --quiet \
        --root "$tools" --target-dir "$tools/build" 2> "$tools/log"; then
        echo "tools/check_dependencies.sh: cargo-deny cannot be installed: $(tail -n 1 "$tools/log")" >&2
        exit 69
    fi
    rm -rf "$tools/build"
fi

# A build downloads only what this platform needs.
if ! problem=$(cargo fetch --locked --quiet 2>&1); then
    if [[ $problem == *--locked* ]]; then
        echo "tools/check_dependencies.sh: Cargo.lock does not fit the manifests: $problem" >&2
        exit 1
    fi
    echo "tools/check_dependencies.sh: dependencies cannot be downloaded: $(tail -n 1 <<< "$problem")" >&2
    exit 69
fi

checks=(bans licenses sources)
if compgen -G "${CARGO_HOME:-$HOME/.cargo}/advisory-dbs/advisory-db-*" > /dev/null; then
    checks+=(advisories)
else
    echo "advisories: skipped, there is no database; 'cargo deny fetch' downloads it"
fi
cargo-deny --offline --log-level error check "${checks[@]}"
