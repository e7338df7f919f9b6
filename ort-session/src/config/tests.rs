//! The effect of keys, the list of keys, and the messages for others.

use std::collections::HashSet;
use std::path::Path;

use ort_ep_cpu::Denormals;
use ort_loader::Load;
use ort_optimizer::Level;

use super::*;
use crate::log::Severity;
use crate::run_memory::Arena;
use crate::session::Session;
use crate::threads::ExecutionMode;

const PARALLEL: ExecutionMode = ExecutionMode::Parallel;

fn with(key: &str, value: &str) -> SessionBuilder {
    Session::builder().config(key, value).unwrap()
}

#[test]
fn keys_set_what_their_methods_set() {
    let level = "session.graph_optimization_level";
    for (value, expected) in [
        ("0", Level::Disable),
        ("disable_all", Level::Disable),
        ("enable_extended", Level::Extended),
        ("3", Level::Layout),
        ("99", Level::All),
    ] {
        assert_eq!(with(level, value).options.level, expected, "{value}");
    }
    assert_eq!(with("session.intra_op_num_threads", "3").n_threads, Some(3));
    assert_eq!(with("session.intra_op_num_threads", "0").n_threads, None);
    assert_eq!(with("session.use_memory_mapped_ort_model", "0").load, Load::Read);
    let denormals = |value| with("session.set_denormal_as_zero", value).cpu.denormals;
    assert_eq!((denormals("0"), denormals("1")), (Denormals::Preserve, Denormals::Flush));
    assert_eq!(with("session.nchwc_block_size", "8").options.nchwc_block_size, Some(8));
    let accuracy = with("session.qdq_matmulnbits_accuracy_level", "4").options;
    assert_eq!(accuracy.matmul_nbits_accuracy_level, 4);
    let passes = with("session.enable_dq_matmulnbits_fusion", "0").passes;
    assert_eq!(passes.get("DQMatMulNBitsFusion"), Some(&false));
    assert!(!with("ep.cpu.winograd", "0").cpu.winograd);
    assert!(!with("mlas.qnbit.force_fp32", "1").cpu.int8_blocks);
    let folded = |value| {
        let key = "optimization.constant_folding_max_output_size_in_bytes";
        with(key, value).options.max_folded_bytes
    };
    assert_eq!((folded("7"), folded("0")), (7, usize::MAX));
    assert!(with("session.disable_prepacking", "1").skips_packing);
    assert_eq!(with("session.log_severity_level", "3").log.choice.severity, Some(Severity::Error));
    assert_eq!(with("session.log_severity_level", "-1").log.choice.severity, None);
    assert_eq!(with("session.log_verbosity_level", "2").log.choice.verbosity, Some(2));
    assert_eq!(with("session.log_id", "a").log.id.as_deref(), Some("a"));
    let arena = |entries: &[(&str, &str)]| {
        let set = |b: SessionBuilder, (key, value): &(&str, &str)| b.config(key, value);
        entries.iter().try_fold(Session::builder(), set).unwrap().arena
    };
    let (cpu, pattern) = ("session.enable_cpu_mem_arena", "session.enable_mem_pattern");
    assert_eq!(arena(&[(cpu, "0")]), Arena::Off);
    assert_eq!(arena(&[(cpu, "1")]), Arena::Keep);
    assert_eq!(arena(&[(cpu, "1"), (pattern, "0")]), Arena::Shrink);
    assert_eq!(arena(&[(pattern, "0"), (cpu, "0")]), Arena::Off);
    assert_eq!(arena(&[(pattern, "1")]), Arena::default());
    let mode = |value| with("session.execution_mode", value).branches.mode;
    assert_eq!((mode("parallel"), mode("ort_parallel")), (PARALLEL, PARALLEL));
    assert_eq!(mode("ORT_SEQUENTIAL"), ExecutionMode::Sequential);
    assert_eq!(with("session.inter_op_num_threads", "3").branches.n_threads, Some(3));
    assert_eq!(with("session.inter_op_num_threads", "0").branches.n_threads, None);
    let saved = with("session.optimized_model_filepath", "a.ort").saved;
    assert_eq!((saved.path.as_deref(), saved.is_ort), (Some(Path::new("a.ort")), false));
    assert!(with("session.save_model_format", "ORT").saved.is_ort);
    let disabled = with("optimization.disable_specified_optimizers", "A; B ;,C").options.disabled;
    assert_eq!(disabled, ["A", "B", "C"]);
}

