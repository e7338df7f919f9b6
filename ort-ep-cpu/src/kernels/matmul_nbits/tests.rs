//! Tests of MatMulNBits.

use ort_graph::Attr;
use ort_tensor::{Element, Tensor, bf16, f16, n_elements};

use crate::case::{Case, bytes, exact, integers};

/// Rows of small integers; the first of each 16 has magnitude 127, so that the scale of a block in
/// 8 bits is 1.
fn rows<T: Element>(shape: &[usize], of: fn(f32) -> T) -> Tensor {
    let k = shape.last().copied().unwrap_or(1).max(1);
    let number = |i: usize| match (i % k) % 16 {
        0 => 127.0 - (i / k % 2 * 254) as f32,
        _ => (i * 7 % 11) as f32 - 5.0,
    };
    let n = n_elements(shape).unwrap();
    Tensor::from_slice(shape, &(0..n).map(|i| of(number(i))).collect::<Vec<_>>()).unwrap()
}

/// Powers of two.
fn scales<T: Element>(shape: &[usize], of: fn(f32) -> T) -> Tensor {
    let n = n_elements(shape).unwrap();
    let scale = |i: usize| of([0.5, 1.0, -2.0, 0.25][i * 5 / 3 % 4]);
    Tensor::from_slice(shape, &(0..n).map(scale).collect::<Vec<_>>()).unwrap()
}

/// A product of `m` rows, with these `k` and `n`.
fn case([m, k, n]: [usize; 3], [bits, block]: [usize; 2], level: i64) -> Case {
    case_of([m, k, n], [bits, block], level, |x| x)
}

fn case_of<T: Element>(
    [m, k, n]: [usize; 3],
    [bits, block]: [usize; 2],
    level: i64,
    of: fn(f32) -> T,
) -> Case {
    let n_blocks = k.div_ceil(block);
    let int = |size: usize| Attr::Int(i64::try_from(size).unwrap());
    Case::new("MatMulNBits", 1)
        .domain("com.microsoft")
        .attr("K", int(k))
        .attr("N", int(n))
        .attr("bits", int(bits))
        .attr("block_size", int(block))
        .attr("accuracy_level", Attr::Int(level))
        .input(rows(&[m, k], of))
        .constant(bytes(&[n, n_blocks, block * bits / 8], |bits| bits))
        .constant(scales(&[n, n_blocks], of))
}

const SIZES: [[usize; 3]; 7] = [
    [1, 16, 1],
    [3, 40, 7],
    [1, 300, 65],
    [2, 1024, 1600],
    [50, 64, 33],
    [130, 96, 96],
    [0, 32, 4],
];

#[test]
fn sums_of_integers_are_exact() {
    for size in SIZES {
        for bits in [2, 4, 8] {
            for level in [0, 1, 4] {
                case(size, [bits, 32], level).check(exact);
            }
        }
    }
}

#[test]
fn blocks_of_any_size_have_zero_points_of_any_form() {
    for [m, k, n] in SIZES {
        for (block, level) in [(16, 0), (64, 4), (128, 0), (256, 4), (1024, 4)] {
            let n_blocks = k.div_ceil(block);
            let zeros = bytes(&[n * (n_blocks * 4).div_ceil(8)], |bits| bits);
            let case = || case([m, k, n], [4, block], level);
            case().constant(zeros).check(exact);
            let case = case().constant(integers(&[n, n_blocks])).absent();
            case.input(integers(&[n])).check(exact);
        }
    }
}

#[test]
fn groups_have_columns_anywhere() {
    for [m, k, n] in SIZES {
        for bits in [2, 4, 8] {
            let n_blocks = k.div_ceil(32);
            // Whole runs of 16, so that the scale of a block in 8 bits is still 1: first those of even index.
            let n_runs = k / 16;
            let position = |run: usize| match run % 2 {
                _ if run >= n_runs => run,
                0 => run / 2,
                _ => n_runs.div_ceil(2) + run / 2,
            };
            let group = |i: usize| i32::try_from(position(i / 16) / 2).unwrap();
            let groups = |len: usize| {
                let groups: Vec<i32> = (0..len).map(group).collect();
                Tensor::from_slice(&[len], &groups).unwrap()
            };
            let zeros = bytes(&[n * (n_blocks * bits).div_ceil(8)], |bits| bits);
            let case = |level| case([m, k, n], [bits, 32], level).constant(zeros.clone());
            case(0).constant(groups(k)).check(exact);
            case(4).constant(groups(n_blocks * 32)).input(integers(&[n])).check(exact);
            let of_halves = case_of([m, k, n], [bits, 32], 0, f16::from_f32);
            of_halves.absent().constant(groups(k)).check(exact);
            assert!(case(0).constant(groups(k)).variant().starts_with("nbits_f32"), "{k}");
        }
    }
}

#[test]
fn halves_are_rounded_once() {
    for size in SIZES {
        for level in [0, 4] {
            let bias = |of: fn(u8) -> f16| bytes(&[size[2]], of);
            case_of(size, [4, 32], level, f16::from_f32)
                .absent()
                .absent()
                .input(bias(|bits| f16::from_f32(f32::from(bits))))
                .check(exact);
            case_of(size, [4, 16], level, bf16::from_f32).check(exact);
        }
    }
}

fn floats_of_4_bits<T: Element>(
    [m, k, n]: [usize; 3],
    [quant_type, block]: [usize; 2],
    of: fn(f32) -> T,
) -> Case {
    let int = |size: usize| Attr::Int(i64::try_from(size).unwrap());
    Case::new("MatMulBnb4", 1)
        .domain("com.microsoft")
        .attr("K", int(k))
        .attr("N", int(n))
        .attr("quant_type", int(quant_type))
        .attr("block_size", int(block))
        .input(rows(&[m, k], of))
        .constant(bytes(&[(n * k).div_ceil(2)], |bits| bits))
        .constant(scales(&[(n * k).div_ceil(block)], of))
}

#[test]
fn floats_of_4_bits_equal_eval() {
    for [m, k, n] in SIZES {
        for quant_type in [0, 1] {
            for block in [16, 64, 256] {
                let size = [m, k.next_multiple_of(block), n];
                // Rows have magnitudes of 127 and less, 13 on average, and weights of at most 2: sums of n products
                // differ by n·2⁻²⁴ times n·26, at most.
                let bound = 26.0 * (size[1] as f64).powi(2) * f64::from(f32::EPSILON);
                let is_close = |rounding: f64| {
                    move |found: f64, expected: f64| {
                        (found - expected).abs() <= bound + rounding * expected.abs()
                    }
                };
                let form = [quant_type, block];
                floats_of_4_bits(size, form, |x| x).check(is_close(0.0));
                floats_of_4_bits(size, form, f16::from_f32).check(is_close(0.001));
                floats_of_4_bits(size, form, bf16::from_f32).check(is_close(0.008));
            }
        }
    }
}

#[test]
fn blocks_that_run_through_rows_have_no_kernel() {
    assert_eq!(floats_of_4_bits([2, 24, 6], [0, 16], |x| x).variant(), "eval");
    // Square, so that rows of A fit either orientation.
    let case = floats_of_4_bits([2, 32, 32], [0, 16], |x| x);
    assert_eq!(case.attr("transB", Attr::Int(0)).variant(), "eval");
}
