//! The cells of recurrent layers with their default functions, one pass over the units.

use super::formula::{sigmoid, tanh};
use crate::isa::mul_add;

per_isa! {
    /// `c = σ(f)·c + σ(i)·tanh(g), h = σ(o)·tanh(c)`; gates in the order i, o, f, g. NaN stays NaN.
    ///
    /// Error: of c at most 5·2⁻²³·(|c before| + 1), of h at most 4·2⁻²³ in addition to that caused by c.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn lstm_cell<FMA>(gates: [&[f32]; 4], c: &mut [f32], h: &mut [f32]) {
        let n = h.len();
        let [i, o, f, g] = gates.map(|gate| &gate[..n]);
        let c = &mut c[..n];
        for u in 0..n {
            let kept = sigmoid::<FMA>(f[u]) * c[u];
            c[u] = mul_add::<FMA>(sigmoid::<FMA>(i[u]), tanh::<FMA>(g[u]), kept);
            h[u] = sigmoid::<FMA>(o[u]) * tanh::<FMA>(c[u]);
        }
    }

    /// `h = (1 − σ(z))·x̂ + σ(z)·before` with `x̂ = tanh(x + σ(r)·reset)`; gates in the order z, r, then
    /// x and reset of the candidate. NaN stays NaN.
    ///
    /// Error: at most 5·2⁻²³·(|before| + 1) + 4·2⁻²³·|reset|.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn gru_cell<FMA>(
        gates: [&[f32]; 2],
        candidate: [&[f32]; 2],
        before: &[f32],
        h: &mut [f32],
    ) {
        let n = h.len();
        let [z, r] = gates.map(|gate| &gate[..n]);
        let [x, reset] = candidate.map(|part| &part[..n]);
        let before = &before[..n];
        for u in 0..n {
            let candidate = tanh::<FMA>(mul_add::<FMA>(sigmoid::<FMA>(r[u]), reset[u], x[u]));
            // One product fewer than the formula.
            h[u] = mul_add::<FMA>(sigmoid::<FMA>(z[u]), before[u] - candidate, candidate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    /// Numbers in [−6, 6], dense around zero.
    fn numbers(seed: usize) -> Vec<f32> {
        let unit = |i: usize| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0;
        (0..1000).map(unit).map(|x| 6.0 * x * x * x).collect()
    }

    fn sigmoid_f64(x: f32) -> f64 {
        1.0 / (1.0 + (-f64::from(x)).exp())
    }

    /// The bounds of the contracts, in units of 2⁻²³.
    fn check(what: &str, found: f32, truth: f64, units: f64) {
        let error = (f64::from(found) - truth).abs() * 8_388_608.0;
        assert!(error <= units, "{what}: {found} is {error} units from {truth}");
    }

    #[test]
    fn cells_keep_their_bounds() {
        let [i, o, f, g, before] = [1, 2, 3, 4, 5].map(numbers);
        for isa in Isa::all() {
            for n in [0, 1, 7, 33, 1000] {
                let (mut c, mut h) = (before[..n].to_vec(), vec![f32::NAN; n]);
                lstm_cell(isa, [&i[..n], &o[..n], &f[..n], &g[..n]], &mut c, &mut h);
                for u in 0..n {
                    let kept = sigmoid_f64(f[u]) * f64::from(before[u]);
                    let truth = kept + sigmoid_f64(i[u]) * f64::from(g[u]).tanh();
                    check("c", c[u], truth, 5.0 * (f64::from(before[u]).abs() + 1.0));
                    check("h", h[u], sigmoid_f64(o[u]) * f64::from(c[u]).tanh(), 4.0);
                }
                gru_cell(isa, [&i[..n], &o[..n]], [&f[..n], &g[..n]], &before[..n], &mut h);
                for u in 0..n {
                    let sum = f64::from(f[u]) + sigmoid_f64(o[u]) * f64::from(g[u]);
                    let z = sigmoid_f64(i[u]);
                    let truth = (1.0 - z) * sum.tanh() + z * f64::from(before[u]);
                    let bound =
                        5.0 * (f64::from(before[u]).abs() + 1.0) + 4.0 * f64::from(g[u]).abs();
                    check("h of a GRU", h[u], truth, bound);
                }
            }
        }
    }

    #[test]
    fn nan_stays_nan() {
        for isa in Isa::all() {
            let (x, nan) = ([0.5; 20], [f32::NAN; 20]);
            let (mut c, mut h) = (x, x);
            lstm_cell(isa, [&nan, &x, &x, &x], &mut c, &mut h);
            assert!(c.iter().chain(&h).all(|x| x.is_nan()), "{isa:?}");
            gru_cell(isa, [&x, &x], [&nan, &x], &x, &mut h);
            assert!(h.iter().all(|x| x.is_nan()), "{isa:?}");
        }
    }
}
