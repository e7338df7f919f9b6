//! Matrix tiles (AMX): the permission to use them, and the products that run on them.
//!
//! The compiler has no support for tiles, so a product is one block of assembly that configures, uses
//! and releases them: no state outlives it.
#![expect(unsafe_code, reason = "instructions without intrinsics in the standard library")]

use super::Amx;
use crate::tiles::{B_STEP, Lhs, Line, Rhs, SIDE, Sums};
use std::arch::asm;
use std::sync::OnceLock;

pub(crate) mod bytes;

/// Whether this machine multiplies matrices of bfloat16 and of bytes, and the system permits it to this process.
pub(super) fn is_permitted() -> bool {
    static PERMITTED: OnceLock<bool> = OnceLock::new();
    // Leaf 7: bit 22 of EDX is AMX-BF16, bit 24 AMX-TILE, bit 25 AMX-INT8. Source: Intel SDM volume 2, CPUID.
    const NEEDED: u32 = 1 << 22 | 1 << 24 | 1 << 25;
    *PERMITTED.get_or_init(|| {
        std::arch::x86_64::__cpuid_count(7, 0).edx & NEEDED == NEEDED && request_tiles()
    })
}

/// Requests the tile state from Linux for all threads of the process; other systems have no such call.
fn request_tiles() -> bool {
    if !cfg!(target_os = "linux") {
        return false;
    }
    /// Source: Linux, arch/x86/include/uapi/asm/prctl.h and entry/syscalls/syscall_64.tbl.
    const ARCH_PRCTL: isize = 158;
    const REQUEST: usize = 0x1023;
    const TILE_DATA: usize = 18;
    let result: isize;
    // SAFETY: a system call with two integers and no memory. It changes only the size of
    // the state that the system saves for threads of this process; the registers it clobbers
    // are named.
    unsafe {
        asm!("syscall", inlateout("rax") ARCH_PRCTL => result, in("rdi") REQUEST,
            in("rsi") TILE_DATA, out("rcx") _, out("r11") _, options(nostack));
    }
    result == 0
}

/// Palette 1: eight tiles of 64 bytes per row; these rows. Source: Intel SDM volume 1, 18.3.
const fn configuration(rows: [u8; 8]) -> Configuration {
    let mut bytes = [0; 64];
    bytes[0] = 1;
    let mut tile = 0;
    while tile < 8 {
        bytes[16 + 2 * tile] = 64;
        bytes[48 + tile] = rows[tile];
        tile += 1;
    }
    Configuration(bytes)
}

static CONFIGURATION: Configuration = configuration([16; 8]);

