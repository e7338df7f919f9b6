//! Devices, assignments of nodes, and copies.

use std::ptr::{null, null_mut};

use onnxruntime::ort_sys::{
    OrtCompiledModelCompatibility, OrtErrorCode, OrtHardwareDeviceType, OrtSessionOptions,
};

use crate::call::{self, call, empty, failed, from_allocator, made, ok, rejected};
use crate::{MODEL, env, model, numbers, session_with, tensor};

#[test]
fn the_cpu_is_the_only_device() {
    let (env, mut devices, mut n) = (env().cast_const(), null(), 0);
    ok(call!(GetEpDevices(env, &raw mut devices, &raw mut n)));
    assert_eq!(n, 1);
    let device = call::items(devices, n)[0];
    assert_eq!(call::text(call!(EpDevice_EpName(device))), "CPUExecutionProvider");
    assert_eq!(call::text(call!(EpDevice_EpVendor(device))), "ort-rs");
    let metadata = call!(EpDevice_EpMetadata(device));
    let version = call!(GetKeyValue(metadata, c"version".as_ptr()));
    assert!(call::text(version).starts_with("1."));
    assert!(!call!(EpDevice_EpOptions(device)).is_null());
    let hardware = call!(EpDevice_Device(device));
    assert!(matches!(
        call!(HardwareDevice_Type(hardware)),
        OrtHardwareDeviceType::OrtHardwareDeviceType_CPU
    ));
    assert!(!call!(HardwareDevice_Vendor(hardware)).is_null());
    assert!(!call!(HardwareDevice_Metadata(hardware)).is_null());
    assert_eq!(call!(HardwareDevice_DeviceId(hardware)), 0);
    assert!(matches!(call!(HardwareDevice_VendorId(hardware)), 0 | 0x8086 | 0x1022));
    assert_eq!(made!(GetNumHardwareDevices(env)), 1);
    let mut all = [null()];
    ok(call!(GetHardwareDevices(env, all.as_mut_ptr(), 1)));
    assert_eq!(all, [hardware]);
    rejected(call!(GetHardwareDevices(env, all.as_mut_ptr(), 0)), "num_devices");
    assert!(call!(EpDevice_EpName(null())).is_null());
}

#[test]
fn sessions_are_created_for_the_cpu_device() {
    let (env, options, mut devices, mut n) = (env(), made!(CreateSessionOptions()), null(), 0);
    ok(call!(GetEpDevices(env, &raw mut devices, &raw mut n)));
    let append = |n| {
        let (none, options) = (null(), options);
        call!(SessionOptionsAppendExecutionProvider_V2(options, env, devices, n, none, none, 0))
    };
    ok(append(1));
    rejected(append(0), "num_ep_devices");
    call!(ReleaseSession(session_with(&model(MODEL), options)));
    call!(ReleaseSessionOptions(options));
    let info = c"none".as_ptr();
    let status = made!(GetModelCompatibilityForEpDevices(devices, 1, info));
    assert_eq!(status, OrtCompiledModelCompatibility::EP_NOT_APPLICABLE);
    let hardware = call!(EpDevice_Device(call::items(devices, 1)[0]));
    let details =
        |name, out| call!(GetHardwareDeviceEpIncompatibilityDetails(env, name, hardware, out));
    let mut found = null_mut();
    ok(details(c"CPUExecutionProvider".as_ptr(), &raw mut found));
    assert_eq!(made!(DeviceEpIncompatibilityDetails_GetReasonsBitmask(found)), 0);
    assert_eq!(made!(DeviceEpIncompatibilityDetails_GetErrorCode(found)), 0);
    assert!(made!(DeviceEpIncompatibilityDetails_GetNotes(found)).is_null());
    call!(ReleaseDeviceEpIncompatibilityDetails(found));
    let (code, _) = failed(details(c"CUDAExecutionProvider".as_ptr(), &raw mut found));
    assert_eq!(code, OrtErrorCode::ORT_FAIL);
}

