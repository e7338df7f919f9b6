//! The register tiles, written once for every register width.

/// Calls `$tile::<R, F, C>` with the number of positions, the number of output blocks, and a constant.
macro_rules! by_size {
    (($r:expr, $f:expr): [$($rs:literal)+] x $fs:tt, $c:expr => $cs:tt $tile:ident $args:tt) => {
        match $r {
            $($rs => by_size!(@f $f => $fs, $c => $cs, $tile [$rs] $args),)+
            n => unreachable!("invariant: a tile has no {n} positions"),
        }
    };
    (@f $f:expr => [$($fs:literal)+], $c:expr => $cs:tt, $tile:ident [$r:literal] $args:tt) => {
        match $f {
            $($fs => by_size!(@c $c => $cs, $tile [$r $fs] $args),)+
            n => unreachable!("invariant: a set has no {n} blocks"),
        }
    };
    (@c $c:expr => [$($cs:literal)+], $tile:ident $size:tt $args:tt) => {
        match $c {
            $($cs => by_size!(@call $tile $size $cs $args),)+
            n => unreachable!("invariant: a set has no {n} blocks"),
        }
    };
    (@call $tile:ident [$r:literal $f:literal] $c:literal ($($arg:expr),+)) => {
        $tile::<$r, $f, $c>($($arg),+)
    };
}

/// The length of a list.
macro_rules! count {
    ([$($item:literal)+]) => {
        [$($item),+].len()
    };
}

/// The initial sums of a tile of `R` by `F`. Like `finish!` not a function: taking the address of sums
/// would keep them in memory.
macro_rules! start {
    ($line:ident, $first:ident, $y:ident) => {{
        let mut sums = [[zero(); F]; R];
        let start = $line.merge.start;
        for f in 0..F {
            let y = &$y[f].as_chunks::<LANES>().0[$line.places::<R>($first)];
            let bias = match start.bias {
                Some(bias) => load(&bias[f * LANES..]),
                None => zero(),
            };
            for r in 0..R {
                sums[r][f] = if start.is_sum { add(load(&y[r]), bias) } else { bias };
            }
        }
        sums
    }};
}

/// Stores the sums of a tile after the epilogue.
macro_rules! finish {
    ($sums:ident, $line:ident, $first:ident, $y:ident) => {
        by_epilogue!($line.merge.epilogue, store_each!($sums, $line, $first, $y))
    };
}

/// Stores a function of each sum.
macro_rules! store_each {
    (($sums:ident, $line:ident, $first:ident, $y:ident), $x:ident => $function:expr) => {
        for f in 0..F {
            let y = &mut $y[f].as_chunks_mut::<LANES>().0[$line.places::<R>($first)];
            for r in 0..R {
                let $x = $sums[r][f];
                store(&mut y[r], $function);
            }
        }
    };
}

