//! The encoding of a value in types of at most eight bits without arithmetic.

use ort_graph::{NodeSpec, OpError};
use ort_tensor::{DType, F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz};

use super::wide::Wide;

/// The rounding of 8-bit floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Narrowing {
    /// Values out of range become the largest finite value, instead of infinity or NaN.
    pub saturate: bool,
    /// The rounding of a value between two powers of two in float8e8m0.
    pub round_mode: RoundMode,
}

/// The rounding of a value between two powers of two in float8e8m0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundMode {
    /// To the larger.
    Up,
    /// To the smaller.
    Down,
    /// To the nearer, halfway to the larger.
    Nearest,
}

impl Narrowing {
    /// The attributes `saturate` and `round_mode`.
    pub(super) fn of_node(spec: &NodeSpec<'_>) -> Result<Self, OpError> {
        let round_mode = match spec.string("round_mode")? {
            None | Some("up") => RoundMode::Up,
            Some("down") => RoundMode::Down,
            Some("nearest") => RoundMode::Nearest,
            Some(other) => {
                let found = other.to_owned();
                return Err(OpError::AttributeValue { name: "round_mode", found });
            }
        };
        Ok(Self { saturate: spec.flag("saturate", true)?, round_mode })
    }

    /// The encoding of `x` in `dtype`; `None` for types of more than eight bits, int8, uint8 and bool.
    pub(super) fn encode(self, dtype: DType, x: Wide) -> Option<u8> {
        match dtype {
            // The low bits; packing drops the others.
            DType::I4 | DType::U4 | DType::I2 | DType::U2 => Some(x.to_i32().to_le_bytes()[0]),
            _ => self.encode_float(dtype, x.to_f64()),
        }
    }

    /// The encoding of `x` in a float type of eight bits or less; `None` for other types.
    pub(crate) fn encode_float(self, dtype: DType, x: f64) -> Option<u8> {
        match dtype {
            DType::F8E4M3Fn => Some(F8E4M3Fn::from_f64(x, self.saturate).to_bits()),
            DType::F8E4M3Fnuz => Some(F8E4M3Fnuz::from_f64(x, self.saturate).to_bits()),
            DType::F8E5M2 => Some(F8E5M2::from_f64(x, self.saturate).to_bits()),
            DType::F8E5M2Fnuz => Some(F8E5M2Fnuz::from_f64(x, self.saturate).to_bits()),
            DType::F8E8M0 => Some(self.e8m0(x)),
            DType::F4E2M1 => Some(e2m1(x)),
            _ => None,
        }
    }

    /// The encoding `c` with `2^(c − 127)` next to `|x|`; the sign, which the format lacks, is dropped.
    fn e8m0(self, x: f64) -> u8 {
        const MAX: i64 = 254;
        const NAN: u8 = 255;
        if x.is_nan() {
            return NAN;
        }
        let bits = x.abs().to_bits();
        let (exponent, fraction) = ((bits >> 52).cast_signed() - 1023, bits << 12);
        let up = match self.round_mode {
            RoundMode::Up => fraction != 0,
            RoundMode::Down => false,
            RoundMode::Nearest => fraction >= 1 << 63,
        };
        let bits = exponent + 127 + i64::from(up);
        if self.saturate || (0..=MAX).contains(&bits) {
            u8::try_from(bits.clamp(0, MAX)).unwrap_or(NAN)
        } else {
            NAN
        }
    }
}

/// The encoding of the nearest of ±{0, 1/2, 1, 3/2, 2, 3, 4, 6}, ties to the even one. NaN, which
/// the format lacks, becomes a zero of the other sign, as in the standard's cases.
fn e2m1(x: f64) -> u8 {
    // Halfway between encodings k and k + 1; from an odd one the tie rounds up.
    const HALFWAY: [f64; 7] = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0];
    let sign = if x.is_sign_negative() != x.is_nan() { 8 } else { 0 };
    let magnitude = if x.is_nan() { 0.0 } else { x.abs() };
    let beyond =
        |(k, &halfway): (usize, &f64)| magnitude > halfway || (magnitude == halfway && k % 2 == 1);
    let bits = HALFWAY.iter().enumerate().filter(|&entry| beyond(entry)).count();
    u8::try_from(bits).unwrap_or(7) | sign
}
