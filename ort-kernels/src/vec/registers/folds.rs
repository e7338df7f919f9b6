//! Folds of rows.

/// `fold_rows`, `sum_of_squared_deviations` and `fold`, which the other macros use.
///
/// The invocation must provide `Register`, its number of `LANES` and the instructions that its two
/// modules import or define. Where an operand of `max` or `min` is NaN, the second is the result.
macro_rules! folds {
    ($isa:ident) => {
        /// Registers of a row.
        const N: usize = super::ALL / LANES;

        kernel! {
            /// See [`fold_rows`](crate::vec::fold_rows).
            $isa => pub(in crate::vec) fn fold_rows(
                how: Fold,
                x: &[f32],
                n: usize,
                y: &mut [f32],
            ) {
                let plus = |a, b| add(a, b);
                match how {
                    Fold::Sum => rows((x, n), y, 0.0, plus, plus),
                    Fold::SumOfSquares => rows((x, n), y, 0.0, |sum, x| fmadd(x, x, sum), plus),
                    Fold::SumOfMagnitudes => {
                        rows((x, n), y, 0.0, |sum, x| add(sum, abs(x)), plus);
                    }
                    Fold::Product => {
                        let times = |a, b| mul(a, b);
                        rows((x, n), y, 1.0, times, times);
                    }
                    Fold::Max => extremes((x, n), y, f32::NEG_INFINITY, |a, b| max(a, b)),
                    Fold::Min => extremes((x, n), y, f32::INFINITY, |a, b| min(a, b)),
                }
            }
        }

        kernel! {
            /// See [`sum_of_squared_deviations`](crate::vec::sum_of_squared_deviations).
            $isa => pub(in crate::vec) fn sum_of_squared_deviations(x: &[f32], mean: f32) -> f32 {
                let mean = splat(mean);
                let step = |sum, x| {
                    let deviation = sub(x, mean);
                    fmadd(deviation, deviation, sum)
                };
                fold(x, 0.0, step, |a, b| add(a, b))
            }
        }

        features! { $isa enabled
            fn rows(
                (x, n): (&[f32], usize),
                y: &mut [f32],
                start: f32,
                step: impl Fn(Register, Register) -> Register + Copy,
                join: impl Fn(Register, Register) -> Register + Copy,
            ) {
                for (i, y) in y.iter_mut().enumerate() {
                    *y = fold(&x[i * n..][..n], start, step, join);
                }
            }
        }

        features! { $isa enabled
            /// Rows without a NaN, which are nearly all, need not look for it in each step of the
            /// join.
            fn extremes(
                (x, n): (&[f32], usize),
                y: &mut [f32],
                start: f32,
                extreme: impl Fn(Register, Register) -> Register + Copy,
            ) {
                // If `b` is NaN, so is the extreme.
                let with_nan = |a, b| where_nan(a, a, extreme(a, b));
                for (i, y) in y.iter_mut().enumerate() {
                    let lanes = folded(&x[i * n..][..n], start, with_nan);
                    *y = if any_nan(lanes) { joined(lanes, with_nan) } else { joined(lanes, extreme) };
                }
            }
        }

        features! { $isa enabled
            /// The elements of a row.
            #[inline]
            fn fold(
                x: &[f32],
                start: f32,
                step: impl Fn(Register, Register) -> Register,
                join: impl Fn(Register, Register) -> Register,
            ) -> f32 {
                joined(folded(x, start, step), join)
            }
        }

        features! { $isa enabled
            /// The elements of a row, in the lanes of `N` registers.
            #[inline]
            fn folded(
                x: &[f32],
                start: f32,
                step: impl Fn(Register, Register) -> Register,
            ) -> [Register; N] {
                let mut lanes = [splat(start); N];
                let (chunks, rest) = x.as_chunks::<{ super::ALL }>();
                for chunk in chunks {
                    for i in 0..N {
                        lanes[i] = step(lanes[i], load(&chunk[LANES * i..]));
                    }
                }
                for (i, lanes) in lanes.iter_mut().enumerate() {
                    let Some(rest) = rest.get(LANES * i..).filter(|rest| !rest.is_empty()) else {
                        break;
                    };
                    *lanes = first(rest.len().min(LANES), step(*lanes, load(rest)), *lanes);
                }
                lanes
            }
        }
    };
}
