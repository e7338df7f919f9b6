//! Keys that change results, or how kernels compute them.

use ort_ep_cpu::Denormals;

use super::key::Values::Flag;
use super::key::{ANY_FLAG, ANY_NUMBER, ANY_TEXT, ConfigKey, acts, idle, only};

const OWN_KERNELS: &str = "The kernels are not those of MLAS; the fastest for a shape is selected.";

pub(super) const KEYS: &[ConfigKey] = &[
    acts(
        "session.set_denormal_as_zero",
        "1",
        Flag(|b, is_on| {
            b.cpu.denormals = if is_on { Denormals::Flush } else { Denormals::Preserve };
        }),
        "Whether denormal numbers are flushed to zero while the session computes, on its \
         computing threads only; the caller's mode is restored. ONNX Runtime's default is 0, and \
         the first session of a process decides for the calling thread.",
    )
    .method("denormals")
    .flag("--denormals"),
    idle(
        "session.use_deterministic_compute",
        "1",
        ANY_FLAG,
        "Runs are always deterministic: results are bitwise equal for every number of threads.",
    ),
    acts(
        "session.disable_prepacking",
        "0",
        Flag(|b, is_off| b.skips_packing = is_off),
        "1 lets kernels read weights unpacked: less memory, but slower.",
    )
    .method("prepacking"),
    idle(
        "session.prepack.enable_parallel",
        "1",
        ANY_FLAG,
        "Weights are always packed by all threads of the session.",
    ),
    acts(
        "ep.cpu.winograd",
        "1",
        Flag(|b, is_on| b.cpu.winograd = is_on),
        "Whether convolutions of 2 or 3 taps along one or two axes, or 5 along one, may use Winograd's \
         algorithm where that is faster. Specific to this runtime: ONNX Runtime computes all of \
         them directly, or as matrix products.",
    )
    .method("winograd"),
    idle("mlas.use_lut_gemm", "0", ANY_FLAG, OWN_KERNELS),
    idle("mlas.disable_kleidiai", "0", ANY_FLAG, OWN_KERNELS),
    idle("mlas.kleidiai.conv_igemm_max_work", "0", ANY_NUMBER, OWN_KERNELS),
    idle("mlas.enable_gemm_fastmath_arm64_bfloat16", "0", ANY_FLAG, OWN_KERNELS),
    idle("mlas.nchwc_pointwise_conv_max_input_channel_batch", "0", ANY_NUMBER, OWN_KERNELS),
    idle("mlas.nchwc_depthwise_sliding", "0", ANY_FLAG, OWN_KERNELS),
    acts(
        "mlas.qnbit.force_fp32",
        "0",
        Flag(|b, is_forced| b.cpu.int8_blocks = !is_forced),
        "1 computes MatMulNBits in f32 even if a node's accuracy_level is 4, which permits \
         quantizing activations to 8 bits, block by block.",
    )
    .method("int8_blocks"),
    only("session.gqa_value_layout", &[""], "ONNX Runtime does not document what it changes"),
    only("session.enable_moe_expert_counting", &["0"], "experts are not counted"),
    only("session.enable_moe_expert_statistics", &["0"], "experts are not counted"),
    idle("session.moe_expert_counter_alpha", "nothing", ANY_TEXT, "Experts are not counted."),
    idle("session.moe_expert_counter_beta", "nothing", ANY_TEXT, "Experts are not counted."),
    only("session.moe_expert_counter_state_file", &[""], "experts are not counted"),
];
