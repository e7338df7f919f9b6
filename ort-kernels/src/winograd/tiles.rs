//! The transformations and the register tiles, written once for every width of registers.

/// What a variant of register tiles of `$most` tiles by `$filters` output blocks consists of, and
/// `strip`, which calls it.
///
/// Where it stands, `load` and `store` take a [`Vector`] of `LANES` floats from and to a slice, and
/// `zero`, `splat`, `add`, `sub`, `mul`, `fmadd` (a·b + c), `fnmadd` (c − a·b), `min`, `max` and
/// `is_finite` (of a sum of differences `x − x`) are its instructions; `min` and `max` return their
/// second operand when either is NaN.
macro_rules! winograd {
    ($isa:ident, [$($tiles:literal)+] x [$($filters:literal)+]) => {
        pub(super) fn strip(
            token: $isa,
            strip: &Strip<'_>,
            scratch: &mut [f32],
            y: &mut [&mut [f32]],
        ) {
            let n_tiles = strip.tiles.len();
            let (v, m) = strip.split::<LANES>(scratch);
            let v_stride = strip.pixel_stride();
            let padded = &mut [[0.0; LANES]; PRODUCTS];
            for input in 0..strip.inputs {
                for (i, place) in strip.places().enumerate() {
                    let (x, row_len) = strip.pixels(input, place, padded);
                    forward(token, x, row_len, &mut v[input * n_tiles + i..], v_stride);
                }
            }
            for (set, y) in y.chunks_mut(VARIANT.filters).enumerate() {
                let (first, filters) = (set * VARIANT.filters, y.len());
                let m_stride = strip.sum_stride(filters);
                for p in 0..PRODUCTS {
                    let u = strip.filters((first, filters), p);
                    let v = &v[p * v_stride..][..strip.inputs * n_tiles];
                    let m = &mut m[p * m_stride..][..filters * n_tiles];
                    products(token, &Product { v: v.as_flattened(), u, tiles: n_tiles }, m);
                }
                for (f, y) in y.iter_mut().enumerate() {
                    for (i, place) in strip.places().enumerate() {
                        let m = &m[f * n_tiles + i..];
                        let outputs = strip.outputs(first + f, place, y);
                        if !backward(token, m, m_stride, outputs) {
                            strip.directly(first + f, place, y);
                        }
                    }
                }
            }
        }

        /// One of the 36 products, for all tiles of a strip: register tiles about as long as each
        /// other.
        fn products(token: $isa, product: &Product<'_>, m: &mut [[f32; LANES]]) {
            const MOST: usize = [$($tiles),+].len();
            let filters = m.len() / product.tiles;
            let n = product.tiles.div_ceil(MOST);
            for i in 0..n {
                let at = |i| i * product.tiles / n;
                let (first, len) = (at(i), at(i + 1) - at(i));
                winograd!(@tiles (len, filters): [$($tiles)+] x [$($filters)+], multiply(token, product, first, m));
            }
        }

        features! { $isa enabled
            /// `Bᵀ·d`.
            #[inline]
            fn forward_along(d: [Vector; WINDOW]) -> [Vector; WINDOW] {
                let [a2, b2] = SQUARES.map(|x| splat(x));
                let [a, b] = POINTS.map(|x| splat(x));
                let (product, sum) = (splat(PRODUCT), splat(SUM));
                let (even_a, odd_a) = (fnmadd(b2, d[2], d[4]), fnmadd(b2, d[1], d[3]));
                let (even_b, odd_b) = (fnmadd(a2, d[2], d[4]), fnmadd(a2, d[1], d[3]));
                [
                    fmadd(product, d[0], fnmadd(sum, d[2], d[4])),
                    fmadd(a, odd_a, even_a),
                    fnmadd(a, odd_a, even_a),
                    fmadd(b, odd_b, even_b),
                    fnmadd(b, odd_b, even_b),
                    fmadd(product, d[1], fnmadd(sum, d[3], d[5])),
                ]
            }
        }

        features! { $isa enabled
            /// `Aᵀ·m`.
            #[inline]
            fn backward_along(m: [Vector; WINDOW]) -> [Vector; TILE] {
                let [a2, b2] = SQUARES.map(|x| splat(x));
                let [a3, b3] = CUBES.map(|x| splat(x));
                let [a, b] = POINTS.map(|x| splat(x));
                let (even_a, odd_a) = (add(m[1], m[2]), sub(m[1], m[2]));
                let (even_b, odd_b) = (add(m[3], m[4]), sub(m[3], m[4]));
                [
                    add(add(m[0], even_a), even_b),
                    fmadd(a, odd_a, mul(b, odd_b)),
                    fmadd(a2, even_a, mul(b2, even_b)),
                    fmadd(a3, odd_a, fmadd(b3, odd_b, m[5])),
                ]
            }
        }

        kernel! {
            /// Transforms the pixels of a tile, `row_len` apart from row to row, into vectors
            /// `stride` apart.
            $isa => fn forward(
                x: &[[f32; LANES]],
                row_len: usize,
                v: &mut [[f32; LANES]],
                stride: usize,
            ) {
                let mut half = [[zero(); WINDOW]; WINDOW];
                for r in 0..WINDOW {
                    let x = &x[r * row_len..][..WINDOW];
                    let mut row = [zero(); WINDOW];
                    for c in 0..WINDOW {
                        row[c] = load(&x[c]);
                    }
                    half[r] = forward_along(row);
                }
                for c in 0..WINDOW {
                    let mut column = [zero(); WINDOW];
                    for r in 0..WINDOW {
                        column[r] = half[r][c];
                    }
                    let column = forward_along(column);
                    for r in 0..WINDOW {
                        store(&mut v[(r * WINDOW + c) * stride], column[r]);
                    }
                }
            }
        }

        kernel! {
            /// `R` tiles from `first` on, by `F` output blocks.
            $isa => fn multiply<const R: usize, const F: usize>(
                product: &Product<'_>,
                first: usize,
                m: &mut [[f32; LANES]],
            ) {
                let mut sums = [[zero(); F]; R];
                let v = product.v.as_chunks::<LANES>().0.chunks_exact(product.tiles);
                let u = product.u.as_chunks::<LANES>().0.as_chunks::<F>().0;
                for (v, u) in v.zip(u.as_chunks::<LANES>().0) {
                    let v = &v[first..][..R];
                    for k in 0..LANES {
                        let mut lanes = [zero(); F];
                        for f in 0..F {
                            prefetch::<FIRST_LEVEL>(u[k][f].as_ptr().wrapping_add(AHEAD));
                            lanes[f] = load(&u[k][f]);
                        }
                        for r in 0..R {
                            let x = splat(v[r][k]);
                            for f in 0..F {
                                sums[r][f] = fmadd(x, lanes[f], sums[r][f]);
                            }
                        }
                    }
                }
                for (f, m) in m.chunks_exact_mut(product.tiles).enumerate().take(F) {
                    let m = &mut m[first..][..R];
                    for r in 0..R {
                        store(&mut m[r], sums[r][f]);
                    }
                }
            }
        }

        kernel! {
            /// Transforms the sums of a tile back, which lie `stride` apart, and writes the outputs
            /// if they are finite; says whether they are.
            $isa => fn backward(m: &[[f32; LANES]], stride: usize, outputs: Outputs<'_>) -> bool {
                let mut half = [[zero(); TILE]; WINDOW];
                for r in 0..WINDOW {
                    let mut row = [zero(); WINDOW];
                    for c in 0..WINDOW {
                        row[c] = load(&m[(r * WINDOW + c) * stride]);
                    }
                    half[r] = backward_along(row);
                }
                let mut sums = [[zero(); TILE]; TILE];
                let mut rest = zero();
                for c in 0..TILE {
                    let mut column = [zero(); WINDOW];
                    for r in 0..WINDOW {
                        column[r] = half[r][c];
                    }
                    let column = backward_along(column);
                    for r in 0..TILE {
                        sums[r][c] = column[r];
                        rest = add(rest, sub(column[r], column[r]));
                    }
                }
                if !is_zero(rest) {
                    return false;
                }
                let bias = match outputs.bias {
                    Some(bias) => load(bias),
                    None => zero(),
                };
                let (low, high) = (splat(outputs.clamp.0), splat(outputs.clamp.1));
                let y = outputs.y.as_chunks_mut::<LANES>().0;
                for (row, y) in sums.iter().zip(y.chunks_mut(outputs.width)).take(outputs.rows) {
                    for (&sum, y) in row.iter().zip(y).take(outputs.columns) {
                        let start = if outputs.is_sum { add(load(y), bias) } else { bias };
                        // Both return their second operand when either is NaN, so NaN passes.
                        store(y, min(high, max(low, add(sum, start))));
                    }
                }
                true
            }
        }
    };
    (@tiles ($r:expr, $f:expr): [$($rs:literal)+] x $fs:tt, $tile:ident $args:tt) => {
        match $r {
            $($rs => winograd!(@filters $f => $fs, $tile [$rs] $args),)+
            n => unreachable!("invariant: a register tile has no {n} tiles"),
        }
    };
    (@filters $f:expr => [$($fs:literal)+], $tile:ident $r:tt $args:tt) => {
        match $f {
            $($fs => winograd!(@call $tile $r $fs $args),)+
            n => unreachable!("invariant: a set has no {n} blocks"),
        }
    };
    (@call $tile:ident [$r:literal] $f:literal ($($arg:expr),+)) => {
        $tile::<$r, $f>($($arg),+)
    };
}
