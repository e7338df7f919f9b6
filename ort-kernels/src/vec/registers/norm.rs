//! Normalization of rows that fit in registers.

/// `layer_norm` and `rms_norm` of rows of up to as many registers as listed.
macro_rules! norm {
    ($isa:ident, [$($count:literal)+]) => {
        /// See [`layer_norm`](crate::vec::layer_norm), for rows of at most [`ALL`](super::ALL) elements.
        pub(in crate::vec) fn layer_norm(
            token: $isa,
            row: NormRow<'_>,
        ) -> Moments {
            normalize(token, row, true)
        }

        /// See [`rms_norm`](crate::vec::rms_norm), for rows of at most [`ALL`](super::ALL) elements.
        pub(in crate::vec) fn rms_norm(token: $isa, row: NormRow<'_>) -> f32 {
            normalize(token, row, false).inverse_deviation
        }

        fn normalize(
            token: $isa,
            row: NormRow<'_>,
            has_mean: bool,
        ) -> Moments {
            match row.y.len().div_ceil(LANES).max(1) {
                $($count => norm_of_registers::<$count>(token, row, has_mean),)+
                _ => unreachable!("invariant: a row of {} elements is not short", row.y.len()),
            }
        }

        kernel! {
            $isa => fn norm_of_registers<const COUNT: usize>(
                row: NormRow<'_>,
                has_mean: bool,
            ) -> Moments {
                let NormRow { x, y, scale, bias, epsilon } = row;
                let (n, zero) = (y.len(), splat(0.0));
                let x = &x.unwrap_or(y)[..n];
                // If there are enough elements for a register, the last one holds the last of them:
                // a masked store would delay the next row.
                let range = |j| match j + 1 < COUNT {
                    true => LANES * j..LANES * j + LANES,
                    false => n.saturating_sub(LANES)..n,
                };
                let mut lanes = [zero; N];
                for j in 0..COUNT {
                    lanes[j] = load(&x[range(j)]);
                }
                // Without the elements that another register has.
                let own = |last| match n {
                    0..LANES => first(n, last, zero),
                    _ => first(LANES * COUNT - n, zero, last),
                };
                let sum = |terms| joined(terms, |a, b| add(a, b));
                let mut terms = lanes;
                terms[COUNT - 1] = own(terms[COUNT - 1]);
                let mean = if has_mean { sum(terms) / n as f32 } else { 0.0 };
                for j in 0..COUNT {
                    lanes[j] = sub(lanes[j], splat(mean));
                    terms[j] = mul(lanes[j], lanes[j]);
                }
                terms[COUNT - 1] = own(terms[COUNT - 1]);
                let inverse_deviation = 1.0 / (sum(terms) / n as f32 + epsilon).sqrt();
                for j in 0..COUNT {
                    let normal = mul(lanes[j], splat(inverse_deviation));
                    let mut of_row = mul(normal, load(&scale[range(j)]));
                    if let Some(bias) = bias {
                        of_row = add(of_row, load(&bias[range(j)]));
                    }
                    store(&mut y[range(j)], of_row);
                }
                Moments { mean, inverse_deviation }
            }
        }
    };
}
