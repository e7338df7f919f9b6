//! Float to integer conversions with the semantics of the x86 instructions.

#![expect(unsafe_code, reason = "an unchecked conversion of values within its limits")]

/// The integer part, without the branches and saturation of `as`.
macro_rules! truncations {
    ($($(#[$meta:meta])* $name:ident: $float:ty => $int:ty, $low:literal..$beyond:literal;)+) => {$(
        $(#[$meta])*
        #[inline(always)]
        #[must_use]
        pub fn $name(x: $float) -> $int {
            let fits = x > $low && x < $beyond;
            let inside = if fits { x } else { 0.0 };
            // SAFETY: the integer part of a value between the limits, or of zero, is representable in the
            // type.
            let found = unsafe { inside.to_int_unchecked::<$int>() };
            if fits { found } else { <$int>::MIN }
        }
    )+};
}
truncations! {
    /// The integer part; the least integer for out-of-range values and NaN.
    f32_to_i32: f32 => i32, -2_147_483_648.0..2_147_483_648.0;
    /// See [`f32_to_i32`].
    f32_to_i64: f32 => i64, -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
    /// See [`f32_to_i32`].
    f64_to_i32: f64 => i32, -2_147_483_649.0..2_147_483_648.0;
    /// See [`f32_to_i32`].
    f64_to_i64: f64 => i64, -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
}

/// `a·b + c`, rounded once. WebAssembly has no such instruction, and the library's function takes 50 times as long, so there
/// it is computed in double precision: the product is exact, and the sum is, too, unless its terms differ by more than 2²⁰ in
/// magnitude; then it may be rounded twice.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "rounds to single precision")]
pub(crate) fn fused(a: f32, b: f32, c: f32) -> f32 {
    if cfg!(target_arch = "wasm32") {
        (f64::from(a) * f64::from(b) + f64::from(c)) as f32
    } else {
        a.mul_add(b, c)
    }
}
