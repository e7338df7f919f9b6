//! `--config KEY=VALUE`: those of ONNX Runtime's session keys that mean something here, and two of
//! ours.
//!
//! Source: ONNX Runtime 1.31, `onnxruntime_session_options_config_keys.h`, and the names of the
//! session options of its C API.

use std::str::FromStr;

use ort_session::{Denormals, Level, Load, nearest};

use crate::options::MAX_THREADS;

/// What one key sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// How many threads; none is as many as the machine has.
    Threads(Option<usize>),
    Level(Level),
    Load(Load),
    /// Whether memory of runs is kept at all.
    CpuMemArena(bool),
    /// Whether shapes come again, so that it pays to keep memory for the largest of them.
    MemPattern(bool),
    Denormals(Denormals),
    /// How many channels a block has in a file that gives no evidence of it.
    NchwcBlockSize(usize),
    /// Whether Gelu may be approximated.
    GeluApproximation(bool),
    /// Whether convolutions may be computed in tiles by transformed filters.
    Winograd(bool),
    /// Passes of the optimizer to leave out.
    Disable(Vec<String>),
}

/// A setting that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ParseSettingError {
    #[error("expected KEY=VALUE")]
    Form,
    #[error("unknown key{}", did_you_mean(*.nearest))]
    Key { nearest: Option<&'static str> },
    #[error("`{value}` is no value of this key: expected {expected}")]
    Value { value: String, expected: String },
}

type Values = &'static [(&'static str, Setting)];

/// Keys with a few values each.
const KEYS: &[(&str, Values)] = &[
    (
        "session.graph_optimization_level",
        &[
            ("0", Setting::Level(Level::Disable)),
            ("1", Setting::Level(Level::Basic)),
            ("2", Setting::Level(Level::Extended)),
            ("3", Setting::Level(Level::Layout)),
            ("99", Setting::Level(Level::All)),
        ],
    ),
    (
        "session.use_memory_mapped_ort_model",
        &[("0", Setting::Load(Load::Read)), ("1", Setting::Load(Load::Mapped))],
    ),
    (
        "session.enable_cpu_mem_arena",
        &[("0", Setting::CpuMemArena(false)), ("1", Setting::CpuMemArena(true))],
    ),
    (
        "session.enable_mem_pattern",
        &[("0", Setting::MemPattern(false)), ("1", Setting::MemPattern(true))],
    ),
    // 0 is what ONNX Runtime does unless told otherwise; whoever writes it down means it.
    (
        "session.set_denormal_as_zero",
        &[
            ("0", Setting::Denormals(Denormals::Preserve)),
            ("1", Setting::Denormals(Denormals::Flush)),
        ],
    ),
    (
        "optimization.enable_gelu_approximation",
        &[("0", Setting::GeluApproximation(false)), ("1", Setting::GeluApproximation(true))],
    ),
    // Ours: ONNX Runtime takes it that the file was written on a machine like this one.
    (
        "session.nchwc_block_size",
        &[("8", Setting::NchwcBlockSize(8)), ("16", Setting::NchwcBlockSize(16))],
    ),
    // Ours: ONNX Runtime computes every convolution of 3×3 directly, or as a product.
    ("ep.cpu.winograd", &[("0", Setting::Winograd(false)), ("1", Setting::Winograd(true))]),
];

/// The key whose value is a number; 0 leaves the choice to us.
const THREADS: &str = "session.intra_op_num_threads";

/// The key whose value is names of passes. ONNX Runtime separates them by semicolons, whatever its
/// header says.
const DISABLE: &str = "optimization.disable_specified_optimizers";

impl FromStr for Setting {
    type Err = ParseSettingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (key, value) = text.split_once('=').ok_or(ParseSettingError::Form)?;
        let wrong = |expected| ParseSettingError::Value { value: value.to_owned(), expected };
        if key == THREADS {
            return match value.parse::<usize>() {
                Ok(n) if n <= MAX_THREADS => Ok(Setting::Threads(Some(n).filter(|&n| n > 0))),
                _ => Err(wrong(format!("a number from 0 to {MAX_THREADS}"))),
            };
        }
        if key == DISABLE {
            let names = value.split(';').map(str::trim).filter(|name| !name.is_empty());
            return Ok(Setting::Disable(names.map(str::to_owned).collect()));
        }
        let Some((_, values)) = KEYS.iter().find(|(known, _)| *known == key) else {
            let known = KEYS.iter().map(|(known, _)| *known).chain([THREADS, DISABLE]);
            return Err(ParseSettingError::Key { nearest: nearest(key, known) });
        };
        let found = values.iter().find(|(known, _)| *known == value);
        found.map(|(_, setting)| setting.clone()).ok_or_else(|| wrong(listed(values)))
    }
}

fn listed(values: Values) -> String {
    let words: Vec<&str> = values.iter().map(|(word, _)| *word).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

fn did_you_mean(nearest: Option<&'static str>) -> String {
    nearest.map_or_else(String::new, |key| format!("; did you mean `{key}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_set_what_they_set_in_onnx_runtime() {
        for (text, expected) in [
            ("session.intra_op_num_threads=3", Setting::Threads(Some(3))),
            ("session.intra_op_num_threads=0", Setting::Threads(None)),
            ("session.graph_optimization_level=0", Setting::Level(Level::Disable)),
            ("session.graph_optimization_level=99", Setting::Level(Level::All)),
            ("session.use_memory_mapped_ort_model=0", Setting::Load(Load::Read)),
            ("session.enable_cpu_mem_arena=0", Setting::CpuMemArena(false)),
            ("session.enable_mem_pattern=1", Setting::MemPattern(true)),
            ("session.set_denormal_as_zero=0", Setting::Denormals(Denormals::Preserve)),
            ("session.set_denormal_as_zero=1", Setting::Denormals(Denormals::Flush)),
            ("session.nchwc_block_size=8", Setting::NchwcBlockSize(8)),
            ("ep.cpu.winograd=0", Setting::Winograd(false)),
            ("optimization.enable_gelu_approximation=1", Setting::GeluApproximation(true)),
            (
                "optimization.disable_specified_optimizers=ConstantFolding; Gelu ;",
                Setting::Disable(vec!["ConstantFolding".to_owned(), "Gelu".to_owned()]),
            ),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_what_would_be_right() {
        for (text, expected) in [
            ("session.intra_op_num_threads", "expected KEY=VALUE"),
            (
                "session.intra_op_num_thread=2",
                "unknown key; did you mean `session.intra_op_num_threads`?",
            ),
            ("set_denormal_as_zero=1", "unknown key; did you mean `session.set_denormal_as_zero`?"),
            ("weather=1", "unknown key"),
            (
                "session.intra_op_num_threads=two",
                "`two` is no value of this key: expected a number from 0 to 1024",
            ),
            (
                "session.graph_optimization_level=4",
                "`4` is no value of this key: expected 0, 1, 2, 3 or 99",
            ),
            ("session.set_denormal_as_zero=", "`` is no value of this key: expected 0 or 1"),
        ] {
            assert_eq!(text.parse::<Setting>().unwrap_err().to_string(), expected, "{text}");
        }
    }
}
