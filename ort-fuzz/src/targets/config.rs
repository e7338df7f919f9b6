//! Keys and values of sessions, and a session with those that are accepted.

use ort_session::{ConfigKey, ModelBytes, config_keys};

use super::Attack;
use crate::attack::Outcome;
use crate::corpus;
use crate::damage::{garbled, words};
use crate::stages::{LIMIT, run};

/// Values of some key, and numbers and texts of none.
const VALUES: &str = "0 1 2 -1 7 64 4294967296 18446744073709551615 18446744073709551616 1e3 nan 0.5 true all disable_all \
    enable_all enable_layout sequential parallel ORT ONNX 1;2 1,2;3 1-4 4-1; ; 1;1;1;1;1;1;1 a ä \0 \
    99999999999999999999-1";

/// Keys that name files and folders: they would be written.
const FILES: [&str; 4] = ["file", "path", "prefix", "dir"];

pub(super) fn prepare() -> Attack {
    let values = words(VALUES);
    let keys: Vec<&'static ConfigKey> = config_keys().collect();
    let files = corpus::ort_files();
    Box::new(move |mutant| {
        let rng = &mut mutant.rng;
        let mut builder = ort_session::Session::builder().threads(1).activations_cap(LIMIT);
        let mut is_rejected = false;
        for _ in 0..=rng.below(6) {
            let known = keys[rng.index(keys.len())];
            let name = match rng.below(8) {
                0 => garbled(known.name, &values, rng),
                _ => known.name.to_owned(),
            };
            let known_values = known.values();
            let known_values: Vec<&str> = known_values.split([' ', ',']).collect();
            let value = match rng.below(4) {
                0 => garbled(known.default, &values, rng),
                1 => known_values[rng.index(known_values.len())].to_owned(),
                _ => values[rng.index(values.len())].to_owned(),
            };
            if FILES.iter().any(|word| name.contains(word)) {
                continue;
            }
            mutant.label = format!("{name}={value}");
            // A refused value is an error of its call: those before it stay.
            match builder.clone().config(&name, &value) {
                Ok(set) => builder = set,
                Err(_) => is_rejected = true,
            }
        }
        let file = files[rng.index(files.len())].clone();
        let Ok(session) = builder.commit(ModelBytes::from_owner(file)) else {
            return Outcome::Rejected;
        };
        match run(&session, rng) {
            Some(Ok(())) if !is_rejected => Outcome::Accepted,
            _ => Outcome::Rejected,
        }
    })
}
