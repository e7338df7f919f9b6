//! A target with planted findings: what the program must report. It runs only if it is named.

use super::Attack;
use crate::attack::Outcome;

pub(super) fn prepare() -> Attack {
    Box::new(|mutant| {
        mutant.label = "planted".to_owned();
        match mutant.rng.below(12) {
            0 => {
                // Caught, as by the guard of a run.
                let caught =
                    std::panic::catch_unwind(|| usize::MAX.checked_add(1).expect("planted"));
                if caught.is_ok() {
                    Outcome::Found("no panic".to_owned())
                } else {
                    Outcome::Rejected
                }
            }
            1 => std::process::abort(),
            2 => {
                let zeros = vec![0_u8; 200 << 20];
                if zeros.is_empty() { Outcome::Rejected } else { Outcome::Accepted }
            }
            3 => Outcome::Found("wrong".to_owned()),
            _ => Outcome::Accepted,
        }
    })
}
