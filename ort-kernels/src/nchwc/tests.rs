//! Compares every kernel with its formula, lane by lane, on every instruction set: small integers are
//! exact.

use super::{Pool, Reorder, blend_pixels, blend_rows, global_max, global_sum, pick_pixels};
use crate::Isa;
use crate::conv_f32::{Axis, Pool as PlanePool, PoolKind};

/// Each number of lanes, more than one vector of each, and none that fits.
const BLOCKS: [usize; 7] = [1, 2, 4, 8, 12, 16, 32];

/// Small pseudo-random integers.
fn integers(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 2_654_435_761) >> 7) as f32 % 8.0 - 3.0).collect()
}

fn axis(input: usize, kernel: usize, stride: usize, dilation: usize, pad: [usize; 2]) -> Axis {
    let reach = (kernel - 1) * dilation;
    let output = (input + pad[0] + pad[1] - reach - 1) / stride + 1;
    Axis { input, output, kernel, stride, dilation, pad }
}

fn axes() -> Vec<[Axis; 2]> {
    let axes = [
        axis(1, 1, 1, 1, [0, 0]),
        axis(5, 3, 1, 1, [1, 1]),
        axis(12, 3, 2, 2, [2, 2]),
        axis(9, 2, 2, 1, [0, 1]),
        axis(3, 7, 1, 1, [3, 3]),
        // Windows entirely in padding, and one that extends past the padding.
        Axis { output: 5, ..axis(3, 2, 2, 1, [4, 1]) },
    ];
    axes.iter().flat_map(|h| axes.iter().map(|w| [*h, *w])).collect()
}

/// One lane of pixels of `block`.
fn lane(x: &[f32], block: usize, lane: usize) -> Vec<f32> {
    x.iter().skip(lane).step_by(block).copied().collect()
}

#[test]
fn a_pool_of_pixels_pools_each_lane() {
    let kinds = [true, false].map(|count_padding| PoolKind::Average { count_padding });
    for (axes, block) in axes().iter().flat_map(|axes| BLOCKS.map(|block| (*axes, block))) {
        let [h, w] = axes;
        let x = integers(h.input * w.input * block);
        for (isa, kind) in
            Isa::all().flat_map(|isa| [PoolKind::Max, kinds[0], kinds[1]].map(|kind| (isa, kind)))
        {
            let pool = Pool { isa, block, axes, kind };
            let mut found = vec![f32::NAN; h.output * w.output * block];
            let mut scratch = vec![f32::NAN; pool.scratch_len()];
            let (top, rest) = found.split_at_mut(h.output / 2 * w.output * block);
            pool.run(&x, 0..h.output / 2, top, &mut scratch);
            pool.run(&x, h.output / 2..h.output, rest, &mut scratch);
            let axes = [Axis::UNIT, h, w];
            let plain = PlanePool { isa: Isa::Generic, axes, kind };
            let mut scratch = vec![f32::NAN; PlanePool::scratch_len(&axes)];
            for i in 0..block {
                let mut expected = vec![f32::NAN; h.output * w.output];
                plain.run(&lane(&x, block, i), &mut expected, &mut scratch);
                assert_eq!(lane(&found, block, i), expected, "{pool:?} lane {i}");
            }
        }
    }
}

#[test]
fn a_pool_keeps_nan_of_its_lane() {
    let axes = [Axis::UNIT, axis(3, 2, 1, 1, [0, 0])];
    let x = [1.0, 5.0, f32::NAN, 6.0, 3.0, 4.0];
    for isa in Isa::all() {
        let pool = Pool { isa, block: 2, axes, kind: PoolKind::Max };
        let (mut y, mut scratch) = ([0.0; 4], vec![0.0; pool.scratch_len()]);
        pool.run(&x, 0..1, &mut y, &mut scratch);
        assert!(y[0].is_nan() && y[2].is_nan());
        assert_eq!([y[1], y[3]], [6.0, 6.0]);
        let mut y = [0.0; 2];
        global_max(isa, &x, &mut y);
        assert!(y[0].is_nan() && y[1] == 6.0);
    }
}

