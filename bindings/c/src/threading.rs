//! `OrtThreadingOptions`: threads of an environment, for sessions without their own.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::c_void;

use ort_sys::{OrtCustomCreateThreadFn, OrtCustomJoinThreadFn};

use crate::error::Error;
use crate::ffi::{OutHandle, ThreadFunctions, UserData, export};
use crate::session_options::SessionOptions;

/// Thread settings for the environment's sessions: keys of session options, and values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Threading {
    pub(crate) keys: Vec<(&'static str, String)>,
    pub(crate) functions: ThreadFunctions,
}

impl Threading {
    fn set(&mut self, key: &'static str, value: impl Into<String>) {
        self.keys.retain(|(other, _)| *other != key);
        self.keys.push((key, value.into()));
    }
}

export! {
    fn CreateThreadingOptions(out: OutHandle<'_, Threading>) {
        out.set(Threading::default());
        Ok(())
    }

    fn ReleaseThreadingOptions(options: Option<Box<Threading>>) -> () = (); {
        drop(options);
        Ok(())
    }

    fn SetGlobalIntraOpNumThreads(tp_options: &mut Threading, intra_op_num_threads: i32) {
        tp_options.set("session.intra_op_num_threads", intra_op_num_threads.max(0).to_string());
        Ok(())
    }

    fn SetGlobalInterOpNumThreads(tp_options: &mut Threading, inter_op_num_threads: i32) {
        tp_options.set("session.inter_op_num_threads", inter_op_num_threads.max(0).to_string());
        Ok(())
    }

    fn SetGlobalSpinControl(tp_options: &mut Threading, allow_spinning: i32) {
        let value = match allow_spinning {
            0 => "0",
            1 => "1",
            _ => return Err(Error::argument("allow_spinning", "is neither 0 nor 1")),
        };
        tp_options.set("session.intra_op.allow_spinning", value);
        tp_options.set("session.inter_op.allow_spinning", value);
        Ok(())
    }

    fn SetGlobalDenormalAsZero(tp_options: &mut Threading) {
        tp_options.set("session.set_denormal_as_zero", "1");
        Ok(())
    }

    fn SetGlobalIntraOpThreadAffinity(tp_options: &mut Threading, affinity_string: &str) {
        if affinity_string.is_empty() {
            return Err(Error::argument("affinity_string", "is empty"));
        }
        tp_options.set("session.intra_op_thread_affinities", affinity_string);
        Ok(())
    }

    fn SetGlobalCustomCreateThreadFn(
        tp_options: &mut Threading,
        ort_custom_create_thread_fn: OrtCustomCreateThreadFn,
    ) {
        tp_options.functions.create = ort_custom_create_thread_fn;
        Ok(())
    }

    /// Passed to the function that creates threads.
    fn SetGlobalCustomThreadCreationOptions(tp_options: &mut Threading, creation_options: *mut c_void) {
        tp_options.functions.options = UserData(creation_options);
        Ok(())
    }

    fn SetGlobalCustomJoinThreadFn(
        tp_options: &mut Threading,
        ort_custom_join_thread_fn: OrtCustomJoinThreadFn,
    ) {
        tp_options.functions.join = ort_custom_join_thread_fn;
        Ok(())
    }

    fn SessionOptionsSetCustomCreateThreadFn(
        options: &mut SessionOptions,
        ort_custom_create_thread_fn: OrtCustomCreateThreadFn,
    ) {
        options.functions.create = ort_custom_create_thread_fn;
        Ok(())
    }

    /// Passed to the function that creates threads.
    fn SessionOptionsSetCustomThreadCreationOptions(options: &mut SessionOptions, creation_options: *mut c_void) {
        options.functions.options = UserData(creation_options);
        Ok(())
    }

    fn SessionOptionsSetCustomJoinThreadFn(
        options: &mut SessionOptions,
        ort_custom_join_thread_fn: OrtCustomJoinThreadFn,
    ) {
        options.functions.join = ort_custom_join_thread_fn;
        Ok(())
    }
}
