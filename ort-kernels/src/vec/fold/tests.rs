//! Folds of blocks, rows and columns of every length.

use super::*;

#[derive(Clone, Copy, Default)]
struct Sum;

impl FoldOf<u8> for Sum {
    type Sum = u64;

    const START: u64 = 0;

    #[inline(always)]
    fn step(sum: u64, x: u8) -> u64 {
        sum + u64::from(x)
    }

    #[inline(always)]
    fn join(a: u64, b: u64) -> u64 {
        a + b
    }
}

#[test]
fn blocks_are_folded_whole_and_by_column() {
    let x: Vec<u8> = (0..20_000_u32).map(|i| (i * 7919 % 251) as u8).collect();
    for isa in Isa::all() {
        for (n, len) in
            [([1, 1], 0), ([2, 3], 5), ([1, 7], 64), ([3, 2], 201), ([0, 5], 9), ([1, 2], 600)]
        {
            let strides = [2 * len + 700, len + 3];
            let at =
                |i: usize, j: usize, k: usize| u64::from(x[i * strides[0] + j * strides[1] + k]);
            let rows = || (0..n[0]).flat_map(|i| (0..n[1]).map(move |j| (i, j)));
            let block = Block { x: &x, n, strides, len };
            let column = |k| rows().map(|(i, j)| at(i, j, k)).sum::<u64>();
            let mut sums = vec![9; len];
            fold_columns_of(isa, Sum, block, &mut sums);
            assert!(sums.iter().enumerate().all(|(k, sum)| *sum == column(k)));
            assert_eq!(fold_block(isa, Sum, block), (0..len).map(column).sum());
            let mut sums = [9; 30];
            fold_rows_of(isa, Sum, &x[..30 * len], &mut sums);
            let of_row = |i| x[i * len..][..len].iter().map(|x| u64::from(*x)).sum::<u64>();
            assert_eq!(sums, std::array::from_fn(of_row));
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Most;

macro_rules! most {
    ($($ty:ty),*) => { $(
        impl FoldOf<$ty> for Most {
            type Sum = $ty;

            const START: $ty = 0;
            const IS_IDEMPOTENT: bool = true;

            #[inline(always)]
            fn step(most: $ty, x: $ty) -> $ty {
                most.max(x)
            }

            #[inline(always)]
            fn join(a: $ty, b: $ty) -> $ty {
                a.max(b)
            }
        }
    )* };
}
most!(u8, u32, u64);

/// The greatest of row `i` is `200 + i`, at a position that differs from row to row.
fn check<T: Copy + PartialEq + std::fmt::Debug + From<u8>>(isa: Isa, len: usize)
where
    Most: FoldOf<T, Sum = T>,
{
    const N: usize = 39;
    let number = |i: usize| T::from(u8::try_from(i).unwrap());
    let mut x: Vec<T> = (0..N * len).map(|i| number(i * 7919 % 200)).collect();
    for i in 0..N {
        x[i * len + i * 37 % len] = number(200 + i);
    }
    let mut most = [number(0); N];
    fold_rows_of(isa, Most, &x, &mut most);
    assert_eq!(most, std::array::from_fn(|i| number(200 + i)), "{len}");
    let block = Block { x: &x, n: [1, N], strides: [0, len], len };
    assert_eq!(fold_block(isa, Most, block), number(199 + N), "{len}");
}

#[test]
fn the_greatest_of_rows_of_any_length_is_found_at_any_position() {
    for isa in Isa::all() {
        for len in (1..70).chain([127, 128, 129, 511, 520, 600]) {
            check::<u8>(isa, len);
            check::<u32>(isa, len);
            check::<u64>(isa, len);
        }
    }
}
