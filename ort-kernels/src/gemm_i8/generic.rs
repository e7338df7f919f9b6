//! 4 rows by 8 columns, autovectorised.

use super::{Finish, MAX_NR, QUAD, Rows, Signs, Tile, Variant};
use crate::Isa;

pub(super) const VARIANT: Variant = Variant::new("generic", MR, NR);
const MR: usize = 4;
const NR: usize = 8;

pub(super) fn tile(rows: &Rows<'_>, b: &[u8], tile: Tile<'_>) {
    let mut c = [[0; MAX_NR]; MR];
    let c = &mut c[..tile.n_rows];
    by_rows!(rows, c.len(), [1 2 3 4] => sums(rows, b, c));
    Isa::Generic.run(Finish { sums: c, tile });
}

fn sums<const R: usize, const SIGNED: bool>(rows: &Rows<'_>, b: &[u8], c: &mut [[i32; MAX_NR]]) {
    let product = |a: u8, b: u8| match SIGNED {
        true => i32::from(a.cast_signed()) * i32::from(b),
        false => i32::from(a) * i32::from(b.cast_signed()),
    };
    let (whole, rest) = rows.quads::<R>();
    let mut sums = [[0_i32; NR]; R];
    for (i, b) in b.as_chunks::<QUAD>().0.as_chunks::<NR>().0.iter().enumerate() {
        for r in 0..R {
            let a = whole[r].get(i).unwrap_or(&rest[r]);
            for j in 0..NR {
                for q in 0..QUAD {
                    sums[r][j] = sums[r][j].wrapping_add(product(a[q], b[j][q]));
                }
            }
        }
    }
    for (c, sums) in c.iter_mut().zip(&sums) {
        c[..NR].copy_from_slice(sums);
    }
}