#[repr(align(64))]
struct Configuration(#[expect(dead_code, reason = "read by its address")] [u8; 64]);

/// The four products of two tiles of A with two of B; prefetches 16 lines of the next step of B,
/// starting at byte `$b`, and 8 lines of the data needed later.
macro_rules! products {
    ($b:literal, $later:literal) => {
        concat!(
            products!(@fetch $b "+0" "+64" "+128" "+192", $later "+0" "+64"),
            "tdpbf16ps tmm0, tmm4, tmm6\n",
            products!(@fetch $b "+256" "+320" "+384" "+448", $later "+128" "+192"),
            "tdpbf16ps tmm1, tmm4, tmm7\n",
            products!(@fetch $b "+512" "+576" "+640" "+704", $later "+256" "+320"),
            "tdpbf16ps tmm2, tmm5, tmm6\n",
            products!(@fetch $b "+768" "+832" "+896" "+960", $later "+384" "+448"),
            "tdpbf16ps tmm3, tmm5, tmm7\n",
        )
    };
    (@fetch $b:literal $($at:literal)+, $later:literal $($then:literal)+) => {
        concat!(
            $("prefetcht0 [{b} + 6144 + ", $b, $at, "]\n",)+
            $("prefetcht1 [{later} + ", $later, $then, "]\n"),+
        )
    };
}

/// Loads two tiles starting at `$from + $at`.
macro_rules! load {
    ($first:literal, $second:literal, $from:literal, $at:literal) => {
        concat!(
            "tileloadd ",
            $first,
            ", [",
            $from,
            " + {line}*1 + ",
            $at,
            "]\n",
            "tileloadd ",
            $second,
            ", [",
            $from,
            " + {line}*1 + ",
            $at,
            " + 1024]\n",
        )
    };
}

/// Bytes of later data that each step prefetches.
const AHEAD: usize = 6 * 8 * 64;

/// `sums[n][f][p] = Σ_s Σ_{i+j≤2} a_i[s][n][p]·b_j[s][f]`, see [`tiles`](crate::tiles).
///
/// # Panics
/// If an operand is too short for the steps.
pub(crate) fn multiply(
    _: Amx,
    a: Lhs<'_>,
    steps: &[u32],
    Rhs { lines: b, later }: Rhs<'_>,
    sums: &mut [Sums],
) {
    check(a, steps, b, sums.len());
    if steps.is_empty() || sums.is_empty() {
        return sums.as_flattened_mut().fill([0.0; 16]);
    }
    // The bytes of later data per step, so that all of it is prefetched if possible.
    let stride = size_of_val(later) / (steps.len() * sums.len());
    // Corrections are added before what they correct. Registers: tmm0 to tmm3 are the sums of
    // (positions, filters) = (0, 0), (0, 1), (1, 0), (1, 1); tmm4 and tmm5 hold A, tmm6 and tmm7 B.
    // SAFETY: the token proves the instructions and the permission. For each step, which is at
    // most `farthest`, and each of the sums, tiles are read of A from `step`, `step + part` and
    // `step + 2·part` on, 32 lines further for each of the sums, 32 lines at a time, and of B 96
    // lines; all lie inside their slices, as was checked; a prefetch may be of any address.
    // Sums are written whole. The configuration is 64 bytes. Tiles are released, flags and
    // registers that change are named, and the stack is not used.
    unsafe {
        asm!(
            "ldtilecfg [{t}]",
            "2:",
            "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
            "xor {step:e}, {step:e}",
            "3:",
            "mov {a0:e}, [{steps} + 4*{step}]", "shl {a0}, 6", "add {a0}, {a}",
            "lea {t}, [{a0} + {part}]",
            load!("tmm4", "tmm5", "{a0}", "0"),
            load!("tmm6", "tmm7", "{b}", "4096"),
            products!("0", "0"),
            load!("tmm6", "tmm7", "{b}", "2048"),
            products!("1024", "512"),
            load!("tmm4", "tmm5", "{t}", "0"),
            products!("2048", "1024"),
            "add {t}, {part}",
            load!("tmm6", "tmm7", "{b}", "0"),
            products!("3072", "1536"),
            load!("tmm4", "tmm5", "{t}", "0"),
            products!("4096", "2048"),
            load!("tmm4", "tmm5", "{a0}", "0"),
            products!("5120", "2560"),
            "add {b}, 6144", "add {later}, {stride}",
            "inc {step}", "cmp {step}, {n_steps}", "jne 3b",
            "tilestored [{sums} + {line}*1], tmm0",
            "tilestored [{sums} + {line}*1 + 2048], tmm1",
            "tilestored [{sums} + {line}*1 + 1024], tmm2",
            "tilestored [{sums} + {line}*1 + 3072], tmm3",
            "imul {t}, {n_steps}, 6144", "sub {b}, {t}",
            "add {a}, 2048", "add {sums}, 4096",
            "dec {n}", "jnz 2b",
            "tilerelease",
            t = inout(reg) &raw const CONFIGURATION => _,
            a = inout(reg) a.lines.as_ptr() => _,
            part = in(reg) a.part * size_of::<Line>(),
            steps = in(reg) steps.as_ptr(), n_steps = in(reg) steps.len(),
            b = inout(reg) b.as_ptr() => _,
            later = inout(reg) later.as_ptr() => _, stride = in(reg) stride.min(AHEAD),
            n = inout(reg) sums.len() => _, sums = inout(reg) sums.as_mut_ptr() => _,
            line = in(reg) size_of::<Line>(),
            step = out(reg) _, a0 = out(reg) _,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}

/// Checks that every tile is inside its operand.
fn check(a: Lhs<'_>, steps: &[u32], b: &[Line], n_products: usize) {
    let farthest = steps.iter().copied().max().unwrap_or(0) as usize;
    let a_len = || a.part.checked_mul(2)?.checked_add(farthest)?.checked_add(n_products * SIDE);
    assert!(a_len().is_some_and(|n| n <= a.lines.len()), "A has {} lines", a.lines.len());
    assert!(b.len() / B_STEP >= steps.len(), "B has {} lines", b.len());
}
