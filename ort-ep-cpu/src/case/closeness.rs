//! How close a kernel's result must be to that of `eval`.

// collects are bounded: used by tests only

use std::slice::from_ref;

use ort_tensor::{Bool, Complex, DType, Number, Tensor, with_dtype};

use super::bits;

/// Whether an actual number is close enough to the expected one.
pub(crate) type Tolerance<'a> = dyn Fn(f64, f64) -> bool + 'a;

/// Equal, or both NaN.
pub(crate) fn exact(found: f64, expected: f64) -> bool {
    found == expected || found.is_nan() && expected.is_nan()
}

/// At most `n` f32 values apart.
pub(crate) fn ulps(n: u32) -> impl Fn(f64, f64) -> bool {
    move |found, expected| {
        let [found, expected] = [found, expected].map(<f32 as Number>::from_f64);
        ort_testing::ulps(found, expected) <= n
    }
}

/// Within `error` times the larger magnitude, or the least normal f32.
pub(crate) fn relative(error: f32) -> impl Fn(f64, f64) -> bool {
    move |found, expected| {
        let size = found.abs().max(expected.abs()).max(f32::MIN_POSITIVE.into());
        exact(found, expected) || (found - expected).abs() <= f64::from(error) * size
    }
}

/// Within `error`.
pub(crate) fn within(error: f32) -> impl Fn(f64, f64) -> bool {
    move |found, expected| exact(found, expected) || (found - expected).abs() <= error.into()
}

/// The error bound of `ort_kernels::winograd` for filters with these taps, where images and filters are `integers`, both
/// at most 3.
pub(crate) fn bound_of_tiles(channels: u16, taps: [u16; 2]) -> f32 {
    let (channels, unit) = (f32::from(channels), f32::EPSILON / 2.0);
    let (factor, terms) = match taps {
        [2 | 3, 2 | 3] => (3610.0, 19.0),
        [2 | 3, 1] | [1, 2 | 3] => (60.1, 11.0),
        _ => (398.0, 11.0),
    };
    factor * (channels + terms) * 1.001 * unit * channels * 9.0
}

/// Panics at the first element that is not close.
pub(super) fn compare(found: &Tensor, expected: &Tensor, is_close: &Tolerance<'_>, what: &str) {
    // f64 cannot represent all of these.
    if matches!(expected.dtype(), DType::I64 | DType::U64) {
        assert!(bits(from_ref(found)) == bits(from_ref(expected)), "an integer of {what}");
        return;
    }
    let pairs = numbers(found).into_iter().zip(numbers(expected));
    for (i, (found, expected)) in pairs.enumerate() {
        assert!(is_close(found, expected), "element {i} is {found}, not {expected}, of {what}");
    }
}

/// The elements as f64, which represents each exactly; of a complex number both parts.
fn numbers(tensor: &Tensor) -> Vec<f64> {
    if tensor.dtype() == DType::Bool {
        let number = |flag: &Bool| f64::from(u8::from(flag.get()));
        return tensor.as_slice().unwrap().iter().map(number).collect();
    }
    if tensor.dtype() == DType::Complex128 {
        let numbers = tensor.as_slice::<Complex<f64>>().unwrap();
        return numbers.iter().flat_map(|x| [x.re(), x.im()]).collect();
    }
    with_dtype!(tensor.dtype(), number,
        T => tensor.as_slice::<T>().unwrap().iter().map(|&x| Number::to_f64(x)).collect(),
        else => panic!("no test has results of {}", tensor.dtype()))
}
