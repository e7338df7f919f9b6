//! Keys for the optimizer.

// collects are bounded: as long as what the caller sets

use ort_optimizer::Level;

use super::key::Values::{Choices, Flag, Form, Number, Text};
use super::key::{ANY_FLAG, ANY_NUMBER, Choice, ConfigKey, acts, idle, only};
use crate::builder::SessionBuilder;

const LEVELS: &[Choice] = &[
    ("disable_all", |b| b.options.level = Level::Disable),
    ("enable_basic", |b| b.options.level = Level::Basic),
    ("enable_extended", |b| b.options.level = Level::Extended),
    ("enable_layout", |b| b.options.level = Level::Layout),
    ("enable_all", |b| b.options.level = Level::All),
    ("0", |b| b.options.level = Level::Disable),
    ("1", |b| b.options.level = Level::Basic),
    ("2", |b| b.options.level = Level::Extended),
    ("3", |b| b.options.level = Level::Layout),
    ("99", |b| b.options.level = Level::All),
];

const NO_FUNCTIONS: &str = "An `.ort` file has no functions: they were inlined when it was made.";

pub(super) const KEYS: &[ConfigKey] = &[
    acts(
        "session.graph_optimization_level",
        "enable_all",
        Choices(LEVELS),
        "The optimization level, as ONNX Runtime's name or integer. It applies to `.ort` files as \
         well, which ONNX Runtime does not optimize.",
    )
    .method("level")
    .flag("--level"),
    acts(
        "optimization.disable_specified_optimizers",
        "nothing",
        Text("names of passes, separated by `;` or `,`", disable),
        "Disables these passes, in addition to those disabled before. An unknown name is an error \
         when the session is built; ONNX Runtime ignores it, and supports `;` only.",
    )
    .method("disable_optimizers")
    .flag("--disable"),
    acts(
        "optimization.enable_gelu_approximation",
        "0",
        Flag(|b, is_on| turn(b, &["GeluApproximation"], is_on)),
        "Whether Gelu is approximated by FastGelu.",
    )
    .method("enable_optimizers")
    .flag("--enable GeluApproximation"),
    acts(
        "optimization.enable_cast_chain_elimination",
        "0",
        Flag(|b, is_on| turn(b, &["CastChainElimination"], is_on)),
        "Whether chains of casts are merged, although a narrower intermediate type would round.",
    )
    .method("enable_optimizers")
    .flag("--enable CastChainElimination"),
    acts(
        "optimization.constant_folding_max_output_size_in_bytes",
        "1073741824",
        Number(0, u64::MAX, |b, n| {
            let n_bytes = usize::try_from(n).unwrap_or(usize::MAX);
            b.options.max_folded_bytes = if n_bytes == 0 { usize::MAX } else { n_bytes };
        }),
        "The limit in bytes for folded constants, 0 for none. Here it applies to the sum of all; \
         in ONNX Runtime to the largest one.",
    )
    .method("max_folded_bytes"),
    acts(
        "session.disable_quant_qdq",
        "0",
        Flag(|b, is_off| turn(b, QUANTIZED, !is_off)),
        "1 keeps QuantizeLinear and DequantizeLinear: operators between them compute in floating \
         point.",
    )
    .method("disable_optimizers"),
    acts(
        "session.enable_quant_qdq_cleanup",
        "0",
        Flag(|b, is_on| turn(b, &["QDQFinalCleanupTransformer"], is_on)),
        "1 removes remaining pairs of QuantizeLinear and DequantizeLinear: values are not \
         quantized there.",
    )
    .method("enable_optimizers")
    .flag("--enable QDQFinalCleanupTransformer"),
    acts(
        "session.disable_double_qdq_remover",
        "0",
        Flag(|b, is_off| turn(b, &["DoubleQDQPairsRemover"], !is_off)),
        "1 keeps consecutive pairs of QuantizeLinear and DequantizeLinear.",
    )
    .method("disable_optimizers")
    .flag("--disable DoubleQDQPairsRemover"),
    acts(
        "session.disable_qdq_constant_folding",
        "0",
        Flag(|b, is_off| turn(b, &["QDQConstantFolding"], !is_off)),
        "1 keeps constants quantized if no quantized operator reads them: every run dequantizes \
         them. In ONNX Runtime it has an effect only with session.disable_quant_qdq.",
    )
    .method("disable_optimizers")
    .flag("--disable QDQConstantFolding"),
    idle(
        "session.graph_optimizations_loop_level",
        "1",
        Choices(&[("0", |_| {}), ("1", |_| {}), ("2", |_| {})]),
        "Passes are repeated to a fixed point, each only where the graph changed.",
    ),
    idle(
        "session.qdqisint8allowed",
        "1",
        ANY_FLAG,
        "Signed and unsigned quantized values are equally fast.",
    ),
    idle(
        "session.x64quantprecision",
        "0",
        ANY_FLAG,
        "Integer products are exact on every processor: none saturates.",
    ),
    acts(
        "session.qdq_matmulnbits_accuracy_level",
        "0",
        Choices(&[
            ("0", |b| b.options.matmul_nbits_accuracy_level = 0),
            ("1", |b| b.options.matmul_nbits_accuracy_level = 1),
            ("2", |b| b.options.matmul_nbits_accuracy_level = 2),
            ("3", |b| b.options.matmul_nbits_accuracy_level = 3),
            ("4", |b| b.options.matmul_nbits_accuracy_level = 4),
        ]),
        "The accuracy level of the MatMulNBits that replaces a product with dequantized weights: \
         below 4 its activations are floats, at 4 they are quantized to 8 bits, block by block. \
         ONNX Runtime's default is 4.",
    )
    .method("matmul_nbits_accuracy_level"),
    idle(
        "session.qdq_matmulnbits_block_size",
        "0",
        Form("a number of at least -1", |_, text| text.parse::<i64>().is_ok_and(|n| n >= -1)),
        "A scale that holds for a whole column is repeated for blocks of at most 128: the results \
         do not depend on their size, except at accuracy level 4.",
    ),
    acts(
        "session.enable_dq_matmulnbits_fusion",
        "1",
        Flag(|b, is_on| turn(b, &["DQMatMulNBitsFusion"], is_on)),
        "0 dequantizes weights of few bits when the model is loaded. In ONNX Runtime, 0 leaves a \
         part of this to QDQSelectorActionTransformer.",
    )
    .method("disable_optimizers")
    .flag("--disable DQMatMulNBitsFusion"),
    idle("session.disable_aot_function_inlining", "0", ANY_FLAG, NO_FUNCTIONS),
    idle("session.function_expansion_byte_limit", "0", ANY_NUMBER, NO_FUNCTIONS),
    idle("session.function_expansion_node_limit", "0", ANY_NUMBER, NO_FUNCTIONS),
    idle(
        "session.enable_saved_runtime_optimizations",
        "0",
        ANY_FLAG,
        "Recorded fusions of a file are not replayed: the optimizer finds them, and more, at \
         session.graph_optimization_level.",
    ),
    only(
        "optimization.minimal_build_optimizations",
        &["", "apply"],
        "deferred fusions are not saved; save the optimized graph",
    ),
    only(
        "session.debug_layout_transformation",
        &["0"],
        "the steps of layout changes are not saved; `ort-cli optimize --explain` reports them",
    ),
    acts(
        "session.nchwc_block_size",
        "inferred, or assumed",
        Choices(&[
            ("8", |b| b.options.nchwc_block_size = Some(8)),
            ("16", |b| b.options.nchwc_block_size = Some(16)),
        ]),
        "The NCHWc block size of a file from which it cannot be inferred. Specific to this \
         runtime: ONNX Runtime assumes that the file was written on a machine like this one; so \
         does this runtime if nothing contradicts it, with a warning in `Metadata::warnings`.",
    )
    .method("nchwc_block_size"),
];

/// The passes that convert operators next to DequantizeLinear and QuantizeLinear to quantized ones.
const QUANTIZED: &[&str] =
    &["QDQPropagationTransformer", "QDQSelectorActionTransformer", "DQMatMulNBitsFusion"];

fn turn(builder: &mut SessionBuilder, passes: &[&'static str], is_on: bool) {
    builder.passes.extend(passes.iter().map(|&pass| (pass, is_on)));
}

fn disable(builder: &mut SessionBuilder, names: &str) {
    let names = names.split([';', ',']).map(str::trim).filter(|name| !name.is_empty());
    builder.options.disabled.extend(names.map(str::to_owned));
}
