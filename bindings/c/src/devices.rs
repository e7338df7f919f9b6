//! `OrtEpDevice` and `OrtHardwareDevice`: the CPU, which is the only device.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr::{null, null_mut};

use ort_session::{ModelInfo, SessionBuilder};
use ort_sys::{
    OrtCompiledModelCompatibility, OrtEpDevice, OrtHardwareDevice, OrtHardwareDeviceType,
    OrtKeyValuePairs,
};

use crate::env::Env;
use crate::error::{Error, text};
use crate::ffi::{Allocator, Memory, Out, OutHandle, Outs, Shared, export, opaque};
use crate::key_values::KeyValues;
use crate::providers::expect_known;
use crate::session_options::SessionOptions;
use crate::table::VERSION;

/// The name of the provider.
const NAME: &CStr = c"CPUExecutionProvider";

/// What a model's metadata has before the name of a provider that it was compiled for.
const COMPATIBILITY: &str = "ep_compatibility_info.";

/// A processor.
#[derive(Debug)]
pub(crate) struct HardwareDevice {
    vendor: CString,
    vendor_id: u32,
    metadata: KeyValues,
}

/// A provider on a processor.
#[derive(Debug)]
pub(crate) struct EpDevice {
    metadata: KeyValues,
    options: KeyValues,
    hardware: HardwareDevice,
}

/// The devices of an environment, and the array of them that programs get.
#[derive(Debug)]
pub(crate) struct Devices {
    cpu: Box<EpDevice>,
    array: [*const OrtEpDevice; 1],
}

/// Why a provider cannot use a device: nothing, since only the CPU can be asked for.
#[derive(Debug)]
pub(crate) struct Incompatibility;

impl Default for Devices {
    fn default() -> Self {
        let mut metadata = KeyValues::default();
        metadata.set("version", VERSION.to_str().unwrap_or_default());
        let (name, vendor_id) = vendor();
        let hardware =
            HardwareDevice { vendor: text(&name), vendor_id, metadata: KeyValues::default() };
        let cpu = Box::new(EpDevice { metadata, options: KeyValues::default(), hardware });
        let array = [opaque(&*cpu)];
        Self { cpu, array }
    }
}

/// The processor's vendor, and its number in PCI's list; unknown where the system does not tell.
fn vendor() -> (String, u32) {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("vendor_id")?.split_once(':'));
    let name = line.map_or("", |(_, name)| name.trim());
    let id = match name {
        "GenuineIntel" => 0x8086,
        "AuthenticAMD" => 0x1022,
        _ => 0,
    };
    (name.to_owned(), id)
}

/// What a model says about its compatibility with a provider; null if nothing.
fn compatibility(
    info: &ModelInfo,
    ep_type: &str,
    allocator: Allocator<'_>,
) -> Result<*mut c_char, Error> {
    let key = format!("{COMPATIBILITY}{ep_type}");
    let found = info.metadata.iter().find(|(other, _)| *other == key);
    found.map_or(Ok(null_mut()), |(_, value)| allocator.text(value))
}

