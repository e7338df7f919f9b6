//! The product of bytes on matrix tiles.

use super::{CONFIGURATION, Configuration, configuration};
use crate::Amx;
use std::arch::asm;
use std::mem::MaybeUninit;

/// Terms of a sum per step.
pub(crate) const STEP: usize = 64;
/// The rows and columns of a square of sums: two by two tiles.
pub(crate) const SIDE: usize = 32;
/// The maximum number of squares of a product: configuring tiles takes as long as a small square.
pub(crate) const N_SQUARES: usize = 4;
/// Rows of a tile.
const TILE: usize = 16;

/// Values that start at a cache line: rows of tiles are read and written line by line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Aligned<T>(pub(crate) T);

/// A step of B: four consecutive terms of each column, 16 times.
pub(crate) type BStep = [[u8; 4 * SIDE]; STEP / 4];

/// Rows of A, and as many steps of B as are multiplied with them: row `r` is `a[r·stride..][..64·steps]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    pub(crate) a: &'a [u8],
    pub(crate) stride: usize,
    pub(crate) b: &'a [BStep],
}

/// Room for the sums of a product.
pub(crate) struct Sums(Aligned<MaybeUninit<[[i32; SIDE]; N_SQUARES * SIDE]>>);

impl Sums {
    pub(crate) const fn new() -> Self {
        Self(Aligned(MaybeUninit::uninit()))
    }

