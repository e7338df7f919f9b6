//! Eight registers of eight lanes.

use super::super::exponential::avx2::{abs, exp_of as exp};
use super::super::{Fold, Moments, NormRow, Rows, SoftmaxForm};
use crate::Avx2;
use crate::isa::x86::{load8 as load, mask8, store8 as store};
use std::arch::x86_64::{
    __m256 as Register, _CMP_UNORD_Q, _mm256_add_ps as add, _mm256_blendv_ps, _mm256_castsi256_ps,
    _mm256_cmp_ps, _mm256_cvtss_f32, _mm256_fmadd_ps as fmadd, _mm256_max_ps as max,
    _mm256_min_ps as min, _mm256_movemask_ps, _mm256_mul_ps as mul, _mm256_or_ps,
    _mm256_permute_ps, _mm256_permute2f128_ps, _mm256_set1_ps as splat, _mm256_sub_ps as sub,
};

const LANES: usize = 8;

folds! { Avx2 }
norm! { Avx2, [1 2 3 4 5 6 7 8] }
softmax! { Avx2, [1 2 3 4 5 6 7 8] }

features! { Avx2 enabled
    /// The first `n` lanes of `a`, the others of `b`.
    #[inline]
    fn first(n: usize, a: Register, b: Register) -> Register {
        _mm256_blendv_ps(b, a, _mm256_castsi256_ps(mask8(n)))
    }
}

features! { Avx2 enabled
    /// The lanes of `a` where `tested` is NaN, the others of `b`.
    #[inline]
    fn where_nan(tested: Register, a: Register, b: Register) -> Register {
        _mm256_blendv_ps(b, a, _mm256_cmp_ps::<_CMP_UNORD_Q>(tested, tested))
    }
}

features! { Avx2 enabled
    /// Whether a lane is NaN.
    #[inline]
    fn any_nan(lanes: [Register; 8]) -> bool {
        let pair = |i: usize| _mm256_cmp_ps::<_CMP_UNORD_Q>(lanes[i], lanes[i + 4]);
        let pairs = [pair(0), pair(1), pair(2), pair(3)];
        let any = |i: usize| _mm256_or_ps(pairs[i], pairs[i + 2]);
        _mm256_movemask_ps(_mm256_or_ps(any(0), any(1))) != 0
    }
}

features! { Avx2 enabled
    /// The lanes, pairwise.
    #[inline]
    fn joined(lanes: [Register; 8], join: impl Fn(Register, Register) -> Register) -> f32 {
        let halves = [join(lanes[0], lanes[4]), join(lanes[1], lanes[5])];
        let halves = [
            join(halves[0], join(lanes[2], lanes[6])),
            join(halves[1], join(lanes[3], lanes[7])),
        ];
        let half = join(halves[0], halves[1]);
        let half = join(half, _mm256_permute2f128_ps::<0x01>(half, half));
        let half = join(half, _mm256_permute_ps::<0b_01_00_11_10>(half));
        _mm256_cvtss_f32(join(half, _mm256_permute_ps::<0b_10_11_00_01>(half)))
    }
}