export! {
    /// The devices live as long as the environment.
    fn GetEpDevices(
        env: &Env,
        ep_devices: Out<'_, *const *const OrtEpDevice>,
        num_ep_devices: Out<'_, usize>,
    ) {
        ep_devices.set(env.devices.array.as_ptr());
        num_ep_devices.set(env.devices.array.len());
        Ok(())
    }

    fn GetNumHardwareDevices(_env: &Env, num_devices: Out<'_, usize>) {
        num_devices.set(1);
        Ok(())
    }

    /// The devices live as long as the environment.
    fn GetHardwareDevices(
        env: &Env,
        devices: Outs<'_, *const OrtHardwareDevice>[num_devices],
        num_devices: usize,
    ) {
        if num_devices != 1 {
            return Err(Error::argument("num_devices", "is not the number of devices, 1"));
        }
        devices.fill([opaque(&env.devices.cpu.hardware)]);
        Ok(())
    }

    fn HardwareDevice_Type(
        _device: &HardwareDevice,
    ) -> OrtHardwareDeviceType = OrtHardwareDeviceType::OrtHardwareDeviceType_CPU; {
        Ok(OrtHardwareDeviceType::OrtHardwareDeviceType_CPU)
    }

    fn HardwareDevice_VendorId(device: &HardwareDevice) -> u32 = 0; {
        Ok(device.vendor_id)
    }

    fn HardwareDevice_Vendor(device: &HardwareDevice) -> *const c_char = null(); {
        Ok(device.vendor.as_ptr())
    }

    /// Processors have no number.
    fn HardwareDevice_DeviceId(_device: &HardwareDevice) -> u32 = 0; {
        Ok(0)
    }

    fn HardwareDevice_Metadata(device: &HardwareDevice) -> *const OrtKeyValuePairs = null(); {
        Ok(opaque(&device.metadata))
    }

    fn EpDevice_EpName(_ep_device: &EpDevice) -> *const c_char = null(); {
        Ok(NAME.as_ptr())
    }

    fn EpDevice_EpVendor(_ep_device: &EpDevice) -> *const c_char = null(); {
        Ok(c"ort-rs".as_ptr())
    }

    fn EpDevice_EpMetadata(ep_device: &EpDevice) -> *const OrtKeyValuePairs = null(); {
        Ok(opaque(&ep_device.metadata))
    }

    fn EpDevice_EpOptions(ep_device: &EpDevice) -> *const OrtKeyValuePairs = null(); {
        Ok(opaque(&ep_device.options))
    }

    fn EpDevice_Device(ep_device: &EpDevice) -> *const OrtHardwareDevice = null(); {
        Ok(opaque(&ep_device.hardware))
    }

    /// The CPU provider is always used.
    fn SessionOptionsAppendExecutionProvider_V2(
        _session_options: &mut SessionOptions,
        _env: Shared<'_, Env>,
        ep_devices: Vec<&EpDevice>[num_ep_devices],
        num_ep_devices: usize,
        ep_option_keys: Vec<&str>[num_ep_options],
        ep_option_vals: Vec<&str>[num_ep_options],
        num_ep_options: usize,
    ) {
        let _ = (num_ep_devices, num_ep_options, ep_option_keys, ep_option_vals);
        match ep_devices.is_empty() {
            true => Err(Error::argument("num_ep_devices", "is 0: a provider needs a device")),
            false => Ok(()),
        }
    }

    /// The CPU provider compiles no models that only some devices run, and says so, as onnxruntime's does.
    fn GetModelCompatibilityForEpDevices(
        ep_devices: Vec<&EpDevice>[num_ep_devices],
        num_ep_devices: usize,
        _compatibility_info: &str,
        out_status: Out<'_, OrtCompiledModelCompatibility>,
    ) {
        let _ = num_ep_devices;
        if ep_devices.is_empty() {
            return Err(Error::argument("num_ep_devices", "is 0"));
        }
        out_status.set(OrtCompiledModelCompatibility::EP_NOT_APPLICABLE);
        Ok(())
    }

    fn GetHardwareDeviceEpIncompatibilityDetails(
        _env: &Env,
        ep_name: &str,
        _hw: &HardwareDevice,
        details: OutHandle<'_, Incompatibility>,
    ) {
        expect_known(ep_name)?;
        details.set(Incompatibility);
        Ok(())
    }

    /// No reason.
    fn DeviceEpIncompatibilityDetails_GetReasonsBitmask(
        _details: &Incompatibility,
        reasons_bitmask: Out<'_, u32>,
    ) {
        reasons_bitmask.set(0);
        Ok(())
    }

    /// Null: there is nothing to note.
    fn DeviceEpIncompatibilityDetails_GetNotes(
        _details: &Incompatibility,
        notes: Out<'_, *const c_char>,
    ) {
        notes.set(null());
        Ok(())
    }

    fn DeviceEpIncompatibilityDetails_GetErrorCode(
        _details: &Incompatibility,
        error_code: Out<'_, i32>,
    ) {
        error_code.set(0);
        Ok(())
    }

    fn ReleaseDeviceEpIncompatibilityDetails(details: Option<Box<Incompatibility>>) -> () = (); {
        drop(details);
        Ok(())
    }

    /// Null if the model's metadata does not say.
    fn GetCompatibilityInfoFromModel(
        model_path: &Path,
        ep_type: &str,
        allocator: Allocator<'_>,
        compatibility_info: Out<'_, *mut c_char>,
    ) {
        let model = SessionBuilder::default().read_model_from_file(model_path)?;
        compatibility_info.set(compatibility(&model.info, ep_type, allocator)?);
        Ok(())
    }

    /// The same for bytes.
    fn GetCompatibilityInfoFromModelBytes(
        model_data: Memory<'_>[model_data_length],
        model_data_length: usize,
        ep_type: &str,
        allocator: Allocator<'_>,
        compatibility_info: Out<'_, *mut c_char>,
    ) {
        if model_data_length == 0 {
            return Err(Error::argument("model_data_length", "is 0"));
        }
        let model = SessionBuilder::default().read_model(model_data.to_model_bytes()?)?;
        compatibility_info.set(compatibility(&model.info, ep_type, allocator)?);
        Ok(())
    }
}
