//! The register tile, written once for every width of registers.

/// The tile of a variant, for up to 8 positions and two panels.
///
/// Where it stands, `load` and `store` take a register of `WIDTH` floats, or fewer, from and to a
/// slice, and `zero`, `splat` and `fmadd` are its instructions.
macro_rules! narrow_tiles {
    ($isa:ident, [$($n:literal)+]) => {
        pub(super) fn tile(
            token: $isa,
            panels: &[Panel<'_>],
            x: &[[f32; MOST]],
            n: usize,
            sums: &mut Sums,
        ) {
            match (n, panels) {
                $(($n, &[a]) => positions::<$n, 1>(token, [a], x, sums),
                ($n, &[a, b]) => positions::<$n, 2>(token, [a, b], x, sums),)+
                _ => {}
            }
        }

        kernel! {
            /// `N` positions by `P` panels.
            $isa => fn positions<const N: usize, const P: usize>(
                panels: [Panel<'_>; P],
                x: &[[f32; MOST]],
                sums: &mut Sums,
            ) {
                let mut all = [[zero(); N]; P];
                for p in 0..P {
                    for j in 0..N {
                        all[p][j] = load(&sums[p * N + j]);
                    }
                }
                for (term, x) in x.iter().enumerate() {
                    for p in 0..P {
                        // Lanes behind the last filter are of the next term, and of no interest.
                        let w = load(&panels[p].w[term * panels[p].filters..]);
                        for j in 0..N {
                            all[p][j] = fmadd(splat(x[j]), w, all[p][j]);
                        }
                    }
                }
                for p in 0..P {
                    for j in 0..N {
                        store(&mut sums[p * N + j], all[p][j]);
                    }
                }
            }
        }
    };
}
