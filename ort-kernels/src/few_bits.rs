//! Quantized values of 2, 4 or 8 bits to floats.

/// Quantized values, the first in the lowest bits of a byte.
#[derive(Clone, Copy, Debug)]
pub struct FewBits<'a> {
    /// Bits per value: 2, 4 or 8.
    pub bits: usize,
    /// The values, as many as are needed.
    pub bytes: &'a [u8],
    /// XOR mask of each value: the highest bit turns signed values into unsigned ones, half their range higher.
    pub flip: u8,
}

per_isa! {
    /// `y[i] = (x[i] − zero)·scale`, rounded once if `zero` is a small integer.
    ///
    /// # Panics
    /// If there are fewer values than elements of `y`.
    pub fn dequantize_bits<FMA>(x: FewBits<'_>, zero: f32, scale: f32, y: &mut [f32]) {
        match x.bits {
            2 => each::<4>(x, zero, scale, y),
            4 => each::<2>(x, zero, scale, y),
            _ => each::<1>(x, zero, scale, y),
        }
    }
}

/// `N` values per byte.
#[inline(always)]
fn each<const N: usize>(x: FewBits<'_>, zero: f32, scale: f32, y: &mut [f32]) {
    let bytes = &x.bytes[..y.len().div_ceil(N)];
    let value = |byte: u8, i: usize| {
        let value = (byte >> (i * (8 / N))) & (u8::MAX >> (8 - 8 / N));
        (f32::from(value ^ x.flip) - zero) * scale
    };
    let (whole, rest) = y.as_chunks_mut::<N>();
    for (y, byte) in whole.iter_mut().zip(bytes) {
        *y = std::array::from_fn(|i| value(*byte, i));
    }
    if let Some(byte) = bytes.last() {
        rest.iter_mut().enumerate().for_each(|(i, y)| *y = value(*byte, i));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    #[test]
    fn values_of_every_width_are_scaled() {
        let bytes: Vec<u8> = (0..80_u8).map(|i| i.wrapping_mul(37)).collect();
        for isa in Isa::all() {
            for (bits, flip) in [(2, 0), (2, 2), (4, 0), (4, 8), (8, 0), (8, 0x80)] {
                for len in (0..70).filter(|len| len * bits <= 8 * bytes.len()) {
                    let mut y = vec![f32::NAN; len];
                    dequantize_bits(isa, FewBits { bits, bytes: &bytes, flip }, 3.0, 0.5, &mut y);
                    for (i, y) in y.iter().enumerate() {
                        let byte = bytes[i * bits / 8] >> (i * bits % 8);
                        let value = (byte & (0xff >> (8 - bits))) ^ flip;
                        assert_eq!(*y, (f32::from(value) - 3.0) * 0.5, "{isa:?} {bits} {i}");
                    }
                }
            }
        }
    }
}
