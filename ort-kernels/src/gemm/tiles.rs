//! The register tile, written once for every register width.

/// `sums[r] += a·b`, where `a` is `$a` for the row `$r` and `b` a row of a panel, which `$load` reads.
macro_rules! step {
    ($sums:ident, $load:ident($b:expr), $r:ident => $a:expr) => {
        let mut lanes = [zero(); W];
        let b = $b.as_chunks::<LANES>().0;
        for w in 0..W {
            lanes[w] = $load(&b[w]);
        }
        for $r in 0..R {
            let a = splat($a);
            for w in 0..W {
                $sums[$r][w] = fmadd(a, lanes[w], $sums[$r][w]);
            }
        }
    };
}

/// Applies an operation to the registers `$c` of each row `$r` of a target.
macro_rules! each_row {
    ($target:ident, ($r:ident, $c:ident) => $body:block) => {
        match &mut $target.place {
            Place::Strided(data, stride) => {
                let mut rest = &mut **data;
                for $r in 0..R {
                    let $c = rest.as_chunks_mut::<LANES>().0;
                    $body
                    let next = rest.len().min(*stride);
                    rest = &mut std::mem::take(&mut rest)[next..];
                }
            }
            Place::Apart(rows) => {
                for $r in 0..R {
                    let $c = rows[$r].as_chunks_mut::<LANES>().0;
                    $body
                }
            }
        }
    };
}

/// The initial sums of a tile. Like the macros below not a function: taking the address of sums
/// would keep them in memory.
macro_rules! start {
    ($tile:ident, $c:ident) => {{
        let mut sums = [[zero(); W]; R];
        match $tile.start {
            Start::Zero => {}
            Start::C => {
                each_row!($c, (r, c) => {
                    for w in 0..W {
                        sums[r][w] = load(&c[w]);
                    }
                });
            }
            Start::ByColumn(bias) => {
                for w in 0..W {
                    let bias = load(&bias[w * LANES..]);
                    for r in 0..R {
                        sums[r][w] = bias;
                    }
                }
            }
            Start::ByRow(bias) => {
                let bias = &bias[..R];
                for r in 0..R {
                    sums[r] = [splat(bias[r]); W];
                }
            }
        }
        sums
    }};
}

/// The steps of a tile with packed rows of A; prefetches one line per
/// step: a variable number would cost an eighth of the tile's speed.
macro_rules! packed {
    ($tile:ident, $sums:ident, $a:ident, $load:ident($fours:ident, $rest:ident)) => {
        let (a, mut next) = ($a.as_chunks::<R>().0, $tile.next.as_ptr());
        for (a, b) in a.as_chunks::<FOUR>().0.iter().zip($fours) {
            for k in 0..FOUR {
                prefetch::<SECOND_LEVEL>(next.cast());
                next = next.wrapping_add($tile.apart);
                step!($sums, $load(&b[k]), r => a[k][r]);
            }
        }
        for (k, b) in ($fours.len() * FOUR..).zip($rest) {
            let a = &a[k];
            step!($sums, $load(b), r => a[r]);
        }
    };
}

/// The steps of a tile with unpacked rows of A. Nothing is prefetched: between the loads
/// of so many rows, a prefetch makes the compiler hoist all loads and run out of registers.
macro_rules! unpacked {
    ($element:ty, $sums:ident, ($a:ident, $stride:ident, $k:expr), $load:ident($fours:ident, $rest:ident)) => {
        let mut rows = [&[][..]; R];
        for r in 0..R {
            rows[r] = &$a[r * $stride..][..$k];
        }
        for (i, b) in $fours.iter().enumerate() {
            let mut a = [&[<$element>::MIN; FOUR]; R];
            for r in 0..R {
                a[r] = &rows[r].as_chunks::<FOUR>().0[i];
            }
            for k in 0..FOUR {
                step!($sums, $load(&b[k]), r => a[r][k]);
            }
        }
        for (k, b) in ($fours.len() * FOUR..).zip($rest) {
            step!($sums, $load(b), r => rows[r][k]);
        }
    };
}

