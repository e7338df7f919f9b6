#!/usr/bin/env bash
# Runs the tests of crates with `unsafe`, and of crates that call them, under a tool that finds undefined behaviour.
#
#     tools/check_memory.sh address [CRATE…]     AddressSanitizer: accesses outside of allocations, or after their end
#     tools/check_memory.sh thread [CRATE…]      ThreadSanitizer: data races
#     tools/check_memory.sh miri [CRATE…]        Miri: all of Rust's rules, and eight schedules of the threads
#
# The sanitizers are part of the toolchain, stable ones too, where RUSTC_BOOTSTRAP=1 enables them. For `thread` the standard
# library is built again with the sanitizer, and `miri` interprets: both need a nightly toolchain with the component rust-src
# or miri. Leaks are not reported: a thread pool lives as long as its process.
# Exits with 69 and the reason if the toolchain lacks something.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tool=${1:?address, thread or miri}
crates=("${@:2}")
target=x86_64-unknown-linux-gnu
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/$tool CARGO_INCREMENTAL=0

lacking() {
    echo "tools/check_memory.sh: $1" >&2
    exit 69
}

# each COMMAND…: runs it for every crate.
each() {
    local crate
    for crate in "${crates[@]}"; do
        printf '== %s: %s\n' "$tool" "$crate"
        "$@" -p "$crate"
    done
}

case $tool in
address)
    compgen -G "$(rustc --print sysroot)/lib/rustlib/$target/lib/librustc-*_rt.asan.a" > /dev/null \
        || lacking "the toolchain has no AddressSanitizer for $target"
    [[ ${#crates[@]} -gt 0 ]] || crates=(ort-kernels ort-threads ort-loader ort-tensor ort-ep-cpu ort-capi)
    export RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address ASAN_OPTIONS=detect_leaks=0
    each cargo test --quiet --target "$target" --tests
    if [[ " ${crates[*]} " == *" ort-capi "* ]]; then
        CARGO_TARGET_DIR=${CARGO_TARGET_DIR%/address} python3 tools/check_c.py --address
    fi
    ;;
thread)
    [[ -d $(rustc +nightly --print sysroot 2> /dev/null)/lib/rustlib/src/rust/library ]] \
        || lacking "no nightly toolchain with the sources of the standard library"
    [[ ${#crates[@]} -gt 0 ]] || crates=(ort-threads)
    export RUSTFLAGS=-Zsanitizer=thread
    each cargo +nightly test --quiet -Zbuild-std --target "$target" --tests
    ;;
miri)
    cargo +nightly miri --version > /dev/null 2>&1 || lacking "no nightly toolchain with Miri"
    [[ ${#crates[@]} -gt 0 ]] || crates=(ort-threads ort-tensor)
    export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-many-seeds=0..8 -Zmiri-ignore-leaks"
    each cargo +nightly miri test --quiet --lib
    ;;
*)
    lacking "no tool $tool: address, thread or miri"
    ;;
esac
