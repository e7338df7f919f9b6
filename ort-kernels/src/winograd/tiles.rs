//! The transforms and the register tiles, written once for every register width.

/// Stores a function of each output of a tile.
macro_rules! store_each {
    (($sums:ident, $bias:ident, $outputs:ident), $x:ident => $function:expr) => {
        let y = $outputs.y.as_chunks_mut::<LANES>().0;
        for (row, y) in $sums.iter().zip(y.chunks_mut($outputs.width)).take($outputs.rows) {
            for (&sum, y) in row.iter().zip(y).take($outputs.columns) {
                let start = if $outputs.is_sum { add(load(y), $bias) } else { $bias };
                let $x = add(sum, start);
                store(y, $function);
            }
        }
    };
}

/// The functions of a variant with register tiles of `$most` tiles by `$filters` output blocks, and
/// `strip`, which calls them.
///
/// The invocation must provide `load` and `store`, which transfer a [`Vector`] of `LANES` floats from and to a slice, and
/// the instructions `zero`, `splat`, `add`, `sub`, `mul`, `fmadd` (a·b + c), `fnmadd` (c − a·b), `min`, `max` and
/// `is_finite` (of a sum of differences `x − x`); `min` and `max` return their
/// second operand when either is NaN.
macro_rules! winograd {
    ($isa:ident, [$($tiles:literal)+] x [$($filters:literal)+]) => {
        pub(super) fn strip(
            token: $isa,
            strip: &Strip<'_>,
            scratch: &mut [f32],
            y: &mut [&mut [f32]],
        ) {
            tiled!(strip.tile => tiles(token, strip, scratch, y));
        }

        /// The same in windows of `H` by `W` pixels, for `R` by `S` taps.
        fn tiles<const H: usize, const W: usize, const R: usize, const S: usize>(
            token: $isa,
            strip: &Strip<'_>,
            scratch: &mut [f32],
            y: &mut [&mut [f32]],
        ) {
            let n_tiles = strip.tiles.len();
            let (v, m) = strip.split::<LANES>(scratch);
            let v_stride = strip.pixel_stride();
            let padded = &mut [[[0.0; LANES]; W]; H];
            for input in 0..strip.inputs {
                for (i, place) in strip.places().enumerate() {
                    let (x, row_len) = strip.pixels(input, place, padded);
                    forward::<H, W>(token, x, row_len, &mut v[input * n_tiles + i..], v_stride);
                }
            }
            for (set, y) in y.chunks_mut(VARIANT.filters).enumerate() {
                let (first, filters) = (set * VARIANT.filters, y.len());
                let m_stride = strip.sum_stride(filters);
                for p in 0..H * W {
                    let u = strip.filters((first, filters), p);
                    let v = &v[p * v_stride..][..strip.inputs * n_tiles];
                    let m = &mut m[p * m_stride..][..filters * n_tiles];
                    products(token, &Product { v: v.as_flattened(), u, tiles: n_tiles }, m);
                }
                for (f, y) in y.iter_mut().enumerate() {
                    for (i, place) in strip.places().enumerate() {
                        let m = &m[f * n_tiles + i..];
                        let outputs = strip.outputs(first + f, place, y);
                        if !backward::<H, W, R, S>(token, m, m_stride, outputs) {
                            strip.directly(first + f, place, y);
                        }
                    }
                }
            }
        }

        /// One of the products, for all tiles of a strip: register tiles of nearly equal
        /// length.
        fn products(token: $isa, product: &Product<'_>, m: &mut [[f32; LANES]]) {
            const MAX_TILES: usize = [$($tiles),+].len();
            let filters = m.len() / product.tiles;
            let n = product.tiles.div_ceil(MAX_TILES);
            for i in 0..n {
                let at = |i| i * product.tiles / n;
                let (first, len) = (at(i), at(i + 1) - at(i));
                winograd!(@tiles (len, filters): [$($tiles)+] x [$($filters)+], multiply(token, product, first, m));
            }
        }

        /// Sets the first elements.
        #[inline(always)]
        fn set<const N: usize>(to: &mut [Vector], values: [Vector; N]) {
            for i in 0..N {
                to[i] = values[i];
            }
        }

        features! { $isa enabled
            /// Broadcasts each of some floats.
            #[inline]
            fn splats<const N: usize>(x: [f32; N]) -> [Vector; N] {
                let mut all = [zero(); N];
                for i in 0..N {
                    all[i] = splat(x[i]);
                }
                all
            }
        }

        features! { $isa enabled
            /// `d ← Bᵀ·d`.
            #[inline]
            fn forward_along<const N: usize>(mut d: [Vector; N]) -> [Vector; N] {
                match *d.as_slice() {
                    [d0, d1, d2, d3, d4] => {
                        let [a, b] = splats(five::POINTS);
                        let [a2, _] = splats(five::SQUARES);
                        let (t0, t1) = (fnmadd(b, d0, d1), fnmadd(b, d1, d2));
                        let (t2, t3) = (fnmadd(b, d2, d3), fnmadd(b, d3, d4));
                        set(&mut d, [
                            fnmadd(a2, t0, t2),
                            fmadd(a, t1, t2),
                            fnmadd(a, t1, t2),
                            fnmadd(a2, d1, d3),
                            fnmadd(a2, t1, t3),
                        ]);
                    }
                    [d0, d1, d2, d3, d4, d5] => {
                        let [a, b] = splats(six::POINTS);
                        let [a2, b2] = splats(six::SQUARES);
                        let (product, sum) = (splat(six::PRODUCT), splat(six::SUM));
                        let (even_a, odd_a) = (fnmadd(b2, d2, d4), fnmadd(b2, d1, d3));
                        let (even_b, odd_b) = (fnmadd(a2, d2, d4), fnmadd(a2, d1, d3));
                        set(&mut d, [
                            fmadd(product, d0, fnmadd(sum, d2, d4)),
                            fmadd(a, odd_a, even_a),
                            fnmadd(a, odd_a, even_a),
                            fmadd(b, odd_b, even_b),
                            fnmadd(b, odd_b, even_b),
                            fmadd(product, d1, fnmadd(sum, d3, d5)),
                        ]);
                    }
                    [d0, d1, d2, d3, d4, d5, d6, d7] => {
                        let [a_pair, b_pair, c_pair] = eight::PAIRS;
                        let ([a, sa, pa], [_, sb, _]) = (splats(a_pair), splats(b_pair));
                        let [c, sc, pc] = splats(c_pair);
                        let even_a = fmadd(pa, d2, fnmadd(sa, d4, d6));
                        let odd_a = fmadd(pa, d1, fnmadd(sa, d3, d5));
                        let even_b = add(d2, fnmadd(sb, d4, d6));
                        let odd_b = add(d1, fnmadd(sb, d3, d5));
                        let even_c = fmadd(pc, d2, fnmadd(sc, d4, d6));
                        let odd_c = fmadd(pc, d1, fnmadd(sc, d3, d5));
                        let sum = splat(eight::SUM);
                        set(&mut d, [
                            fmadd(sum, sub(d2, d4), sub(d6, d0)),
                            fmadd(a, odd_a, even_a),
                            fnmadd(a, odd_a, even_a),
                            add(even_b, odd_b),
                            sub(even_b, odd_b),
                            fmadd(c, odd_c, even_c),
                            fnmadd(c, odd_c, even_c),
                            fmadd(sum, sub(d3, d5), sub(d7, d1)),
                        ]);
                    }
                    _ => {}
                }
                d
            }
        }

        features! { $isa enabled
            /// `Aᵀ·m`; for one product, the product itself.
            #[inline]
            fn backward_along<const N: usize>(m: [Vector; N]) -> [Vector; TILE] {
                match *m.as_slice() {
                    [m0, m1, m2, m3, m4] => {
                        let [a, b] = splats(five::POINTS);
                        let [a2, b2] = splats(five::SQUARES);
                        let [a3, b3] = splats(five::CUBES);
                        let (even, odd) = (add(m1, m2), sub(m1, m2));
                        [
                            add(add(m0, even), m3),
                            fmadd(a, odd, mul(b, m3)),
                            fmadd(a2, even, mul(b2, m3)),
                            fmadd(a3, odd, fmadd(b3, m3, m4)),
                        ]
                    }
                    [m0, m1, m2, m3, m4, m5] => {
                        let [a, b] = splats(six::POINTS);
                        let [a2, b2] = splats(six::SQUARES);
                        let [a3, b3] = splats(six::CUBES);
                        let (even_a, odd_a) = (add(m1, m2), sub(m1, m2));
                        let (even_b, odd_b) = (add(m3, m4), sub(m3, m4));
                        [
                            add(add(m0, even_a), even_b),
                            fmadd(a, odd_a, mul(b, odd_b)),
                            fmadd(a2, even_a, mul(b2, even_b)),
                            fmadd(a3, odd_a, fmadd(b3, odd_b, m5)),
                        ]
                    }
                    [m0, m1, m2, m3, m4, m5, m6, m7] => {
                        let [a, _, c] = splats(eight::POINTS);
                        let [a2, _, c2] = splats(eight::SQUARES);
                        let [a3, _, c3] = splats(eight::CUBES);
                        let (even_a, odd_a) = (add(m1, m2), sub(m1, m2));
                        let (even_b, odd_b) = (add(m3, m4), sub(m3, m4));
                        let (even_c, odd_c) = (add(m5, m6), sub(m5, m6));
                        [
                            add(add(m0, even_a), add(even_b, even_c)),
                            fmadd(a, odd_a, fmadd(c, odd_c, odd_b)),
                            fmadd(a2, even_a, fmadd(c2, even_c, even_b)),
                            fmadd(a3, odd_a, fmadd(c3, odd_c, add(odd_b, m7))),
                        ]
                    }
                    _ => [m[0]; TILE],
                }
            }
        }

        kernel! {
            /// Transforms the pixels of a tile, with row stride `row_len`, into vectors
            /// `stride` apart.
            $isa => fn forward<const H: usize, const W: usize>(
                x: &[[f32; LANES]],
                row_len: usize,
                v: &mut [[f32; LANES]],
                stride: usize,
            ) {
                let mut half = [[zero(); W]; H];
                for r in 0..H {
                    let x = &x[r * row_len..][..W];
                    let mut row = [zero(); W];
                    for c in 0..W {
                        row[c] = load(&x[c]);
                    }
                    half[r] = forward_along(row);
                }
                for c in 0..W {
                    let mut column = [zero(); H];
                    for r in 0..H {
                        column[r] = half[r][c];
                    }
                    let column = forward_along(column);
                    for r in 0..H {
                        store(&mut v[(r * W + c) * stride], column[r]);
                    }
                }
            }
        }

        kernel! {
            /// `R` tiles starting at `first`, by `F` output blocks.
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
            /// Transforms the sums of a tile, `stride` apart, and writes the outputs
            /// if they are finite; returns whether they are.
            $isa => fn backward<const H: usize, const W: usize, const R: usize, const S: usize>(
                m: &[[f32; LANES]],
                stride: usize,
                outputs: Outputs<'_>,
            ) -> bool {
                let mut half = [[zero(); TILE]; H];
                for r in 0..H {
                    let mut row = [zero(); W];
                    for c in 0..W {
                        row[c] = load(&m[(r * W + c) * stride]);
                    }
                    half[r] = backward_along(row);
                }
                let mut sums = [[zero(); TILE]; TILE];
                let mut rest = zero();
                for c in 0..=W - S {
                    let mut column = [zero(); H];
                    for r in 0..H {
                        column[r] = half[r][c];
                    }
                    let column = backward_along(column);
                    for r in 0..=H - R {
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
                by_epilogue!(outputs.epilogue, store_each!(sums, bias, outputs));
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