#[test]
fn a_plane_becomes_the_greatest_and_the_sum_of_each_lane() {
    for (n, block) in [0, 1, 5, 49, 1000].iter().flat_map(|&n| BLOCKS.map(|block| (n, block))) {
        let x = integers(n * block);
        for isa in Isa::all() {
            let (mut greatest, mut sum) = (vec![f32::NAN; block], vec![f32::NAN; block]);
            global_max(isa, &x, &mut greatest);
            global_sum(isa, &x, &mut sum);
            for i in 0..block {
                let lane = lane(&x, block, i);
                assert_eq!(greatest[i], lane.iter().copied().fold(f32::NEG_INFINITY, f32::max));
                assert_eq!(sum[i], lane.iter().sum::<f32>(), "{isa:?} {n} of {block}");
            }
        }
    }
}

/// The results of `write`, in three pieces of whole units.
fn in_pieces(len: usize, unit: usize, write: impl Fn(usize, &mut [f32])) -> Vec<f32> {
    let mut y = vec![f32::NAN; len];
    let mut at = 0;
    for piece in y.chunks_mut((len / unit / 3).max(1) * unit) {
        write(at, piece);
        at += piece.len() / unit;
    }
    y
}

#[test]
fn every_channel_is_packed_and_unpacked() {
    let sizes: [(usize, usize, usize); 5] =
        [(1, 3, 1), (2, 16, 49), (1, 20, 130), (3, 33, 6), (1, 64, 16)];
    for ((n, n_channels, n_pixels), block) in
        sizes.iter().flat_map(|&size| BLOCKS.map(|block| (size, block)))
    {
        // One block more than the channels need, all padding.
        let n_blocks = n_channels.div_ceil(block) + 1;
        let (len, padded) = (n * n_channels * n_pixels, n * n_blocks * n_pixels * block);
        let planes: Vec<f32> = (1..=len).map(|i| i as f32).collect();
        let (mut pixels, mut blocks) = (vec![0.0; len], vec![0.0; padded]);
        for (at, &x) in planes.iter().enumerate() {
            let (image, c) = (at / n_pixels / n_channels, at / n_pixels % n_channels);
            let pixel = at % n_pixels;
            pixels[(image * n_pixels + pixel) * n_channels + c] = x;
            let plane = (image * n_blocks + c / block) * n_pixels;
            blocks[(plane + pixel) * block + c % block] = x;
        }
        for isa in Isa::all() {
            let reorder = Reorder { isa, block, n_blocks, n_channels, n_pixels };
            let found = in_pieces(padded, block, |at, y| reorder.planes_to_blocks(&planes, at, y));
            assert_eq!(found, blocks, "{reorder:?}");
            let found = in_pieces(padded, block, |at, y| reorder.pixels_to_blocks(&pixels, at, y));
            assert_eq!(found, blocks, "{reorder:?}");
            let found = in_pieces(len, n_pixels, |at, y| reorder.blocks_to_planes(&blocks, at, y));
            assert_eq!(found, planes, "{reorder:?}");
            let found =
                in_pieces(len, n_channels, |at, y| reorder.blocks_to_pixels(&blocks, at, y));
            assert_eq!(found, pixels, "{reorder:?}");
        }
    }
}

#[test]
fn pixels_are_picked_and_blended_whole() {
    for block in BLOCKS {
        let x = integers(5 * block);
        let pixels = [(0, 4), (3, 3), (2, 0), (4, 1)];
        let taps = pixels.map(|(a, b)| [(a, 0.5), (b, -2.0)]);
        for isa in Isa::all() {
            let (mut picked, mut blended) = (vec![0.0; 4 * block], vec![0.0; 4 * block]);
            pick_pixels(isa, block, &x, &pixels.map(|(a, _)| a), &mut picked);
            blend_pixels(isa, block, &x, &taps, &mut blended);
            for (at, (&picked, &blended)) in picked.iter().zip(&blended).enumerate() {
                let (a, b) = pixels[at / block];
                let [a, b] = [a, b].map(|pixel| x[pixel * block + at % block]);
                assert_eq!((picked, blended), (a, 0.5 * a - 2.0 * b), "{isa:?} {block}");
            }
            let mut y = vec![0.0; 3 * block];
            blend_rows(isa, &x, &x[block..], [0.25, 0.5], &mut y);
            let expected = x.iter().zip(&x[block..]).map(|(a, b)| a * 0.25 + b * 0.5).take(y.len());
            assert!(y.iter().copied().eq(expected));
        }
    }
}
