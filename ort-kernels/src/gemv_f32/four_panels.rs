//! Four panels of two registers, written once for every register width.

/// Defines `tile` for a token. In scope must be the variant's `LANES`, `fmadd`, `load`, `splat`, `store` and `zero`. `of $stored by
/// $load` is for a B of other elements, of which `$load` reads a register.
macro_rules! four_panels {
    ($isa:ident) => {
        four_panels! { $isa of f32 by load }
    };
    ($isa:ident of $stored:ident by $load:ident) => {
        const NR: usize = 2 * LANES;

        pub(super) fn tile(token: $isa, x: &[f32], b: &[$stored], y: &mut [f32]) {
            match y.len().div_ceil(NR) {
                4 => panels::<4>(token, x, b, y),
                3 => panels::<3>(token, x, b, y),
                2 => panels::<2>(token, x, b, y),
                _ => panels::<1>(token, x, b, y),
            }
        }

        kernel! {
            /// At most `nr·P` columns and more than `nr·(P − 1)`; `b: [P][k][nr]`.
            $isa => fn panels<const P: usize>(x: &[f32], b: &[$stored], y: &mut [f32]) {
                let k = x.len();
                let mut rows = [b.as_chunks::<NR>().0; P];
                let mut sums = [[zero(); 2]; P];
                for p in 0..P {
                    rows[p] = &rows[p][p * k..][..k];
                    for (w, sum) in sums[p].iter_mut().enumerate() {
                        *sum = load(y.get(p * NR + w * LANES..).unwrap_or_default());
                    }
                }
                for k in 0..k {
                    let x = splat(x[k]);
                    for p in 0..P {
                        let b = rows[p][k].as_chunks::<LANES>().0;
                        for w in 0..2 {
                            sums[p][w] = fmadd(x, $load(&b[w]), sums[p][w]);
                        }
                    }
                }
                for (i, sum) in sums.as_flattened().iter().enumerate() {
                    store(y.get_mut(i * LANES..).unwrap_or_default(), *sum);
                }
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
pub(crate) use four_panels;
