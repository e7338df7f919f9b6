//! Keys for other devices, and for tools that place nodes on them.

use super::key::{ANY_FLAG, ANY_TEXT, ConfigKey, idle, only};

const ONE_PLACE: &str =
    "Providers claim nodes in the order in which they were added, the CPU provider last.";

const NOT_COMPILED: &str = "Models are not compiled for devices.";

const OF_ANOTHER: &str = "It concerns another device.";

pub(super) const KEYS: &[ConfigKey] = &[
    only(
        "session.disable_cpu_ep_fallback",
        &["0"],
        "the CPU is where models run; `Session::placement` reports the steps of each provider",
    ),
    only(
        "session.collect_node_memory_stats_to_file",
        &[""],
        "no such file is written; `Session::memory` and `ort-cli mem` report memory by purpose",
    ),
    idle("session.node_partition_config_file", "nothing", ANY_TEXT, ONE_PLACE),
    idle("session.resource_cuda_partitioning_settings", "nothing", ANY_TEXT, ONE_PLACE),
    idle("session.layer_assignment_settings", "nothing", ANY_TEXT, ONE_PLACE),
    idle("session.name_based_layer_assignment", "nothing", ANY_TEXT, ONE_PLACE),
    idle(
        "session.record_ep_graph_assignment_info",
        "0",
        ANY_FLAG,
        "`Session::placement` always reports it.",
    ),
    only("session.max_shape_override", &[""], "memory is planned for the shapes of each run"),
    only(
        "session.strict_workspace_verification",
        &["0"],
        "there is no workspace to verify; ONNX Runtime rejects it for an `.ort` file, too",
    ),
    only("ep.context_enable", &["0"], "models are not compiled for devices"),
    idle("ep.context_file_path", "nothing", ANY_TEXT, NOT_COMPILED),
    idle("ep.context_embed_mode", "0", ANY_FLAG, NOT_COMPILED),
    idle("ep.context_node_name_prefix", "nothing", ANY_TEXT, NOT_COMPILED),
    idle("ep.context_model_external_initializers_file_name", "nothing", ANY_TEXT, NOT_COMPILED),
    idle("ep.share_ep_contexts", "0", ANY_FLAG, NOT_COMPILED),
    idle("ep.stop_share_ep_contexts", "0", ANY_FLAG, NOT_COMPILED),
    idle("ep.enable_weightless", "0", ANY_FLAG, NOT_COMPILED),
    idle("session.fail_on_suboptimal_compiled_model", "0", ANY_TEXT, NOT_COMPILED),
    idle("ep.cuda.fpa_intb_gemm", "nothing", ANY_TEXT, OF_ANOTHER),
    idle("ep.cuda.fpa_intb_profile_m", "nothing", ANY_TEXT, OF_ANOTHER),
    idle("ep.cuda.gqa_workspace_max_total_sequence_length", "nothing", ANY_TEXT, OF_ANOTHER),
];
