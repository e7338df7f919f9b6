//! Every family of the differential test with unusual numbers among its operands.

use ort_conformance::differential::{Unusual, check_unusual, families};

/// Multiply-adds of a case.
const BUDGET: usize = 1_000_000;
/// Cases of each family and unusual number.
const N_CASES: u64 = 2;

/// Families whose kernels give NaN in more places than `eval` where operands are not finite, and why.
const MORE_NANS: [(&str, &str); 4] = [
    ("ConvTranspose", "zeros beyond the edge are multiplied by weights"),
    ("DFT", "sums of a fast transform are those of several results, and infinities cancel"),
    ("MultiHeadAttention", "values of masked keys are multiplied by probabilities of zero"),
    ("GroupQueryAttention", "values of masked keys are multiplied by probabilities of zero"),
];

#[test]
fn unusual_numbers_give_what_plain_evaluation_gives() {
    let mut failed = Vec::new();
    for (family, name) in families().into_iter().enumerate() {
        let mut differ = Vec::new();
        for unusual in Unusual::ALL {
            for seed in 0..N_CASES {
                if let Err(what) = check_unusual(family, seed, BUDGET, unusual) {
                    differ.push((unusual, format!("{name}, seed {seed}: {what}")));
                }
            }
        }
        if let Some((_, why)) = MORE_NANS.iter().find(|(known, _)| *known == name) {
            assert!(!differ.is_empty(), "{name} agrees now: remove its exception ({why})");
            println!("{name}: {} cases differ, as {why}", differ.len());
            differ.retain(|(unusual, _)| unusual.is_finite());
        }
        failed.extend(differ.into_iter().map(|(_, what)| what));
    }
    assert!(failed.is_empty(), "{} differ\n{}", failed.len(), failed.join("\n\n"));
}
