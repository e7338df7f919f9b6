//! Execution providers: the CPU provider is available, others are rejected with a list of those available.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::{c_char, c_void};

use ort_sys::{
    EpSelectionDelegate, OrtCANNProviderOptions, OrtCUDAProviderOptions, OrtCUDAProviderOptionsV2,
    OrtCompiledModelCompatibility, OrtDnnlProviderOptions, OrtEpDevice, OrtHardwareDevice,
    OrtMIGraphXProviderOptions, OrtOpenVINOProviderOptions, OrtROCMProviderOptions,
    OrtReadNamedBufferFunc, OrtTensorRTProviderOptions, OrtTensorRTProviderOptionsV2,
};

use crate::env::Env;
use crate::error::Error;
use crate::ffi::{Allocator, Out, Outs, Shared, export};
use crate::session::Session;
use crate::session_options::SessionOptions;

/// The available providers.
pub(crate) const AVAILABLE: [&str; 1] = ["CPUExecutionProvider"];

/// An error unless a provider of this name, onnxruntime's or the short form, is available.
pub(crate) fn expect_known(name: &str) -> Result<(), Error> {
    match name {
        "CPUExecutionProvider" | "CPU" => Ok(()),
        _ => Err(missing(name)),
    }
}

fn missing(name: &str) -> Error {
    Error::fail(format!(
        "{name} execution provider is not enabled in this build: the only one is {}, which is always used",
        AVAILABLE[0]
    ))
}

fn no_device() -> Error {
    Error::invalid("there are no plugin devices")
}

/// A function that appends a provider that is not available.
macro_rules! appends {
    ($($name:ident($options:ty) = $provider:literal;)*) => {
        export! {$(
            fn $name(_options: &mut SessionOptions, _provider_options: *const $options) {
                Err(missing($provider))
            }
        )*}
    };
}

appends! {
    SessionOptionsAppendExecutionProvider_CUDA(OrtCUDAProviderOptions) = "CUDA";
    SessionOptionsAppendExecutionProvider_CUDA_V2(OrtCUDAProviderOptionsV2) = "CUDA";
    SessionOptionsAppendExecutionProvider_ROCM(OrtROCMProviderOptions) = "ROCM";
    SessionOptionsAppendExecutionProvider_OpenVINO(OrtOpenVINOProviderOptions) = "OpenVINO";
    SessionOptionsAppendExecutionProvider_TensorRT(OrtTensorRTProviderOptions) = "TensorRT";
    SessionOptionsAppendExecutionProvider_TensorRT_V2(OrtTensorRTProviderOptionsV2) = "TensorRT";
    SessionOptionsAppendExecutionProvider_MIGraphX(OrtMIGraphXProviderOptions) = "MIGraphX";
    SessionOptionsAppendExecutionProvider_CANN(OrtCANNProviderOptions) = "CANN";
    SessionOptionsAppendExecutionProvider_Dnnl(OrtDnnlProviderOptions) = "DNNL";
}

/// Functions that create, change and print the options of a provider that is not available.
macro_rules! provider_options {
    ($($ty:ty = $provider:literal: $create:ident $update:ident $print:ident $release:ident;)*) => {
        export! {$(
            fn $create(_out: Out<'_, *mut $ty>) {
                Err(missing($provider))
            }

            fn $update(
                _options: *mut $ty,
                _keys: *const *const c_char,
                _values: *const *const c_char,
                _num_keys: usize,
            ) {
                Err(missing($provider))
            }

            fn $print(_options: *const $ty, _allocator: Allocator<'_>, _ptr: Out<'_, *mut c_char>) {
                Err(missing($provider))
            }

            /// Does nothing: there is none to release.
            fn $release(_options: *mut $ty) -> () = (); {
                Ok(())
            }
        )*}
    };
}

provider_options! {
    OrtTensorRTProviderOptionsV2 = "TensorRT": CreateTensorRTProviderOptions
        UpdateTensorRTProviderOptions GetTensorRTProviderOptionsAsString ReleaseTensorRTProviderOptions;
    OrtCUDAProviderOptionsV2 = "CUDA": CreateCUDAProviderOptions
        UpdateCUDAProviderOptions GetCUDAProviderOptionsAsString ReleaseCUDAProviderOptions;
    OrtCANNProviderOptions = "CANN": CreateCANNProviderOptions
        UpdateCANNProviderOptions GetCANNProviderOptionsAsString ReleaseCANNProviderOptions;
    OrtDnnlProviderOptions = "DNNL": CreateDnnlProviderOptions
        UpdateDnnlProviderOptions GetDnnlProviderOptionsAsString ReleaseDnnlProviderOptions;
    OrtROCMProviderOptions = "ROCM": CreateROCMProviderOptions
        UpdateROCMProviderOptions GetROCMProviderOptionsAsString ReleaseROCMProviderOptions;
}