    /// `sums[r][j] = Σ_k a[r][k]·b[k][j]` over all terms, modulo 2³². Parts are consecutive rows, their number and their
    /// terms. The bytes of A are signed and those of B are not, if `SIGNED`; else the reverse.
    ///
    /// # Panics
    /// If a row is outside of A, if rows have no steps, if a part begins inside a square, or if there are more than 128 rows.
    pub(crate) fn multiply<const SIGNED: bool>(
        &mut self,
        token: Amx,
        parts: [(usize, &[Terms<'_>]); 2],
    ) -> &mut [[i32; SIDE]] {
        let sums = self.0.0.as_mut_ptr().cast::<i32>();
        let mut n_done = 0;
        for (n_rows, terms) in parts.into_iter().filter(|(n_rows, _)| *n_rows > 0) {
            assert!(n_done % SIDE == 0 && n_rows <= N_SQUARES * SIDE - n_done, "{n_rows} rows");
            assert!(!terms.is_empty(), "no terms");
            let (n_whole, n_left) = (n_rows / SIDE, n_rows % SIDE);
            let sums = sums.wrapping_add(n_done * SIDE);
            for (i, terms) in terms.iter().enumerate() {
                terms.check(n_rows);
                if n_whole > 0 {
                    let squares = Squares { n: n_whole, second: TILE, tiles: &CONFIGURATION };
                    // SAFETY: all rows are inside A, as was checked, and at most four squares are written. Those that are
                    // continued were written with the first terms.
                    unsafe { squares.multiply::<SIGNED>(token, i == 0, *terms, sums) };
                }
                if n_left > 0 {
                    let (rest, at) = (terms.skip(n_whole * SIDE), n_whole * SIDE * SIDE);
                    let tiles = &CONFIGURATIONS[n_left];
                    let second = if n_left > TILE { TILE } else { 0 };
                    let squares = Squares { n: 1, second, tiles };
                    let sums = sums.wrapping_add(at);
                    // SAFETY: likewise; the tiles have only as many rows as are left, or one that is the first again.
                    unsafe { squares.multiply::<SIGNED>(token, i == 0, rest, sums) };
                }
            }
            n_done += n_rows;
        }
        // SAFETY: each row of each of the parts was written, and there is a pointer to as many.
        unsafe { std::slice::from_raw_parts_mut(sums.cast(), n_done) }
    }
}

/// The tiles of a square, by its number of rows. The second tile of rows has one at least: if it is not needed, its row is
/// the first again.
static CONFIGURATIONS: [Configuration; SIDE] = {
    let mut all = [const { configuration([1, 1, 1, 1, 1, 1, 16, 16]) }; SIDE];
    let mut n_rows: u8 = 1;
    while (n_rows as usize) < SIDE {
        let (r, s) = if n_rows <= 16 { (n_rows, 1) } else { (16, n_rows - 16) };
        all[n_rows as usize] = configuration([r, r, s, s, r, s, 16, 16]);
        n_rows += 1;
    }
    all
};

impl Terms<'_> {
    /// Without the first rows.
    fn skip(self, n_rows: usize) -> Self {
        Self { a: &self.a[n_rows * self.stride..], ..self }
    }

    /// Checks that there are steps, and that all rows, of which there is one at least, are inside A.
    fn check(&self, n_rows: usize) {
        assert!(!self.b.is_empty(), "no steps");
        let last = self.stride.checked_mul(n_rows - 1);
        let needed = last.and_then(|at| at.checked_add(self.b.len() * STEP));
        assert!(needed.is_some_and(|needed| needed <= self.a.len()), "A: {} bytes", self.a.len());
    }
}

/// Consecutive squares of sums.
struct Squares<'a> {
    n: usize,
    /// The first row of the second tile of rows.
    second: usize,
    tiles: &'a Configuration,
}

/// The squares, by the instruction for dot products and how sums begin.
macro_rules! squares {
    (zero $dot:literal $squares:ident $terms:ident $sums:ident) => {
        squares!(@ ["tilezero tmm0" "tilezero tmm1" "tilezero tmm2" "tilezero tmm3"] $dot $squares $terms $sums)
    };
    (continued $dot:literal $squares:ident $terms:ident $sums:ident) => {
        squares!(@ ["tileloadd tmm0, [{sums} + {line}*1]" "tileloadd tmm1, [{sums} + {line}*1 + 64]"
            "tileloadd tmm2, [{sums} + {line}*1 + 2048]" "tileloadd tmm3, [{sums} + {line}*1 + 2112]"]
            $dot $squares $terms $sums)
    };
    (@ [$($start:literal)+] $dot:literal $squares:ident $terms:ident $sums:ident) => {
        asm!(
            "ldtilecfg [{t}]",
            "2:",
            $($start,)+
            "lea {t}, [{a} + {second}]",
            "mov {step}, {n_steps}",
            "3:",
            "tileloadd tmm4, [{a} + {stride}*1]",
            "tileloadd tmm6, [{b} + {line}*1]",
            "tileloadd tmm7, [{b} + {line}*1 + 64]",
            concat!($dot, " tmm0, tmm4, tmm6"),
            concat!($dot, " tmm1, tmm4, tmm7"),
            "tileloadd tmm5, [{t} + {stride}*1]",
            concat!($dot, " tmm2, tmm5, tmm6"),
            concat!($dot, " tmm3, tmm5, tmm7"),
            "add {a}, 64", "add {t}, 64", "add {b}, 2048",
            "dec {step}", "jnz 3b",
            "tilestored [{sums} + {line}*1], tmm0",
            "tilestored [{sums} + {line}*1 + 64], tmm1",
            "tilestored [{sums} + {line}*1 + 2048], tmm2",
            "tilestored [{sums} + {line}*1 + 2112], tmm3",
            // The next 32 rows, and B from its first step.
            "mov {t}, {n_steps}", "shl {t}, 6", "sub {a}, {t}", "shl {t}, 5", "sub {b}, {t}",
            "mov {t}, {stride}", "shl {t}, 5", "add {a}, {t}",
            "add {sums}, 4096",
            "dec {n}", "jnz 2b",
            "tilerelease",
            t = inout(reg) &raw const *$squares.tiles => _,
            a = inout(reg) $terms.a.as_ptr() => _, stride = in(reg) $terms.stride,
            second = in(reg) $squares.second * $terms.stride,
            b = inout(reg) $terms.b.as_ptr() => _, n_steps = in(reg) $terms.b.len(),
            n = inout(reg) $squares.n => _, sums = inout(reg) $sums => _,
            line = in(reg) size_of::<[i32; SIDE]>(), step = out(reg) _,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        )
    };
}

impl Squares<'_> {
    /// Computes the squares, or continues them with further terms. Registers: tmm0 to tmm3 are the sums of (rows, columns) =
    /// (0, 0), (0, 1), (1, 0), (1, 1); tmm4 and tmm5 hold A, tmm6 and tmm7 B.
    ///
    /// # Safety
    /// For every row of the tiles of each square, A must have 64 bytes per step; `sums` must have room for as many squares of
    /// 4096 bytes, and hold them if they are continued. There must be a square and a step.
    #[expect(clippy::multiple_unsafe_ops_per_block, reason = "one of four loops")]
    unsafe fn multiply<const SIGNED: bool>(
        &self,
        _: Amx,
        is_first: bool,
        terms: Terms<'_>,
        sums: *mut i32,
    ) {
        // SAFETY: the token proves the instructions and the permission. The configuration is 64 bytes. What is read and written
        // is as the caller promises; of B, whole steps. Tiles are released, flags and registers that change are named, and the
        // stack is not used.
        unsafe {
            match (SIGNED, is_first) {
                (true, true) => squares!(zero "tdpbsud" self terms sums),
                (true, false) => squares!(continued "tdpbsud" self terms sums),
                (false, true) => squares!(zero "tdpbusd" self terms sums),
                (false, false) => squares!(continued "tdpbusd" self terms sums),
            }
        }
    }
}
