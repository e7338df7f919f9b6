//! Random inputs, the same in every run and on every machine.

use ort_session::provider::{filled, text_of};
use ort_session::{Bool, Complex, DType, Number, Tensor, TensorError, with_dtype};

/// A pseudorandom number generator.
///
/// Source: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", 2014
/// (SplitMix64, with the constants of its reference implementation).
#[derive(Clone, Debug)]
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator that starts at `seed`.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// The next byte.
    const fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[7]
    }

    /// A number in [0, 1), of 53 random bits.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number in [-1, 1], more often near 0: the mean of three uniform ones, of variance 1/9.
    fn normal(&mut self) -> f64 {
        let mut uniform = || {
            // The upper 32 bits, exact as a float.
            let bits = u32::try_from(self.next() >> 32).unwrap_or(u32::MAX);
            f64::from(bits) / f64::from(u32::MAX) * 2.0 - 1.0
        };
        (uniform() + uniform() + uniform()) / 3.0
    }
}

/// A file may declare any shape; tensors with more elements are not generated.
const MAX_ELEMENTS: usize = 1 << 30;

/// A tensor of random elements.
///
/// Floats and the parts of complex numbers are in [-1, 1], and 8-bit floats in [0, 2); bytes, which
/// are pixels or quantized values, and types below eight bits cover their whole range. Other
/// integers are 0 or 1, which are valid indices into most tables. Strings are single letters.
///
/// # Errors
/// If there are more than [`MAX_ELEMENTS`], or more than the thread's allowance or the system has memory for.
pub(crate) fn tensor(dtype: DType, shape: &[usize], seed: u64) -> Result<Tensor, TensorError> {
    let n = shape.iter().try_fold(1_usize, |n, &dim| n.checked_mul(dim));
    if n.is_none_or(|n| n > MAX_ELEMENTS) {
        return Err(TensorError::TooLarge { shape: shape.to_vec() });
    }
    let mut random = SplitMix64::new(seed);
    let mut tensor = Tensor::zeros(dtype, shape)?;
    let view = tensor.view_mut();
    with_dtype!(dtype, number, T => {
        for element in view.into_slice::<T>()? {
            *element = T::from_f64(number(dtype, &mut random));
        }
    }, else => match dtype {
        DType::Bool => view.into_slice()?.fill_with(|| Bool::from(random.next() >> 63 == 1)),
        DType::String => {
            for text in view.into_strings()? {
                *text = text_of(&[letter(&mut random).encode_utf8(&mut [0; 4])])?;
            }
        }
        DType::Complex64 => view.into_slice()?.fill_with(|| {
            Complex::new(f32::from_f64(random.normal()), f32::from_f64(random.normal()))
        }),
        DType::Complex128 => {
            view.into_slice()?.fill_with(|| Complex::new(random.normal(), random.normal()));
        }
        // A scale: a power of two from 2^-7 to 1.
        DType::F8E8M0 => view.into_words::<u8>()?.fill_with(|| 120 + random.byte() % 8),
        // Without the sign and the highest bit of the exponent: neither NaN nor infinity.
        _ if dtype.word_bytes().is_some() => {
            view.into_words::<u8>()?.fill_with(|| random.byte() & 0x3F);
        }
        _ => {
            let n = view.view().len();
            let mask = u8::MAX >> (8 - dtype.bits().min(8));
            let mut elements = filled(0, n)?;
            elements.fill_with(|| random.byte() & mask);
            view.pack(&elements)?;
        }
    });
    Ok(tensor)
}

fn number(dtype: DType, random: &mut SplitMix64) -> f64 {
    match dtype {
        DType::U8 => random.byte().into(),
        DType::I8 => random.byte().cast_signed().into(),
        _ if dtype.is_float() => random.normal(),
        _ => f64::from(u8::from(random.next() >> 63 == 1)),
    }
}

fn letter(random: &mut SplitMix64) -> char {
    char::from(b'a' + random.byte() % 26)
}

#[cfg(test)]
mod tests {
    use ort_session::provider::within;

    use super::*;

    #[test]
    fn the_generator_is_the_one_of_the_paper() {
        let mut random = SplitMix64::new(1_234_567);
        let found = [random.next(), random.next(), random.next()];
        assert_eq!(
            found,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn every_type_has_random_tensors_and_each_seed_its_own() {
        for &dtype in DType::ALL {
            let made = |seed| tensor(dtype, &[5, 21], seed).unwrap();
            assert_eq!(made(1), made(1), "{dtype}");
            assert_ne!(made(1), made(2), "{dtype}");
            assert_eq!(made(1).dtype(), dtype);
            assert!(tensor(dtype, &[2, 0], 1).unwrap().is_empty());
        }
    }

    #[test]
    fn floats_are_in_the_unit_interval_and_small_integers_small() {
        let floats = tensor(DType::F32, &[1000], 7).unwrap();
        let floats = floats.as_slice::<f32>().unwrap();
        assert!(floats.iter().all(|x| x.abs() <= 1.0));
        let near = floats.iter().filter(|x| x.abs() < 0.5).count();
        assert!(near > 750, "uniform ones would be 500: {near}");
        let ints = tensor(DType::I64, &[1000], 7).unwrap();
        assert!(ints.as_slice::<i64>().unwrap().iter().all(|x| [0, 1].contains(x)));
    }

    #[test]
    fn a_tensor_that_is_too_large_is_an_error() {
        for shape in [&[usize::MAX, 2][..], &[1 << 20, 1 << 20]] {
            assert!(tensor(DType::F32, shape, 0).is_err());
        }
    }

    #[test]
    fn random_tensors_count_against_the_allowance() {
        for dtype in [DType::F32, DType::U4, DType::String] {
            let limit = 20_000;
            let made = within(limit, limit, || tensor(dtype, &[30, 1000], 1));
            let limit = Some(limit);
            assert!(matches!(made, Err(TensorError::NoMemory { limit: of, .. }) if of == limit));
        }
    }
}
