//! 4 rows by 8 columns: 8 accumulators. Bytes are widened to 16 bits, so that no pair of products
//! saturates: the even bytes of each four in one register, the odd ones in another.

use super::{Finish, MAX_NR, QUAD, Rows, Signs, Tile, Variant};
use crate::isa::simd128::ints::{add, pair_sums, splat, widened};
use crate::{Isa, Simd128};

pub(super) const VARIANT: Variant = Variant::new("simd128_4x8", MR, NR);
const MR: usize = 4;
const NR: usize = 2 * LANES;
/// Sums per register, and quads.
const LANES: usize = 4;

pub(super) fn tile(token: Simd128, rows: &Rows<'_>, b: &[u8], tile: Tile<'_>) {
    let mut c = [[0; MAX_NR]; MR];
    let c = &mut c[..tile.n_rows];
    by_rows!(rows, c.len(), [1 2 3 4] => sums(token, rows, b, c));
    Isa::Simd128(token).run(Finish { sums: c, tile });
}

kernel! {
    /// `R` rows; `b: [k/4][8][4]`.
    Simd128 => fn sums<const R: usize, const SIGNED: bool>(
        rows: &Rows<'_>,
        b: &[u8],
        c: &mut [[i32; MAX_NR]],
    ) {
        let (whole, rest) = rows.quads::<R>();
        let mut sums = [[splat(0); 2]; R];
        let b = b.as_chunks::<{ LANES * QUAD }>().0.as_chunks::<2>().0;
        for (i, b) in b.iter().enumerate() {
            // The operand that is not A has the other signedness.
            let b = if SIGNED {
                [widened::<false>(bytemuck::cast(b[0])), widened::<false>(bytemuck::cast(b[1]))]
            } else {
                [widened::<true>(bytemuck::cast(b[0])), widened::<true>(bytemuck::cast(b[1]))]
            };
            for r in 0..R {
                let a = *whole[r].get(i).unwrap_or(&rest[r]);
                let a = widened::<SIGNED>(splat(i32::from_le_bytes(a)));
                for w in 0..2 {
                    let products = add(pair_sums(a[0], b[w][0]), pair_sums(a[1], b[w][1]));
                    sums[r][w] = add(sums[r][w], products);
                }
            }
        }
        for (c, sums) in c.iter_mut().zip(&sums) {
            for (c, lanes) in c.as_chunks_mut::<LANES>().0.iter_mut().zip(sums) {
                *c = bytemuck::cast(*lanes);
            }
        }
    }
}
