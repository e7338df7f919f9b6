//! The elements of a case's inputs, which follow from name, type and shape alone, so that the text of a case defines
//! it completely.
//!
//! A name is a letter, `x` for an input of the run and `w` for a constant; a number; and optional words:
//!
//! ```text
//! x1          uniform in [-1, 1)
//! x1_p        positive: uniform in [0.5, 1.5)
//! w2_s5       times 2^-5
//! w2_p_s5     both
//! x3_n50      whole numbers in 0..50
//! ```
//! Integers without `_n` cover the whole range of 8-bit types, else -8..8.

use ort_tensor::{Bool, DType, Element, Number, Tensor, TensorError, n_elements, with_dtype};
use ort_testing::Rng;

/// Whether the input of this name is a constant.
pub(crate) fn is_constant(name: &str) -> bool {
    name.starts_with('w')
}

/// The number after a letter in a name.
fn word(name: &str, letter: char) -> Option<i32> {
    name.split('_').skip(1).find_map(|word| word.strip_prefix(letter)?.parse().ok())
}

/// The tensor of this name.
pub(crate) fn tensor(name: &str, dtype: DType, shape: &[usize]) -> Result<Tensor, TensorError> {
    let n = n_elements(shape).ok_or_else(|| TensorError::TooLarge { shape: shape.to_vec() })?;
    // FNV-1a.
    let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut rng = Rng::new(seed ^ n as u64);
    if dtype == DType::Bool {
        let bools: Vec<Bool> = (0..n).map(|_| Bool::from(rng.below(2) == 1)).collect();
        return Tensor::from_slice(shape, &bools);
    }
    if dtype.is_packed() {
        let values: Vec<u8> = (0..n).map(|_| rng.below(256).to_le_bytes()[0]).collect();
        let mut packed = Tensor::zeros(dtype, shape)?;
        packed.view_mut().pack(&values)?;
        return Ok(packed);
    }
    let numbers: Vec<f64> = match (word(name, 'n'), dtype.is_float()) {
        (Some(end), _) => (0..n).map(|_| rng.below(u64::from(end.unsigned_abs())) as f64).collect(),
        (None, true) => {
            let is_positive = name.split('_').any(|word| word == "p");
            let scale = f64::from(-word(name, 's').unwrap_or(0)).exp2();
            let number = |x: f64| scale * if is_positive { 1.0 + x / 2.0 } else { x };
            (0..n).map(|_| number(f64::from(rng.uniform()))).collect()
        }
        (None, false) => {
            let (low, count) = match dtype {
                DType::U8 => (0, 256),
                DType::I8 => (-128, 256),
                _ => (-8, 16),
            };
            (0..n).map(|_| f64::from(low) + rng.below(count) as f64).collect()
        }
    };
    with_dtype!(dtype, number, T => of_numbers::<T>(shape, &numbers),
        else => Err(TensorError::TooLarge { shape: shape.to_vec() }))
}

/// A tensor of this name whose elements repeat after [`N_DISTINCT`].
pub(crate) fn repeated(name: &str, dtype: DType, shape: &[usize]) -> Result<Tensor, TensorError> {
    /// A prime, so that neighbours along any axis differ.
    const N_DISTINCT: usize = 8191;
    let n = n_elements(shape).ok_or_else(|| TensorError::TooLarge { shape: shape.to_vec() })?;
    if dtype == DType::String {
        let word = if name.contains("_n") { "" } else { "text " };
        let texts = (0..n).map(|i| format!("{word}{}", i % N_DISTINCT));
        return Tensor::from_strings(shape, texts.collect());
    }
    if n <= N_DISTINCT {
        return tensor(name, dtype, shape);
    }
    let some = tensor(name, dtype, &[N_DISTINCT])?;
    let mut all = Tensor::zeros(dtype, shape)?;
    if let (Some(some), Some(all)) = (some.view().as_bytes(), all.view_mut().into_bytes()) {
        all.chunks_mut(some.len()).for_each(|part| part.copy_from_slice(&some[..part.len()]));
    }
    Ok(all)
}

fn of_numbers<T: Element + Number>(
    shape: &[usize],
    numbers: &[f64],
) -> Result<Tensor, TensorError> {
    let elements: Vec<T> = numbers.iter().map(|&number| T::from_f64(number)).collect();
    Tensor::from_slice(shape, &elements)
}