#[test]
fn the_last_of_equal_keys_wins() {
    let key = "session.disable_quant_qdq";
    let builder = with(key, "1").config(key, "0").unwrap();
    assert!(builder.passes.values().all(|is_on| *is_on) && !builder.passes.is_empty());
    assert!(builder.resolved().unwrap().options.disabled.is_empty());
    let options = with(key, "1").resolved().unwrap().options;
    assert!(options.disabled.iter().any(|name| name == "QDQSelectorActionTransformer"));
    let cleanup = "session.enable_quant_qdq_cleanup";
    assert_eq!(
        with(cleanup, "1").resolved().unwrap().options.enabled,
        ["QDQFinalCleanupTransformer"]
    );
    let options = with(cleanup, "0").resolved().unwrap().options;
    assert!(options.enabled.is_empty() && options.disabled.is_empty());
}

#[test]
fn errors_suggest_the_nearest_valid_word() {
    for (key, value, expected) in [
        (
            "session.intra_op_num_thread",
            "2",
            "unknown key `session.intra_op_num_thread`; did you mean `session.intra_op_num_threads`?",
        ),
        (
            "set_denormal_as_zero",
            "1",
            "unknown key `set_denormal_as_zero`; did you mean `session.set_denormal_as_zero`?",
        ),
        ("weather", "1", "unknown key `weather`"),
        (
            "session.intra_op_num_threads",
            "two",
            "`two` is not a value of `session.intra_op_num_threads`: expected a number from 0 to 1024",
        ),
        (
            "session.set_denormal_as_zero",
            "",
            "`` is not a value of `session.set_denormal_as_zero`: expected 0 or 1",
        ),
        (
            "session.save_model_format",
            "ONNX",
            "`session.save_model_format` cannot be `ONNX` here: the optimized graph can be saved as \
             an `.ort` file only",
        ),
        (
            "session.save_model_format",
            "OR",
            "`OR` is not a value of `session.save_model_format`: expected nothing or ORT; did you mean \
             `ORT`?",
        ),
        (
            "session.qdq_matmulnbits_block_size",
            "-2",
            "`-2` is not a value of `session.qdq_matmulnbits_block_size`: expected a number of at least -1",
        ),
        (
            "ep.context_enable",
            "1",
            "`ep.context_enable` cannot be `1` here: models are not compiled for devices",
        ),
    ] {
        let error = Session::builder().config(key, value).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let level = Session::builder().config("session.graph_optimization_level", "enable_extend");
    let error = level.unwrap_err().to_string();
    assert!(error.ends_with("; did you mean `enable_extended`?"), "{error}");
}

/// The keys of `onnxruntime_session_options_config_keys.h` (1.31), and of fields of its session
/// options, that are about sessions.
const OF_ONNX_RUNTIME: &str = include_str!("keys_of_onnx_runtime.txt");

#[test]
fn every_key_of_onnx_runtime_is_known_once() {
    let names: Vec<&str> = config_keys().map(|key| key.name).collect();
    let known: HashSet<&str> = names.iter().copied().collect();
    assert_eq!(known.len(), names.len());
    let unknown: Vec<&str> = OF_ONNX_RUNTIME.lines().filter(|key| !known.contains(key)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn every_default_is_a_valid_value() {
    for key in config_keys() {
        let value = if key.default == "nothing" { "" } else { key.default };
        // No value requests these.
        if !["inferred, or assumed", "while needed", "that of steps"].contains(&key.default) {
            Session::builder().config(key.name, value).unwrap();
        }
        assert!(!key.doc.is_empty() && key.effect != Effect::Refused || key.refused().is_some());
    }
}

#[test]
fn idle_keys_have_no_effect() {
    let plain = format!("{:?}", Session::builder());
    for key in config_keys().filter(|key| key.effect != Effect::Acts) {
        let value = if key.default == "nothing" { "" } else { key.default };
        for value in [value, "0", "1"] {
            if let Ok(builder) = Session::builder().config(key.name, value) {
                assert_eq!(format!("{builder:?}"), plain, "{}={value}", key.name);
            }
        }
    }
}