#[test]
fn a_model_states_its_compatibility_in_its_metadata() {
    let (bytes, allocator) = (model(MODEL), made!(GetAllocatorWithDefaultOptions()));
    let (data, n) = (bytes.as_ptr().cast(), bytes.len());
    let ep = c"SomeExecutionProvider".as_ptr();
    assert!(made!(GetCompatibilityInfoFromModelBytes(data, n, ep, allocator)).is_null());
    let mut none = null_mut();
    let of_bytes =
        |data, n, out| call!(GetCompatibilityInfoFromModelBytes(data, n, ep, allocator, out));
    rejected(of_bytes(null(), 0, &raw mut none), "model_data_length");
    let path = c"/no/such/model".as_ptr().cast();
    failed(call!(GetCompatibilityInfoFromModel(path, ep, allocator, &raw mut none)));
    let stated = crate::model_stating("ep_compatibility_info.SomeExecutionProvider", "v2");
    let (data, n) = (stated.as_ptr().cast(), stated.len());
    let found = made!(GetCompatibilityInfoFromModelBytes(data, n, ep, allocator));
    assert_eq!(from_allocator(found), "v2");
}

#[test]
fn all_nodes_are_assigned_to_the_cpu_provider() {
    let options = made!(CreateSessionOptions());
    let session = session_with(&model(MODEL), null::<OrtSessionOptions>());
    let (mut subgraphs, mut n) = (null(), 0);
    let status = call!(Session_GetEpGraphAssignmentInfo(session, &raw mut subgraphs, &raw mut n));
    assert!(failed(status).1.contains("record_ep_graph_assignment_info"));
    call!(ReleaseSession(session));
    let key = c"session.record_ep_graph_assignment_info".as_ptr();
    ok(call!(AddSessionConfigEntry(options, key, c"1".as_ptr())));
    let session = session_with(&model(MODEL), options);
    call!(ReleaseSessionOptions(options));
    ok(call!(Session_GetEpGraphAssignmentInfo(session, &raw mut subgraphs, &raw mut n)));
    let mut operators = Vec::new();
    for &subgraph in call::items(subgraphs, n) {
        let provider = made!(EpAssignedSubgraph_GetEpName(subgraph));
        assert_eq!(call::text(provider), "CPUExecutionProvider");
        let (mut nodes, mut n_nodes) = (null(), 0);
        ok(call!(EpAssignedSubgraph_GetNodes(subgraph, &raw mut nodes, &raw mut n_nodes)));
        for &node in call::items(nodes, n_nodes) {
            assert_eq!(call::text(made!(EpAssignedNode_GetDomain(node))), "");
            assert_eq!(call::text(made!(EpAssignedNode_GetName(node))), "");
            operators.push(call::text(made!(EpAssignedNode_GetOperatorType(node))));
        }
    }
    operators.sort();
    assert_eq!(operators, ["Add", "Neg"]);
    call!(ReleaseSession(session));
}

#[test]
fn tensors_are_copied() {
    let (mut from, mut to, mut other) = ([1.0_f32, 2.0], [0.0_f32; 2], [0.0_f32; 3]);
    let (from, to) = (tensor(&mut from, &[2]), tensor(&mut to, &[2]));
    let other = tensor(&mut other, &[3]);
    let copy = |from: *const _, to: *const _, stream| {
        let (from, mut to) = ([from], [to]);
        call!(CopyTensors(env(), from.as_ptr(), to.as_mut_ptr(), stream, 1))
    };
    ok(copy(from.cast_const(), to.cast_const(), null_mut()));
    assert_eq!(numbers(to), [1.0, 2.0]);
    ok(copy(from.cast_const(), from.cast_const(), null_mut()));
    rejected(copy(from.cast_const(), other.cast_const(), null_mut()), "dst_tensors");
    rejected(copy(null(), to.cast_const(), null_mut()), "src_tensors");
    rejected(copy(from.cast_const(), null(), null_mut()), "dst_tensors");
    let mut stream: [u8; 1] = empty();
    rejected(copy(from.cast_const(), to.cast_const(), stream.as_mut_ptr().cast()), "stream");
    [from, to, other].into_iter().for_each(|value| call!(ReleaseValue(value)));
}
