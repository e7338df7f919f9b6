//! 8 rows by 8 columns: 16 accumulators, and two for the sums of the columns of B. Instructions multiply bytes of one
//! signedness, so the highest bit of the bytes of A is flipped: that changes them by 128, and a sum by 128 times the sum
//! of the column.

use super::{Finish, MAX_NR, QUAD, Rows, Signs, Tile, Variant};
use crate::isa::dotprod::{flipped, signed, unsigned};
use crate::{Isa, NeonDotprod};
use std::arch::aarch64::{int8x16_t, int32x4_t};

pub(super) const VARIANT: Variant = Variant::new("neondotprod_8x8", MR, NR);
const MR: usize = 8;
const NR: usize = 8;
/// Sums per register, and quads.
const LANES: usize = 4;
/// Bytes per register.
const BYTES: usize = LANES * QUAD;

pub(super) fn tile(token: NeonDotprod, rows: &Rows<'_>, b: &[u8], tile: Tile<'_>) {
    let mut c = [[0; MAX_NR]; MR];
    let c = &mut c[..tile.n_rows];
    by_rows!(rows, c.len(), [1 2 3 4 5 6 7 8] => sums(token, rows, b, c));
    Isa::from(token).run(Finish { sums: c, tile });
}

features! { NeonDotprod enabled
    /// Adds the products with a quad of A.
    #[inline]
    fn dot<const SIGNED: bool, const LANE: usize>(
        sums: &mut [int32x4_t; 2],
        b: [int8x16_t; 2],
        a: int8x16_t,
    ) {
        for w in 0..2 {
            sums[w] = match SIGNED {
                true => unsigned::<LANE>(sums[w], b[w], a),
                false => signed::<LANE>(sums[w], b[w], a),
            };
        }
    }
}

/// Adds the products of each row with one of its four quads. Loops of few instructions are unrolled, so that sums stay
/// in registers.
macro_rules! each_row {
    ($sums:ident, $lanes:expr, $a:ident, $lane:literal) => {
        for r in 0..R {
            dot::<SIGNED, $lane>(&mut $sums[r], $lanes, $a[r]);
        }
    };
}

kernel! {
    /// `R` rows; `b: [k/4][8][4]`. `SIGNED`: A is signed, and B unsigned.
    NeonDotprod => fn sums<const R: usize, const SIGNED: bool>(
        rows: &Rows<'_>,
        b: &[u8],
        c: &mut [[i32; MAX_NR]],
    ) {
        let (whole, rest) = rows.quads::<R>();
        let zero: int32x4_t = bytemuck::cast([0_i32; LANES]);
        let ones: int8x16_t = bytemuck::cast([1_i8; BYTES]);
        let mut sums = [[zero; 2]; R];
        let mut columns = [zero; 2];
        let b = b.as_chunks::<BYTES>().0.as_chunks::<2>().0;
        let n_fours = whole[0].len() / LANES;
        let (fours, left) = b.split_at(n_fours * LANES);
        for (i, b) in fours.as_chunks::<LANES>().0.iter().enumerate() {
            let (mut lanes, mut a) = ([[ones; 2]; LANES], [ones; R]);
            for q in 0..LANES {
                lanes[q] = [bytemuck::cast(b[q][0]), bytemuck::cast(b[q][1])];
                dot::<SIGNED, 0>(&mut columns, lanes[q], ones);
            }
            for r in 0..R {
                let bytes = whole[r].as_flattened().as_chunks::<BYTES>().0;
                a[r] = flipped(bytemuck::cast(*bytes.get(i).unwrap_or(&[0; BYTES])));
            }
            each_row!(sums, lanes[0], a, 0);
            each_row!(sums, lanes[1], a, 1);
            each_row!(sums, lanes[2], a, 2);
            each_row!(sums, lanes[3], a, 3);
        }
        for (i, b) in (n_fours * LANES..).zip(left) {
            let (lanes, mut a) = ([bytemuck::cast(b[0]), bytemuck::cast(b[1])], [ones; R]);
            dot::<SIGNED, 0>(&mut columns, lanes, ones);
            for r in 0..R {
                let quad = *whole[r].get(i).unwrap_or(&rest[r]);
                a[r] = flipped(bytemuck::cast([quad; LANES]));
            }
            each_row!(sums, lanes, a, 0);
        }
        let columns: [i32; NR] = bytemuck::cast(columns);
        for (c, sums) in c.iter_mut().zip(&sums) {
            let sums: [i32; NR] = bytemuck::cast(*sums);
            for j in 0..NR {
                let shift = columns[j].wrapping_mul(128);
                c[j] = if SIGNED { sums[j].wrapping_sub(shift) } else { sums[j].wrapping_add(shift) };
            }
        }
    }
}
