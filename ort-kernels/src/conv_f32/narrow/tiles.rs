//! The register tile, written once for every register width.

/// The tile of a variant, for up to 8 positions and two panels.
///
/// The invocation must provide `load` and `store`, which transfer a register of `WIDTH` floats, or fewer, from and to a
/// slice, and the instructions `zero`, `splat` and `fmadd`.
macro_rules! narrow_tiles {
    ($isa:ident, [$($n:literal)+]) => {
        pub(super) fn tile(
            token: $isa,
            panels: &[Panel<'_>],
            x: &[[f32; MAX_POSITIONS]],
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
                x: &[[f32; MAX_POSITIONS]],
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
                        // Lanes after the last filter belong to the next term, and are ignored.
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