/// Stores the sums of a tile, clamped.
macro_rules! finish {
    ($tile:ident, $sums:ident, $c:ident, unclamped) => {
        each_row!($c, (r, c) => {
            for w in 0..W {
                store(&mut c[w], $sums[r][w]);
            }
        });
    };
    ($tile:ident, $sums:ident, $c:ident, clamped) => {
        if let Some((low, high)) = $tile.clamp {
            let (low, high) = (splat(low), splat(high));
            for r in 0..R {
                for w in 0..W {
                    // Both return their second operand when either is NaN, so NaN passes through.
                    $sums[r][w] = min(high, max(low, $sums[r][w]));
                }
            }
        }
        finish!($tile, $sums, $c, unclamped);
    };
}

/// The tiles of a variant, of as many rows as listed and one or two registers per row.
///
/// The invocation must provide `LANES`, the elements of a register, and `NR`, those of two; `load` and `store`, which
/// transfer a register from and to a slice; and the instructions `zero`, `splat`, `fmadd`, `min` and `max`,
/// of which the last two return their second operand when either is NaN. `unclamped`
/// elements need neither of these two, and are not clamped. `$element of $stored by $load` is for a B of other elements, of
/// which `$load` reads a register.
macro_rules! tiles {
    ($isa:ident, $element:ident, $rows:tt, $clamped:ident) => {
        tiles! { $isa, $element of $element by load, $rows, $clamped }
    };
    ($isa:ident, $element:ident of $stored:ident by $load:ident, [$($rows:literal)+], $clamped:ident) => {
        pub(super) fn tile(
            token: $isa,
            tile: &Tile<'_, $element, $stored>,
            c: &mut Target<'_, $element>,
        ) {
            let width = c.width;
            if width.is_multiple_of(LANES) {
                return full(token, tile, c);
            }
            let whole = width.next_multiple_of(LANES);
            // Contiguous rows are written in order: what the last register writes beyond its row, later ones overwrite.
            if let Place::Strided(data, stride) = &mut c.place
                && *stride == width
                && !matches!(tile.start, Start::C)
                && (c.count - 1) * width + whole <= data.len()
            {
                let place = Place::Strided(data, width);
                return full(token, tile, &mut Target { place, count: c.count, width: whole });
            }
            // Another row that is not a whole number of registers is computed in a padded one.
            let mut padded = [[<$element>::default(); NR]; MR];
            let rows = padded.iter_mut().take(c.count);
            if matches!(tile.start, Start::C) {
                rows.enumerate().for_each(|(r, padded)| padded[..width].copy_from_slice(c.row(r)));
            }
            let place = Place::Strided(padded.as_flattened_mut(), NR);
            full(token, tile, &mut Target { place, count: c.count, width: whole });
            for (r, padded) in padded.iter().enumerate().take(c.count) {
                c.row(r).copy_from_slice(&padded[..width]);
            }
        }

        /// Rows of one register or two.
        fn full(
            token: $isa,
            tile: &Tile<'_, $element, $stored>,
            c: &mut Target<'_, $element>,
        ) {
            match (c.count, c.width > LANES) {
                $(($rows, false) => rows::<$rows, 1>(token, tile, c),
                ($rows, true) => rows::<$rows, 2>(token, tile, c),)+
                (rows, _) => unreachable!("invariant: a panel has no {rows} rows"),
            }
        }

        kernel! {
            /// `R` rows of `W` registers.
            $isa => fn rows<const R: usize, const W: usize>(
                tile: &Tile<'_, $element, $stored>,
                c: &mut Target<'_, $element>,
            ) {
                let mut sums = start!(tile, c);
                let b = tile.b.as_chunks::<NR>().0;
                let (fours, rest) = b.as_chunks::<FOUR>();
                // If the compiler knew that these are less than four steps, it would unroll them,
                // which takes more registers than there are.
                let rest = black_box(rest);
                match tile.a {
                    Left::Packed(a) => {
                        packed!(tile, sums, a, $load(fours, rest));
                    }
                    Left::Rows(a, stride) => {
                        unpacked!($element, sums, (a, stride, b.len()), $load(fours, rest));
                    }
                }
                finish!(tile, sums, c, $clamped);
            }
        }
    };
}
