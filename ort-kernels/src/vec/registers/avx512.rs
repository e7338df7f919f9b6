//! Four registers of sixteen lanes.

use std::arch::x86_64::{
    __m512 as Register, _CMP_UNORD_Q, _mm512_abs_ps as abs, _mm512_add_ps as add,
    _mm512_cmp_ps_mask, _mm512_cvtss_f32, _mm512_fmadd_ps as fmadd, _mm512_mask_mov_ps,
    _mm512_max_ps as max, _mm512_min_ps as min, _mm512_mul_ps as mul, _mm512_permute_ps,
    _mm512_set1_ps as splat, _mm512_shuffle_f32x4, _mm512_sub_ps as sub,
};

use super::super::exponential::avx512::bounded_exp16;
use super::super::{Fold, Moments, NormRow, Rows, SoftmaxForm};
use crate::Avx512;
use crate::isa::x86::{load16 as load, mask16, store16 as store};

const LANES: usize = 16;

folds! { Avx512 }
norm! { Avx512, [1 2 3 4] }
softmax! { Avx512, [1 2 3 4] }

features! { Avx512 enabled
    /// The first `n` lanes of `a`, the others of `b`.
    #[inline]
    fn first(n: usize, a: Register, b: Register) -> Register {
        _mm512_mask_mov_ps(b, mask16(n), a)
    }
}

features! { Avx512 enabled
    /// The lanes of `a` where `tested` is NaN, the others of `b`.
    #[inline]
    fn where_nan(tested: Register, a: Register, b: Register) -> Register {
        _mm512_mask_mov_ps(b, _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(tested, tested), a)
    }
}

features! { Avx512 enabled
    /// `eˣ` of differences to the greatest.
    #[inline]
    fn exp<const COUNT: usize>(mut x: [Register; COUNT]) -> [Register; COUNT] {
        for x in &mut x {
            *x = bounded_exp16(*x);
        }
        x
    }
}

features! { Avx512 enabled
    /// Whether a lane is NaN.
    #[inline]
    fn any_nan(lanes: [Register; 4]) -> bool {
        let upper = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(lanes[2], lanes[3]);
        _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(lanes[0], lanes[1]) | upper != 0
    }
}

features! { Avx512 enabled
    /// The lanes, pairwise.
    #[inline]
    fn joined(lanes: [Register; 4], join: impl Fn(Register, Register) -> Register) -> f32 {
        let half = join(join(lanes[0], lanes[2]), join(lanes[1], lanes[3]));
        let half = join(half, _mm512_shuffle_f32x4::<0b_01_00_11_10>(half, half));
        let half = join(half, _mm512_shuffle_f32x4::<0b_10_11_00_01>(half, half));
        let half = join(half, _mm512_permute_ps::<0b_01_00_11_10>(half));
        _mm512_cvtss_f32(join(half, _mm512_permute_ps::<0b_10_11_00_01>(half)))
    }
}