export! {
    fn UpdateTensorRTProviderOptionsWithValue(
        _options: *mut OrtTensorRTProviderOptionsV2,
        _key: *const c_char,
        _value: *mut c_void,
    ) {
        Err(missing("TensorRT"))
    }

    fn GetTensorRTProviderOptionsByName(
        _options: *const OrtTensorRTProviderOptionsV2,
        _key: *const c_char,
        _ptr: *mut *mut c_void,
    ) {
        Err(missing("TensorRT"))
    }

    fn UpdateCUDAProviderOptionsWithValue(
        _options: *mut OrtCUDAProviderOptionsV2,
        _key: *const c_char,
        _value: *mut c_void,
    ) {
        Err(missing("CUDA"))
    }

    fn GetCUDAProviderOptionsByName(
        _options: *const OrtCUDAProviderOptionsV2,
        _key: *const c_char,
        _ptr: *mut *mut c_void,
    ) {
        Err(missing("CUDA"))
    }

    fn SetCurrentGpuDeviceId(_device_id: i32) {
        Err(missing("CUDA"))
    }

    fn GetCurrentGpuDeviceId(_device_id: Out<'_, i32>) {
        Err(missing("CUDA"))
    }

    fn SessionOptionsAppendExecutionProvider(
        _options: &mut SessionOptions,
        provider_name: &str,
        _provider_options_keys: *const *const c_char,
        _provider_options_values: *const *const c_char,
        _num_keys: usize,
    ) {
        expect_known(provider_name)
    }

    fn SessionOptionsAppendExecutionProvider_OpenVINO_V2(
        _options: &mut SessionOptions,
        _provider_options_keys: *const *const c_char,
        _provider_options_values: *const *const c_char,
        _num_keys: usize,
    ) {
        Err(missing("OpenVINO"))
    }

    fn SessionOptionsAppendExecutionProvider_VitisAI(
        _options: &mut SessionOptions,
        _provider_options_keys: *const *const c_char,
        _provider_options_values: *const *const c_char,
        _num_keys: usize,
    ) {
        Err(missing("VitisAI"))
    }

    fn SessionOptionsAppendExecutionProvider_V2(
        _session_options: &mut SessionOptions,
        _env: Shared<'_, Env>,
        _ep_devices: *const *const OrtEpDevice,
        _num_ep_devices: usize,
        _ep_option_keys: *const *const c_char,
        _ep_option_vals: *const *const c_char,
        _num_ep_options: usize,
    ) {
        Err(no_device())
    }

    fn GetExecutionProviderApi(
        provider_name: &str,
        _version: u32,
        _provider_api: Out<'_, *const c_void>,
    ) {
        Err(missing(provider_name))
    }

    /// Accepted; there is one provider.
    fn SessionOptionsSetEpSelectionPolicy(_session_options: &mut SessionOptions, _policy: i32) {
        Ok(())
    }

    /// Accepted and never called; there is one provider.
    fn SessionOptionsSetEpSelectionPolicyDelegate(
        _session_options: &mut SessionOptions,
        _delegate: EpSelectionDelegate,
        _delegate_state: *mut c_void,
    ) {
        Ok(())
    }

    /// Accepted and never called; no provider here stores a context in the model.
    fn SessionOptionsSetEpContextDataReadFunc(
        _options: &mut SessionOptions,
        _read_func: OrtReadNamedBufferFunc,
        _state: *mut c_void,
    ) {
        Ok(())
    }

    /// Accepted; the CPU provider has no such options.
    fn SetEpDynamicOptions(
        _sess: Shared<'_, Session>,
        _keys: *const *const c_char,
        _values: *const *const c_char,
        _kv_len: usize,
    ) {
        Ok(())
    }

    /// Accepted; only GPUs capture graphs.
    fn SessionReleaseCapturedGraph(_session: Shared<'_, Session>, _graph_annotation_id: i32) {
        Ok(())
    }

    /// Rejected: providers are written in Rust, against `ExecutionProvider` of ort-session.
    fn RegisterExecutionProviderLibrary(
        _env: Shared<'_, Env>,
        registration_name: &str,
        _path: &std::path::Path,
    ) {
        Err(Error::fail(format!("{registration_name}: provider libraries are not supported")))
    }

    /// Rejected: none was registered.
    fn UnregisterExecutionProviderLibrary(_env: Shared<'_, Env>, registration_name: &str) {
        Err(Error::fail(format!("no library was registered as {registration_name}")))
    }

    /// None; the pointer is not null, so that programs may make a slice of it.
    fn GetEpDevices(
        _env: &Env,
        ep_devices: Out<'_, *const *const OrtEpDevice>,
        num_ep_devices: Out<'_, usize>,
    ) {
        ep_devices.set(std::ptr::dangling());
        num_ep_devices.set(0);
        Ok(())
    }

    /// None.
    fn GetNumHardwareDevices(_env: &Env, num_devices: Out<'_, usize>) {
        num_devices.set(0);
        Ok(())
    }

    /// None.
    fn GetHardwareDevices(
        _env: &Env,
        _devices: Outs<'_, *const OrtHardwareDevice>[num_devices],
        num_devices: usize,
    ) {
        match num_devices {
            0 => Ok(()),
            _ => Err(Error::argument("num_devices", "is not the number of devices, 0")),
        }
    }

    fn GetModelCompatibilityForEpDevices(
        _ep_devices: *const *const OrtEpDevice,
        _num_ep_devices: usize,
        _compatibility_info: *const c_char,
        _out_status: Out<'_, OrtCompiledModelCompatibility>,
    ) {
        Err(no_device())
    }
}
