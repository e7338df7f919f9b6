//! Types below eight bits: elements share a byte, the first in its lowest bits.

use crate::DType;

/// The quantized values of `n` elements of `bits` bits (2 or 4), one a byte, not sign-extended.
/// Quantized values that `bytes` does not hold are 0.
pub fn unpack(bytes: &[u8], bits: usize, n: usize) -> Vec<u8> {
    let per_byte = 8 / bits;
    let mask = u8::MAX >> (8 - bits);
    let code = |i: usize| {
        let byte = bytes.get(i / per_byte).copied().unwrap_or(0);
        byte >> (i % per_byte * bits) & mask
    };
    (0..n).map(code).collect()
}

/// Packs quantized values into `bytes`, the first in the lowest bits; unused bits of the last byte become 0.
pub fn pack(codes: &[u8], bits: usize, bytes: &mut [u8]) {
    let per_byte = 8 / bits;
    let mask = u8::MAX >> (8 - bits);
    for (byte, codes) in bytes.iter_mut().zip(codes.chunks(per_byte)) {
        *byte = 0;
        for (i, code) in codes.iter().enumerate() {
            *byte |= (code & mask) << (i * bits);
        }
    }
}

impl DType {
    /// The number that a code of a packed type stands for: sign-extended for int4 and int2, the
    /// float for float4e2m1. Other types have none.
    pub fn decode_packed(self, code: u8) -> Option<f32> {
        const E2M1: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
        let signed = |bits: u32| {
            let shift = 8 - bits;
            f32::from((code << shift).cast_signed() >> shift)
        };
        match self {
            DType::U4 => Some(f32::from(code & 0xf)),
            DType::U2 => Some(f32::from(code & 0x3)),
            DType::I4 => Some(signed(4)),
            DType::I2 => Some(signed(2)),
            DType::F4E2M1 => {
                let magnitude = E2M1[usize::from(code & 0x7)];
                Some(if code & 0x8 != 0 { -magnitude } else { magnitude })
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
            let codes: Vec<u8> = (0..13).map(|i| i % (1 << bits)).collect();
            let mut bytes = vec![0xff; (codes.len() * bits).div_ceil(8)];
            pack(&codes, bits, &mut bytes);
            assert_eq!(unpack(&bytes, bits, codes.len()), codes);
        }
    }

    #[test]
    fn the_first_element_is_in_the_lowest_bits() {
        assert_eq!(unpack(&[0x21], 4, 2), [1, 2]);
        assert_eq!(unpack(&[0b11_10_01_00], 2, 4), [0, 1, 2, 3]);
    }

    #[test]
    fn signed_codes_are_sign_extended() {
        assert_eq!(DType::I4.decode_packed(0xf), Some(-1.0));
        assert_eq!(DType::I2.decode_packed(0x2), Some(-2.0));
        assert_eq!(DType::F4E2M1.decode_packed(0xd), Some(-3.0));
        assert_eq!(DType::U8.decode_packed(1), None);
    }
}
