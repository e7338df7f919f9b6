//! Floats to integers as the instructions of x86 do it.

#![expect(unsafe_code, reason = "a conversion that checks nothing, of what is within its limits")]

/// The integer part, without the branches and limits of `as`.
macro_rules! truncations {
    ($($(#[$meta:meta])* $name:ident: $float:ty => $int:ty, $low:literal..$beyond:literal;)+) => {$(
        $(#[$meta])*
        #[inline(always)]
        #[must_use]
        pub fn $name(x: $float) -> $int {
            let fits = x > $low && x < $beyond;
            let inside = if fits { x } else { 0.0 };
            // SAFETY: the integer part of what is between the limits, or of zero, is an integer of the
            // type.
            let found = unsafe { inside.to_int_unchecked::<$int>() };
            if fits { found } else { <$int>::MIN }
        }
    )+};
}
truncations! {
    /// The integer part; the least integer for what is beyond, NaN, and that integer.
    f32_to_i32: f32 => i32, -2_147_483_648.0..2_147_483_648.0;
    /// As [`f32_to_i32`].
    f32_to_i64: f32 => i64, -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
    /// As [`f32_to_i32`].
    f64_to_i32: f64 => i32, -2_147_483_649.0..2_147_483_648.0;
    /// As [`f32_to_i32`].
    f64_to_i64: f64 => i64, -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
}
