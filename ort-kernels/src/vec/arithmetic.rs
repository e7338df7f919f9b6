//! `x[i] = x[i] ∘ y[i]` and the same with a scalar, in IEEE 754 single precision.

/// In place with a row, in place with a scalar, and for `−` and `/` with the scalar on the left.
macro_rules! arithmetic {
    ($($symbol:literal $row:ident $scalar:ident: $assign:tt;)+) => {per_isa! {$(
        #[doc = concat!("`x[i] = x[i] ", $symbol, " y[i]`.\n\n# Panics\nIf the lengths differ.")]
        pub fn $row<FMA>(x: &mut [f32], y: &[f32]) {
            assert_eq!(x.len(), y.len(), "operands of one length");
            for (x, y) in x.iter_mut().zip(y) {
                *x $assign *y;
            }
        }

        #[doc = concat!("`x[i] = x[i] ", $symbol, " y`.")]
        pub fn $scalar<FMA>(x: &mut [f32], y: f32) {
            for x in x {
                *x $assign y;
            }
        }
    )+}};
}
arithmetic! {
    "+" add add_scalar: +=;
    "−" sub sub_scalar: -=;
    "·" mul mul_scalar: *=;
    "/" div div_scalar: /=;
}

per_isa! {
    /// `x[i] = y − x[i]`.
    pub fn sub_from_scalar<FMA>(x: &mut [f32], y: f32) {
        for x in x {
            *x = y - *x;
        }
    }

    /// `x[i] = y / x[i]`.
    pub fn div_scalar_by<FMA>(x: &mut [f32], y: f32) {
        for x in x {
            *x = y / *x;
        }
    }
}
