//! The register tile, written once for every register width.

/// The tile of a variant for as many rows as `$rows` lists.
///
/// One to three rows use more than two registers each: the latency of a multiply-add is hidden by eight sums.
///
/// The invocation must provide `load` and `store`, which transfer a register of `LANES` floats, or fewer, from and to a
/// slice, and the instructions `zero`, `splat`, `fmadd`, `min` and `max`, of which the last two
/// return their second operand when either is NaN.
macro_rules! tiles {
    ($isa:ident, [$($r:literal)+]) => {
        pub(super) fn tile(token: $isa, w: &[f32], x: &Taps<'_>, c: &mut [&mut [f32]], merge: &Merge<'_>) {
            let n = c[0].len();
            let mut at = 0;
            while at < n {
                let merge = Merge { at, ..*merge };
                let registers = match (c.len(), (n - at).div_ceil(LANES)) {
                    (1, 8..) => rows::<1, 8>(token, w, x, c, &merge),
                    (1, 4..) => rows::<1, 4>(token, w, x, c, &merge),
                    (2, 4..) => rows::<2, 4>(token, w, x, c, &merge),
                    (3, 3..) => rows::<3, 3>(token, w, x, c, &merge),
                    $(($r, 2..) => rows::<$r, 2>(token, w, x, c, &merge),
                    ($r, _) => rows::<$r, 1>(token, w, x, c, &merge),)+
                    (rows, _) => unreachable!("invariant: a panel has no {rows} rows"),
                };
                at += registers * LANES;
            }
        }

        kernel! {
            /// `R` rows of at most `W` registers, which it returns.
            $isa => fn rows<const R: usize, const W: usize>(
                w: &[f32],
                x: &Taps<'_>,
                c: &mut [&mut [f32]],
                merge: &Merge<'_>,
            ) -> usize {
                let (at, n) = (merge.at, c[0].len());
                // Initial values and the epilogue are separate from the sums, so that the sums
                // stay in registers however loops over rows are compiled.
                let mut sums = [[zero(); W]; R];
                if merge.is_sum {
                    let mut starts = [[zero(); W]; R];
                    for (c, starts) in c.iter().zip(&mut starts) {
                        for (v, start) in starts.iter_mut().enumerate() {
                            *start = load(&c[(at + v * LANES).min(n)..]);
                        }
                    }
                    for r in 0..R {
                        for v in 0..W {
                            sums[r][v] = starts[r][v];
                        }
                    }
                } else if let Some(bias) = merge.bias.map(|bias| &bias[..R]) {
                    for r in 0..R {
                        for v in 0..W {
                            sums[r][v] = splat(bias[r]);
                        }
                    }
                }
                let mut weights = w.as_chunks::<R>().0.iter();
                for channel in 0..x.channels {
                    for row in 0..x.rows {
                        let line = &x.band[channel * x.channel_len + row * x.row_len + at..];
                        for (&column, w) in x.columns.iter().zip(&mut weights) {
                            let from = &line[column..];
                            let mut lanes = [zero(); W];
                            for v in 0..W {
                                lanes[v] = load(&from[(v * LANES).min(from.len())..]);
                            }
                            for r in 0..R {
                                let w = splat(w[r]);
                                for v in 0..W {
                                    sums[r][v] = fmadd(w, lanes[v], sums[r][v]);
                                }
                            }
                        }
                    }
                }
                let (low, high) = (splat(merge.min), splat(merge.max));
                let mut results = [[zero(); W]; R];
                for r in 0..R {
                    for v in 0..W {
                        // Both return their second operand when either is NaN, so NaN passes through.
                        results[r][v] = min(high, max(low, sums[r][v]));
                    }
                }
                for (c, results) in c.iter_mut().zip(&results) {
                    for (v, result) in results.iter().enumerate() {
                        store(&mut c[(at + v * LANES).min(n)..], *result);
                    }
                }
                W
            }
        }
    };
}