/// The tiles of a variant, of as many positions as `$positions` lists for sets of as many output blocks as `$filters`
/// lists, or of as many as `$depthwise` lists if depthwise, and `line`, which dispatches to them. A depthwise tile
/// needs enough sums to hide the latency of a multiply-add.
///
/// The invocation must provide `load` and `store`, which transfer a register of `LANES` floats from and to a slice, and
/// the instructions `zero`, `splat`, `add`, `mul`, `fmadd`, `min` and `max`, of which the last two
/// return their second operand when either is NaN.
macro_rules! tiles {
    ($isa:ident, $positions:tt x $filters:tt, $depthwise:tt) => {
        const TILE: usize = count!($positions);
        const LANE_TILE: usize = count!($depthwise);
        /// The cache lines of each filter that a step of a tile prefetches, of `LANES²/16` that it reads.
        const FETCHED: usize = LANES.div_ceil(8);

        pub(super) fn line(token: $isa, line: &Line<'_>, y: &mut [&mut [f32]]) {
            match line.form {
                Form::Blocks => line.each_tile(TILE, |first, len| {
                    let pixels = match line.step(first, len) {
                        step @ 1.. if line.is_pointwise() => 10 + step,
                        step => step,
                    };
                    by_size!((len, y.len()): $positions x $filters, pixels => [0 1 2 11 12]
                        blocks(token, line, first, y));
                }),
                Form::Planes => line.each_tile(TILE, |first, len| {
                    by_size!((len, y.len()): $positions x $filters, line.step(first, len) => [0 1 2]
                        planes(token, line, first, y));
                }),
                Form::Depthwise => line.each_tile(LANE_TILE, |first, len| match line.window(first, len) {
                    0 => by_size!((len, y.len()): $depthwise x [1], line.step(first, len) => [0 1 2]
                        depthwise(token, line, first, y)),
                    window => by_size!((len, y.len()): $depthwise x [1], window => [31 32 51 52 131 132 151 152]
                        windows(token, line, first, y)),
                }),
            }
        }

        kernel! {
            /// `R` positions starting at `first`, by `F` output blocks. `PIXELS` is the step, plus 10 if
            /// filters have one tap.
            $isa => fn blocks<const R: usize, const F: usize, const PIXELS: usize>(
                line: &Line<'_>,
                first: usize,
                y: &mut [&mut [f32]],
            ) {
                let mut sums = start!(line, first, y);
                // Loops of a single iteration are optimized away.
                let (taps_y, n_taps) = if PIXELS > 10 { (0..1, 1) } else { (line.taps_y.clone(), line.n_taps()) };
                let mut ahead = line.ahead(first, TILE, FETCHED);
                for input in 0..line.inputs {
                    for tap_y in taps_y.clone() {
                        let row = line.row::<LANES>(input, tap_y);
                        for tap in 0..n_taps {
                            ahead = line.fetch::<F>(ahead, FETCHED);
                            let x = match PIXELS % 10 {
                                1 => line.pixels::<LANES, R, 1>(row, first, tap),
                                2 => line.pixels::<LANES, R, 2>(row, first, tap),
                                _ => line.pixels::<LANES, R, 0>(row, first, tap),
                            };
                            let w = line.tap::<LANES, LANES, F>(input, tap_y, tap);
                            for k in 0..LANES {
                                let mut lanes = [zero(); F];
                                for f in 0..F {
                                    lanes[f] = load(&w[f][k]);
                                }
                                for r in 0..R {
                                    let x = splat(x[r][k]);
                                    for f in 0..F {
                                        sums[r][f] = fmadd(x, lanes[f], sums[r][f]);
                                    }
                                }
                            }
                        }
                    }
                }
                finish!(sums, line, first, y);
            }
        }

        kernel! {
            /// `R` positions starting at `first`, by `F` output blocks; `S` is the step.
            $isa => fn planes<const R: usize, const F: usize, const S: usize>(
                line: &Line<'_>,
                first: usize,
                y: &mut [&mut [f32]],
            ) {
                let mut sums = start!(line, first, y);
                for input in 0..line.inputs {
                    for tap_y in line.taps_y.clone() {
                        let row = line.row::<1>(input, tap_y);
                        let w = line.taps::<LANES, 1, F>(input, tap_y, line.n_taps());
                        for tap in 0..line.n_taps() {
                            let x = line.pixels::<1, R, S>(row, first, tap);
                            let mut lanes = [zero(); F];
                            for f in 0..F {
                                lanes[f] = load(&w[f][tap][0]);
                            }
                            for r in 0..R {
                                let x = splat(x[r][0]);
                                for f in 0..F {
                                    sums[r][f] = fmadd(x, lanes[f], sums[r][f]);
                                }
                            }
                        }
                    }
                }
                finish!(sums, line, first, y);
            }
        }

        kernel! {
            /// `R` positions starting at `first`, of `F` = 1 blocks, for any filter; `S` is the step.
            $isa => fn depthwise<const R: usize, const F: usize, const S: usize>(
                line: &Line<'_>,
                first: usize,
                y: &mut [&mut [f32]],
            ) {
                let mut sums = start!(line, first, y);
                for tap_y in line.taps_y.clone() {
                    let row = line.row::<LANES>(0, tap_y);
                    let [w] = line.taps::<LANES, 1, 1>(0, tap_y, line.n_taps());
                    for (tap, w) in w.iter().enumerate() {
                        let x = line.pixels::<LANES, R, S>(row, first, tap);
                        let w = load(&w[0]);
                        for r in 0..R {
                            sums[r][0] = fmadd(load(x[r]), w, sums[r][0]);
                        }
                    }
                }
                finish!(sums, line, first, y);
            }
        }

        kernel! {
            /// `R` positions starting at `first`, of `F` = 1 blocks, for filters with a
            /// [`window`](Line::window): a pixel that several outputs read is loaded once.
            $isa => fn windows<const R: usize, const F: usize, const WINDOW: usize>(
                line: &Line<'_>,
                first: usize,
                y: &mut [&mut [f32]],
            ) {
                let (n_taps, stride) = (WINDOW % 100 / 10, WINDOW % 10);
                let mut sums = start!(line, first, y);
                for tap_y in line.taps_y.clone() {
                    let row = line.row::<LANES>(0, tap_y);
                    let [w] = line.taps::<LANES, 1, 1>(0, tap_y, n_taps);
                    // A compile-time length, so that indices below it need no check.
                    let len = (R - 1) * stride + n_taps;
                    let x = if WINDOW > 100 {
                        line.adjacent::<LANES, true>(row, first, len)
                    } else {
                        line.adjacent::<LANES, false>(row, first, len)
                    };
                    for tap in 0..n_taps {
                        let w = load(&w[tap][0]);
                        for r in 0..R {
                            sums[r][0] = fmadd(load(x[r * stride + tap]), w, sums[r][0]);
                        }
                    }
                }
                finish!(sums, line, first, y);
            }
        }
    };
}
