//! The discrete Fourier transform: radix 2 while the length is even, then plain sums.
//!
//! ```text
//! transform(x, n):
//!     n odd:  y[k] = Σ x[j] · root[j·k]
//!     n even: e, o = transform(x[0, 2, …]), transform(x[1, 3, …])
//!             y[k], y[k + n/2] = e[k] + root[k] · o[k], e[k] − root[k] · o[k]
//! ```

use std::f64::consts::TAU;

use ort_tensor::{Complex, Pace, Room, TensorError, collected, go_on};

/// A transform of one length: `y[k] = Σ x[j] · exp(∓2πi · j·k / n)`.
#[derive(Clone, Debug)]
pub(crate) struct Fourier {
    /// `exp(∓2πi · k / n)`.
    roots: Vec<Complex<f64>>,
}

impl Fourier {
    /// The transform of `n` values; the inverse is not divided by `n`.
    ///
    /// # Errors
    /// If there is no memory for its tables.
    pub(crate) fn new(n: usize, is_inverse: bool) -> Result<Self, TensorError> {
        let sign = if is_inverse { 1.0 } else { -1.0 };
        let root = |k| {
            let angle = sign * TAU * k as f64 / n as f64;
            Complex::new(angle.cos(), angle.sin())
        };
        Ok(Self { roots: collected((0..n).map(root))? })
    }

    /// The transform of `x`, whose length must be that of the transform.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(crate) fn transform(&self, x: &[Complex<f64>]) -> Result<Room<Complex<f64>>, TensorError> {
        let mut y = Room::filled(Complex::default(), x.len())?;
        self.recurse(x, 1, &mut y)?;
        Ok(y)
    }

    /// Transforms every `step`-th value of `x`, as many as `y` has.
    fn recurse(
        &self,
        x: &[Complex<f64>],
        step: usize,
        y: &mut [Complex<f64>],
    ) -> Result<(), TensorError> {
        let n = y.len();
        if n >= Pace::STEP {
            go_on()?;
        }
        if n % 2 == 1 {
            let mut pace = Pace::new();
            for (k, y) in y.iter_mut().enumerate() {
                pace.go(n)?;
                let terms = x.iter().step_by(step).take(n).enumerate();
                *y = terms.fold(Complex::default(), |sum, (j, &x)| {
                    add(sum, multiply(x, self.roots[j * k % n * step]))
                });
            }
        } else if n > 0 {
            let (even, odd) = y.split_at_mut(n / 2);
            self.recurse(x, 2 * step, even)?;
            self.recurse(&x[step..], 2 * step, odd)?;
            let mut pace = Pace::new();
            for (k, (even, odd)) in even.iter_mut().zip(odd).enumerate() {
                pace.go(1)?;
                let transposed = multiply(*odd, self.roots[k * step]);
                (*even, *odd) = (add(*even, transposed), subtract(*even, transposed));
            }
        }
        Ok(())
    }
}

fn add(a: Complex<f64>, b: Complex<f64>) -> Complex<f64> {
    Complex::new(a.re() + b.re(), a.im() + b.im())
}

fn subtract(a: Complex<f64>, b: Complex<f64>) -> Complex<f64> {
    Complex::new(a.re() - b.re(), a.im() - b.im())
}

fn multiply(a: Complex<f64>, b: Complex<f64>) -> Complex<f64> {
    Complex::new(a.re() * b.re() - a.im() * b.im(), a.re() * b.im() + a.im() * b.re())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transform_is_the_sum_of_its_definition() {
        for n in 0..26_u8 {
            let x: Vec<_> =
                (0..n).map(|j| Complex::new(f64::from(j % 7), f64::from(j % 5) - 2.0)).collect();
            let found = Fourier::new(usize::from(n), false).unwrap().transform(&x).unwrap();
            for (k, found) in (0_u8..).zip(found) {
                let term = |j: u8| {
                    let angle = -TAU * f64::from(j) * f64::from(k) / f64::from(n);
                    multiply(x[usize::from(j)], Complex::new(angle.cos(), angle.sin()))
                };
                let expected = (0..n).map(term).fold(Complex::default(), add);
                let error = subtract(found, expected);
                // n terms below 8, each with an angle below 2π·n and its rounding.
                let bound = 8.0 * TAU * f64::from(n).powi(2) * f64::EPSILON;
                assert!(error.re().hypot(error.im()) <= bound, "{n} {k}");
            }
        }
    }
}
