//! Two ways to get from an element type at run time to a Rust type.

pub use crate::text::{Text, refused};

use crate::TensorError;

/// The result type of the body of [`move_elements!`](crate::move_elements).
pub trait Moved {
    /// Whether everything was moved.
    ///
    /// # Errors
    /// If not.
    fn moved(self) -> Result<(), TensorError>;
}

impl Moved for () {
    fn moved(self) -> Result<(), TensorError> {
        Ok(())
    }
}

impl Moved for Result<(), TensorError> {
    fn moved(self) -> Result<(), TensorError> {
        self
    }
}

/// Runs `$body` with `$T` bound to the Rust type of `$dtype`, if it is in the named group:
/// `float` (f16, bf16, f32, f64), `integer` (i8 … u64), `number` (both), `plain` (numbers, bool,
/// complex and 8-bit floats: every type with its own Rust type), or an explicit list
/// `[f32, f64]`. Otherwise runs the `else` branch.
///
/// ```
/// use ort_tensor::{DType, Element, with_dtype};
/// let size = |dtype| with_dtype!(dtype, number, T => size_of::<T>(), else => 0);
/// assert_eq!(size(DType::I16), 2);
/// assert_eq!(size(DType::String), 0);
/// ```
#[macro_export]
macro_rules! with_dtype {
    ($dtype:expr, float, $T:ident => $body:expr, else => $other:expr) => {
        $crate::with_dtype!($dtype, [f32, f64, $crate::f16, $crate::bf16], $T => $body, else => $other)
    };
    ($dtype:expr, integer, $T:ident => $body:expr, else => $other:expr) => {
        $crate::with_dtype!($dtype, [i8, i16, i32, i64, u8, u16, u32, u64],
            $T => $body, else => $other)
    };
    ($dtype:expr, number, $T:ident => $body:expr, else => $other:expr) => {
        $crate::with_dtype!($dtype, [f32, f64, $crate::f16, $crate::bf16,
            i8, i16, i32, i64, u8, u16, u32, u64], $T => $body, else => $other)
    };
    ($dtype:expr, plain, $T:ident => $body:expr, else => $other:expr) => {
        $crate::with_dtype!($dtype, [f32, f64, $crate::f16, $crate::bf16,
            i8, i16, i32, i64, u8, u16, u32, u64, $crate::Bool, $crate::Complex<f32>,
            $crate::Complex<f64>, $crate::F8E4M3Fn, $crate::F8E4M3Fnuz, $crate::F8E5M2,
            $crate::F8E5M2Fnuz, $crate::F8E8M0], $T => $body, else => $other)
    };
    ($dtype:expr, [$($ty:ty),+ $(,)?], $T:ident => $body:expr, else => $other:expr) => {{
        let dtype: $crate::DType = $dtype;
        $(if dtype == <$ty as $crate::Element>::DTYPE {
            type $T = $ty;
            $body
        } else)+ { $other }
    }};
}

/// Runs a data movement over any element type by its width: `$src` is bound to the elements of the
/// view `$x` and `$dst` to those of the mutable view `$y` (same type), as words, strings, or the
/// unpacked quantized values of a type below eight bits, which are packed again afterwards. The body sees
/// slices of one `Clone + Default + PartialEq` type, and ends with nothing or a `Result<(), TensorError>`. Copies of
/// strings are counted against the thread's allowance. Yields `Result<(), TensorError>`.
///
/// ```
/// use ort_tensor::{Tensor, move_elements};
/// # fn main() -> Result<(), ort_tensor::TensorError> {
/// let x = Tensor::from_slice(&[3], &[1_i16, 2, 3])?;
/// let mut y = Tensor::zeros(x.dtype(), &[3])?;
/// move_elements!(x.view() => y.view_mut(), |src, dst| {
///     for (to, from) in dst.iter_mut().zip(src.iter().rev()) {
///         *to = from.clone();
///     }
/// })?;
/// assert_eq!(y.as_slice::<i16>()?, [3, 2, 1]);
/// # Ok(())
/// # }
/// ```
#[macro_export]
macro_rules! move_elements {
    ($x:expr => $y:expr, |$src:ident, $dst:ident| $body:expr) => {{
        let (x, y): ($crate::TensorView<'_>, $crate::TensorViewMut<'_>) = ($x, $y);
        $crate::move_elements!(@widths x, y, $src, $dst, $body,
            [1 => u8, 2 => u16, 4 => u32, 8 => u64, 16 => u128])
    }};
    (@widths $x:ident, $y:ident, $src:ident, $dst:ident, $body:expr,
        [$($bytes:literal => $word:ty),+]) => {
        (|| -> Result<(), $crate::TensorError> {
            if $x.dtype() != $y.dtype() {
                return Err($crate::TensorError::DType { expected: $y.dtype(), found: $x.dtype() });
            }
            match $x.dtype().word_bytes() {
                $(Some($bytes) => {
                    let $src: &[$word] = $x.as_words()?;
                    let $dst: &mut [$word] = $y.into_words()?;
                    $crate::dispatch::Moved::moved($body)?;
                })+
                _ if $x.dtype().is_packed() => {
                    // The body may write only a part of `y`; the rest keeps its content.
                    let (from, mut to) = ($x.unpacked()?, $y.view().unpacked()?);
                    {
                        let $src: &[u8] = &from;
                        let $dst: &mut [u8] = &mut to;
                        $crate::dispatch::Moved::moved($body)?;
                    }
                    $y.pack(&to)?;
                }
                _ => {
                    // Clear an earlier failure that no caller asked about.
                    let _ = $crate::dispatch::refused();
                    let $src = $crate::dispatch::Text::of($x.as_strings()?);
                    let $dst = $crate::dispatch::Text::of_mut($y.into_strings()?);
                    let moved = $crate::dispatch::Moved::moved($body);
                    $crate::dispatch::refused().and(moved)?;
                }
            }
            Ok(())
        })()
    };
}
