//! Softmax of rows: each is read at most twice.

/// `softmax_rows` and `softmax_step`; rows of up to as many registers as listed, which must be all
/// of a row, stay in registers.
macro_rules! softmax {
    ($isa:ident, [$($count:literal)+]) => {
        /// See [`softmax_rows`](crate::vec::softmax_rows).
        pub(in crate::vec) fn softmax_rows(
            token: $isa,
            rows: Rows<'_>,
            form: SoftmaxForm,
        ) {
            match rows.len.div_ceil(LANES) {
                0 => {}
                $($count => softmax_short::<$count>(token, rows, form),)+
                _ => softmax_long(token, rows, form),
            }
        }

        kernel! {
            /// Rows that need exactly `COUNT` registers.
            $isa => fn softmax_short<const COUNT: usize>(
                rows: Rows<'_>,
                form: SoftmaxForm,
            ) {
                use SoftmaxForm::{Direct, Logarithm};
                let Rows { x, y, len } = rows;
                let in_last = len - LANES * (COUNT - 1);
                let nothing = splat(f32::NEG_INFINITY);
                for (i, y) in y.chunks_exact_mut(len).enumerate() {
                    let row = match x {
                        Some(x) => &x[i * len..][..len],
                        None => &*y,
                    };
                    let mut lanes = [nothing; N];
                    for j in 0..COUNT {
                        lanes[j] = load(&row[LANES * j..]);
                    }
                    lanes[COUNT - 1] = first(in_last, lanes[COUNT - 1], nothing);
                    let greatest = splat(joined(lanes, |a, b| max(a, b)));
                    let mut exponents = [splat(0.0); COUNT];
                    for j in 0..COUNT {
                        exponents[j] = sub(lanes[j], greatest);
                    }
                    let mut powers = [splat(0.0); N];
                    powers[..COUNT].copy_from_slice(&exp(exponents));
                    powers[COUNT - 1] = first(in_last, powers[COUNT - 1], splat(0.0));
                    let total = joined(powers, |a, b| add(a, b));
                    let (from, last) = match form {
                        Direct => (powers, splat(1.0 / total)),
                        Logarithm => (lanes, splat(total.ln())),
                    };
                    for j in 0..COUNT {
                        store(&mut y[LANES * j..], finished(form, from[j], greatest, last));
                    }
                }
            }
        }

        kernel! {
            $isa => fn softmax_long(
                rows: Rows<'_>,
                form: SoftmaxForm,
            ) {
                use SoftmaxForm::{Direct, Logarithm};
                let Rows { x, y, len } = rows;
                for (i, y) in y.chunks_exact_mut(len).enumerate() {
                    let x = x.map(|x| &x[i * len..][..len]);
                    let row = x.unwrap_or(y);
                    let greatest = splat(fold(row, f32::NEG_INFINITY, |a, b| max(a, b), |a, b| max(a, b)));
                    let last = splat(match form {
                        Direct => 1.0 / powers::<true>(x, y, greatest),
                        Logarithm => powers::<false>(x, y, greatest).ln(),
                    });
                    // Otherwise `y` holds the exponentials.
                    if let (Logarithm, Some(x)) = (form, x) {
                        y.copy_from_slice(x);
                    }
                    let (registers, rest) = y.as_chunks_mut::<LANES>();
                    for y in registers {
                        let finished = finished(form, load(y), greatest, last);
                        store(y, finished);
                    }
                    let finished = finished(form, load(rest), greatest, last);
                    store(rest, finished);
                }
            }
        }

        kernel! {
            /// See [`softmax_step`](crate::vec::softmax_step).
            $isa => pub(in crate::vec) fn softmax_step(x: &mut [f32], greatest: f32) -> [f32; 2] {
                let greatest = fold(x, greatest, |a, b| max(a, b), |a, b| max(a, b));
                let subtrahend = if greatest == f32::NEG_INFINITY { 0.0 } else { greatest };
                [greatest, powers::<true>(None, x, splat(subtrahend))]
            }
        }

        /// Registers whose exponentials are computed together.
        const TOGETHER: usize = 4;

        features! { $isa enabled
            /// The sum of `e^(x − greatest)`, which is stored in `y` if requested.
            #[inline]
            fn powers<const IS_STORED: bool>(
                x: Option<&[f32]>,
                y: &mut [f32],
                greatest: Register,
            ) -> f32 {
                let mut sums = [splat(0.0); N];
                let n_whole = y.len() / super::ALL;
                let (chunks, rest) = y.as_chunks_mut::<{ super::ALL }>();
                for (i, y) in chunks.iter_mut().enumerate() {
                    for group in (0..N).step_by(TOGETHER) {
                        let from = match x {
                            Some(x) => &x.as_chunks::<{ super::ALL }>().0[i],
                            None => &*y,
                        };
                        let mut exponents = [splat(0.0); TOGETHER];
                        for j in 0..TOGETHER {
                            let x = load(&from[LANES * (group + j)..][..LANES]);
                            exponents[j] = sub(x, greatest);
                        }
                        let powers = exp(exponents);
                        for j in 0..TOGETHER {
                            sums[group + j] = add(sums[group + j], powers[j]);
                        }
                        if IS_STORED {
                            for j in 0..TOGETHER {
                                store(&mut y[LANES * (group + j)..][..LANES], powers[j]);
                            }
                        }
                    }
                }
                let x = x.map(|x| &x[super::ALL * n_whole..][..rest.len()]);
                for group in (0..N).step_by(TOGETHER) {
                    let Some(y) = rest.get_mut(LANES * group..).filter(|y| !y.is_empty()) else {
                        break;
                    };
                    let x = x.map(|x| &x[LANES * group..]);
                    let powers = match y.len().div_ceil(LANES) {
                        1 => some_powers::<1, IS_STORED>(x, y, greatest),
                        2 => some_powers::<2, IS_STORED>(x, y, greatest),
                        3 => some_powers::<3, IS_STORED>(x, y, greatest),
                        _ => some_powers::<TOGETHER, IS_STORED>(x, y, greatest),
                    };
                    for j in 0..TOGETHER {
                        sums[group + j] = add(sums[group + j], powers[j]);
                    }
                }
                joined(sums, |a, b| add(a, b))
            }
        }

        features! { $isa enabled
            /// The exponentials of the first `COUNT` registers of elements, of which the last need
            /// not be whole, followed by zeros.
            #[inline]
            fn some_powers<const COUNT: usize, const IS_STORED: bool>(
                x: Option<&[f32]>,
                y: &mut [f32],
                greatest: Register,
            ) -> [Register; TOGETHER] {
                let mut exponents = [splat(0.0); COUNT];
                for j in 0..COUNT {
                    exponents[j] = sub(load(&x.unwrap_or(y)[LANES * j..]), greatest);
                }
                let mut powers = [splat(0.0); TOGETHER];
                powers[..COUNT].copy_from_slice(&exp(exponents));
                if IS_STORED {
                    for j in 0..COUNT {
                        store(&mut y[LANES * j..], powers[j]);
                    }
                }
                let in_last = (y.len() - LANES * (COUNT - 1)).min(LANES);
                powers[COUNT - 1] = first(in_last, powers[COUNT - 1], splat(0.0));
                powers
            }
        }

        features! { $isa enabled
            /// An exponential times the reciprocal of the total, or an element minus the maximum and
            /// the logarithm of the total.
            #[inline]
            fn finished(
                form: SoftmaxForm,
                from: Register,
                greatest: Register,
                last: Register,
            ) -> Register {
                match form {
                    SoftmaxForm::Direct => mul(from, last),
                    SoftmaxForm::Logarithm => sub(sub(from, greatest), last),
                }
            }
        }
    };
}
