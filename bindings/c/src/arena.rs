//! `OrtArenaCfg`: how an arena of onnxruntime grows. Accepted; memory of runs is planned.

#![expect(non_snake_case, reason = "names of the C API")]

use crate::error::Error;
use crate::ffi::{OutHandle, export};

/// Empty: no setting is used.
#[derive(Debug)]
pub(crate) struct ArenaConfig;

/// The known keys.
const KEYS: [&str; 7] = [
    "max_mem",
    "arena_extend_strategy",
    "initial_chunk_size_bytes",
    "max_dead_bytes_per_chunk",
    "initial_growth_chunk_size_bytes",
    "max_power_of_two_extend_bytes",
    "use_cuda_mempool",
];

export! {
    fn CreateArenaCfg(
        _max_mem: usize,
        _arena_extend_strategy: i32,
        _initial_chunk_size_bytes: i32,
        _max_dead_bytes_per_chunk: i32,
        out: OutHandle<'_, ArenaConfig>,
    ) {
        out.set(ArenaConfig);
        Ok(())
    }

    fn CreateArenaCfgV2(
        arena_config_keys: Vec<&str>[num_keys],
        _arena_config_values: &[usize][num_keys],
        num_keys: usize,
        out: OutHandle<'_, ArenaConfig>,
    ) {
        let _ = num_keys;
        match arena_config_keys.iter().find(|key| !KEYS.contains(key)) {
            Some(key) => Err(Error::invalid(format!("unknown arena setting `{key}`"))),
            None => {
                out.set(ArenaConfig);
                Ok(())
            }
        }
    }

    fn ReleaseArenaCfg(config: Option<Box<ArenaConfig>>) -> () = (); {
        drop(config);
        Ok(())
    }
}
