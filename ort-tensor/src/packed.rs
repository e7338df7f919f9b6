//! Types below eight bits: elements share a byte, the first in its lowest bits.

use crate::DType;

/// The quantized values of `n` elements of `bits` bits (2 or 4), one a byte, not sign-extended;
/// 0 for elements beyond the end of `bytes`.
pub fn unpack(bytes: &[u8], bits: usize, n: usize) -> Vec<u8> {
    let per_byte = 8 / bits;
    let mask = u8::MAX >> (8 - bits);
    let value = |i: usize| {
        let byte = bytes.get(i / per_byte).copied().unwrap_or(0);
        byte >> (i % per_byte * bits) & mask
    };
    (0..n).map(value).collect()
}

/// Packs quantized values into `bytes`, the first in the lowest bits; unused bits of the last byte become 0.
pub fn pack(quantized: &[u8], bits: usize, bytes: &mut [u8]) {
    let per_byte = 8 / bits;
    let mask = u8::MAX >> (8 - bits);
    for (byte, quantized) in bytes.iter_mut().zip(quantized.chunks(per_byte)) {
        *byte = 0;
        for (i, value) in quantized.iter().enumerate() {
            *byte |= (value & mask) << (i * bits);
        }
    }
}

impl DType {
    /// The number that a quantized value of a packed type represents: sign-extended for int4 and int2, the
    /// float for float4e2m1. `None` for other types.
    pub fn decode_packed(self, value: u8) -> Option<f32> {
        const E2M1: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
        let signed = |bits: u32| {
            let shift = 8 - bits;
            f32::from((value << shift).cast_signed() >> shift)
        };
        match self {
            DType::U4 => Some(f32::from(value & 0xf)),
            DType::U2 => Some(f32::from(value & 0x3)),
            DType::I4 => Some(signed(4)),
            DType::I2 => Some(signed(2)),
            DType::F4E2M1 => {
                let magnitude = E2M1[usize::from(value & 0x7)];
                Some(if value & 0x8 != 0 { -magnitude } else { magnitude })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_and_unpacking_are_inverse() {
        for bits in [2, 4] {
            let quantized: Vec<u8> = (0..13).map(|i| i % (1 << bits)).collect();
            let mut bytes = vec![0xff; (quantized.len() * bits).div_ceil(8)];
            pack(&quantized, bits, &mut bytes);
            assert_eq!(unpack(&bytes, bits, quantized.len()), quantized);
        }
    }

    #[test]
    fn the_first_element_is_in_the_lowest_bits() {
        assert_eq!(unpack(&[0x21], 4, 2), [1, 2]);
        assert_eq!(unpack(&[0b11_10_01_00], 2, 4), [0, 1, 2, 3]);
    }

    #[test]
    fn signed_values_are_sign_extended() {
        assert_eq!(DType::I4.decode_packed(0xf), Some(-1.0));
        assert_eq!(DType::I2.decode_packed(0x2), Some(-2.0));
        assert_eq!(DType::F4E2M1.decode_packed(0xd), Some(-3.0));
        assert_eq!(DType::U8.decode_packed(1), None);
    }
}
