#!/usr/bin/env bash
# Runs a command with Rust's standard library for other processors, in a chroot with Debian unstable.
#
#     tools/cross.sh COMMAND…
#     tools/cross.sh cargo check -p ort-session --target wasm32-unknown-unknown
#     tools/cross.sh cargo test -p ort-kernels --target aarch64-unknown-linux-gnu
#
# The first call creates the chroot target/cross/root, which takes two minutes and 2.4 GiB: rustc with the libraries for wasm32 and
# aarch64, their linkers, qemu, and binaryen. It needs root. The command sees the repository as /src and cargo's cache of
# crates, but no network; it builds in target/cross/build. Nothing outside of target/ changes.
# Exits with 69 and the reason if the chroot cannot be created.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=${CARGO_TARGET_DIR:-$PWD/target}
cross=$target/cross
root=$cross/root
log=$cross/log
packages=(
    rustc cargo gcc libc6-dev lld binaryen libstd-rust-dev-wasm32
    libstd-rust-dev:arm64 gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
)

unavailable() {
    echo "tools/cross.sh: $*" >&2
    exit 69
}

# The installed debootstrap, or that of the machine's package archive, unpacked below target/.
debootstrap() {
    if command -v debootstrap > /dev/null; then
        command debootstrap "$@"
        return
    fi
    (cd "$cross" && apt-get -qq update && apt-get -qq download debootstrap && dpkg -x debootstrap_*.deb unpacked)
    DEBOOTSTRAP_DIR=$cross/unpacked/usr/share/debootstrap "$cross/unpacked/usr/sbin/debootstrap" "$@"
}

# The Debian mirror in the machine's configuration; debootstrap has a default.
mirror() {
    apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(REPO_URI)' 2> /dev/null |
        sed -n '/security/d; s/^Debian [a-z]* //p' | head -n 1
}

inside() {
    DEBIAN_FRONTEND=noninteractive LC_ALL=C chroot "$root" "$@"
}

make_root() {
    rm -rf "$root"
    mkdir -p "$root"
    debootstrap --variant=minbase sid "$root" $(mirror)
    inside dpkg --add-architecture arm64
    # A mirror may be a few weeks old.
    inside apt-get -q -o Acquire::Check-Valid-Until=false update
    inside apt-get -qy install --no-install-recommends "${packages[@]}"
    rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,locale,man}
    mkdir -p "$root/src" "$root/cargo/registry"
    touch "$cross/made"
}

[[ $(id -u) == 0 ]] || unavailable "only root can create a chroot"
if [[ ! -e $cross/made ]]; then
    mkdir -p "$cross"
    # In a function whose status is tested, `set -e` has no effect: hence the separate shell.
    export -f make_root debootstrap mirror inside
    export cross root
    bash -euo pipefail -c "$(declare -p packages); make_root" > "$log" 2>&1 ||
        unavailable "Debian's archive cannot be reached, see $log: $(tail -n 1 "$log")"
fi
cargo fetch -q --locked || unavailable "crates.io cannot be reached"

mkdir -p "$cross/build"
export root target
export registry=${CARGO_HOME:-$HOME/.cargo}/registry
# These mounts are visible to this command only, and vanish with it.
exec unshare --mount bash -euo pipefail -c '
    mount --bind . "$root/src"
    mount --bind "$registry" "$root/cargo/registry"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mkdir -p "$root/target"
    mount --bind "$target/cross/build" "$root/target"
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C TERM=dumb \
        CARGO_HOME=/cargo CARGO_TARGET_DIR=/target CARGO_NET_OFFLINE=true CARGO_INCREMENTAL=0 \
        CARGO_PROFILE_DEV_DEBUG=none ${CARGO_BUILD_JOBS:+"CARGO_BUILD_JOBS=$CARGO_BUILD_JOBS"} RUSTFLAGS="${RUSTFLAGS:-}" \
        CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=wasm-ld \
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu" \
        chroot "$root" sh -c "cd /src && exec \"\$@\"" sh "$@"
' bash "$@"
