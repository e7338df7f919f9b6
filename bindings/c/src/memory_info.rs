//! `OrtMemoryInfo`: where memory is. Programs may describe other devices as well, but no value is on one.

#![expect(non_snake_case, reason = "names of the C API")]

use std::borrow::Cow;
use std::ffi::{CStr, c_char};

use ort_sys::{
    OrtAllocatorType, OrtDeviceMemoryType, OrtMemType, OrtMemoryInfoDeviceType as DeviceType,
};

use crate::error::{Error, text};
use crate::ffi::{Out, OutHandle, export};

/// A device's memory and its allocator.
#[derive(Debug, PartialEq)]
pub(crate) struct MemoryInfo {
    name: Cow<'static, CStr>,
    allocator: OrtAllocatorType,
    device_id: i32,
    device_type: DeviceType,
    mem_type: OrtMemType,
}

/// The memory of all values.
pub(crate) static CPU: MemoryInfo = MemoryInfo {
    name: Cow::Borrowed(c"Cpu"),
    allocator: OrtAllocatorType::OrtDeviceAllocator,
    device_id: 0,
    device_type: DeviceType::OrtMemoryInfoDeviceType_CPU,
    mem_type: OrtMemType::OrtMemTypeDefault,
};

impl MemoryInfo {
    fn new(name: &str, allocator: i32, device_id: i32, mem_type: i32) -> Result<Self, Error> {
        let allocator = match allocator {
            -1 => OrtAllocatorType::OrtInvalidAllocator,
            0 => OrtAllocatorType::OrtDeviceAllocator,
            1 => OrtAllocatorType::OrtArenaAllocator,
            2 => OrtAllocatorType::OrtReadOnlyAllocator,
            other => {
                return Err(Error::argument(
                    "type",
                    format!("is {other}, which is not an allocator type"),
                ));
            }
        };
        let mem_type = match mem_type {
            -2 => OrtMemType::OrtMemTypeCPUInput,
            -1 => OrtMemType::OrtMemTypeCPUOutput,
            0 => OrtMemType::OrtMemTypeDefault,
            other => {
                return Err(Error::argument(
                    "mem_type",
                    format!("is {other}, which is not a memory type"),
                ));
            }
        };
        let device_type = match name {
            "Cpu" => DeviceType::OrtMemoryInfoDeviceType_CPU,
            _ => DeviceType::OrtMemoryInfoDeviceType_GPU,
        };
        Ok(Self { name: Cow::Owned(text(name)), allocator, device_id, device_type, mem_type })
    }

    /// An error unless it is the CPU's.
    pub(crate) fn expect_cpu(&self) -> Result<(), Error> {
        match self.device_type {
            DeviceType::OrtMemoryInfoDeviceType_CPU => Ok(()),
            _ => Err(Error::not_implemented(format!(
                "memory of `{}` is not supported",
                self.name.to_string_lossy()
            ))),
        }
    }
}

export! {
    fn CreateMemoryInfo(
        name: &str,
        type_: i32,
        id: i32,
        mem_type: i32,
        out: OutHandle<'_, MemoryInfo>,
    ) {
        out.set(MemoryInfo::new(name, type_, id, mem_type)?);
        Ok(())
    }

    fn CreateMemoryInfo_V2(
        name: &str,
        device_type: i32,
        _vendor_id: u32,
        device_id: i32,
        _mem_type: i32,
        _alignment: usize,
        allocator_type: i32,
        out: OutHandle<'_, MemoryInfo>,
    ) {
        let device_type = match device_type {
            0 => DeviceType::OrtMemoryInfoDeviceType_CPU,
            1 => DeviceType::OrtMemoryInfoDeviceType_GPU,
            2 => DeviceType::OrtMemoryInfoDeviceType_FPGA,
            3 => DeviceType::OrtMemoryInfoDeviceType_NPU,
            other => return Err(Error::argument("device_type", format!("is {other}, which is not a device type"))),
        };
        out.set(MemoryInfo { device_type, ..MemoryInfo::new(name, allocator_type, device_id, 0)? });
        Ok(())
    }

    fn CreateCpuMemoryInfo(type_: i32, mem_type: i32, out: OutHandle<'_, MemoryInfo>) {
        out.set(MemoryInfo::new("Cpu", type_, 0, mem_type)?);
        Ok(())
    }

    fn CompareMemoryInfo(info1: &MemoryInfo, info2: &MemoryInfo, out: Out<'_, i32>) {
        out.set(if info1 == info2 { 0 } else { -1 });
        Ok(())
    }

    fn MemoryInfoGetName(ptr: &MemoryInfo, out: Out<'_, *const c_char>) {
        out.set(ptr.name.as_ptr());
        Ok(())
    }

    fn MemoryInfoGetId(ptr: &MemoryInfo, out: Out<'_, i32>) {
        out.set(ptr.device_id);
        Ok(())
    }

    fn MemoryInfoGetMemType(ptr: &MemoryInfo, out: Out<'_, OrtMemType>) {
        out.set(ptr.mem_type);
        Ok(())
    }

    fn MemoryInfoGetType(ptr: &MemoryInfo, out: Out<'_, OrtAllocatorType>) {
        out.set(ptr.allocator);
        Ok(())
    }

    fn MemoryInfoGetDeviceType(
        ptr: &MemoryInfo,
        out: Out<'_, DeviceType>,
    ) -> () = (); {
        out.set(ptr.device_type);
        Ok(())
    }

    fn MemoryInfoGetDeviceMemType(
        _ptr: &MemoryInfo,
    ) -> OrtDeviceMemoryType = OrtDeviceMemoryType::OrtDeviceMemoryType_DEFAULT; {
        Ok(OrtDeviceMemoryType::OrtDeviceMemoryType_DEFAULT)
    }

    fn MemoryInfoGetVendorId(_ptr: &MemoryInfo) -> u32 = 0; {
        Ok(0)
    }

    fn ReleaseMemoryInfo(info: Option<Box<MemoryInfo>>) -> () = (); {
        drop(info);
        Ok(())
    }
}
