//! `OrtKernelInfo`: the node that a kernel of a custom operator is created for.

#![expect(non_snake_case, reason = "names of the C API")]

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::sync::Arc;

use ort_session::Type;
use ort_session::provider::{Attrs, Claim, Graph, Node, ValueId};
use ort_sys::{OrtAllocator, OrtValue};

use crate::error::Error;
use crate::ffi::{Out, OutHandle, OutRef, Room, default_allocator, export, opaque};
use crate::kernel_logger::KernelLogger;
use crate::key_values::KeyValues;
use crate::type_info::TypeInfo;
use crate::value::Value;

/// A node, as its kernel sees it. Copies share it.
#[derive(Clone, Debug)]
pub(crate) struct KernelInfo(Arc<Info>);

#[derive(Debug)]
struct Info {
    name: String,
    domain: String,
    op_type: String,
    since_version: i32,
    attrs: Attrs,
    inputs: Vec<Edge>,
    outputs: Vec<Edge>,
    session: Arc<OfSession>,
}

/// An input or output of the node; without a name if it is absent.
#[derive(Debug, Default)]
struct Edge {
    name: String,
    ty: Type,
    constant: Option<Value>,
}

/// What kernels see of their session.
#[derive(Debug)]
pub(crate) struct OfSession {
    pub(crate) logger: KernelLogger,
    pub(crate) entries: BTreeMap<String, String>,
}

impl KernelInfo {
    pub(crate) fn new(
        graph: &Graph,
        claim: &Claim,
        node: &Node,
        session: Arc<OfSession>,
    ) -> Result<Self, Error> {
        let edge = |id: &Option<ValueId>| {
            let Some(id) = *id else { return Ok(Edge::default()) };
            let (value, constant) = (graph.value(id), graph.constant(id));
            let constant = constant.map(|tensor| Value::of_constant(tensor.clone())).transpose()?;
            Ok(Edge { name: value.name.clone(), ty: value.fact.ty.clone(), constant })
        };
        Ok(Self(Arc::new(Info {
            name: node.name.clone(),
            domain: node.domain.clone(),
            op_type: node.op_type.clone(),
            since_version: node.since_version,
            attrs: node.attrs.clone(),
            inputs: claim.inputs.iter().map(edge).collect::<Result<_, Error>>()?,
            outputs: claim.outputs.iter().map(edge).collect::<Result<_, Error>>()?,
            session,
        })))
    }

    pub(crate) fn attrs(&self) -> &Attrs {
        &self.0.attrs
    }

    pub(crate) fn logger(&self) -> &KernelLogger {
        &self.0.session.logger
    }

    pub(crate) fn constant(&self, index: usize) -> Option<&Value> {
        self.0.inputs.get(index)?.constant.as_ref()
    }
}

fn at(edges: &[Edge], index: usize) -> Result<&Edge, Error> {
    let none = || Error::argument("index", format!("is {index}, and there are {}", edges.len()));
    edges.get(index).ok_or_else(none)
}

export! {
    fn CopyKernelInfo(info: &KernelInfo, info_copy: OutHandle<'_, KernelInfo>) {
        info_copy.set(info.clone());
        Ok(())
    }

    fn ReleaseKernelInfo(info: Option<Box<KernelInfo>>) -> () = (); {
        drop(info);
        Ok(())
    }

    fn KernelInfo_GetInputCount(info: &KernelInfo, out: Out<'_, usize>) {
        out.set(info.0.inputs.len());
        Ok(())
    }

    fn KernelInfo_GetOutputCount(info: &KernelInfo, out: Out<'_, usize>) {
        out.set(info.0.outputs.len());
        Ok(())
    }

    fn KernelInfo_GetInputName(
        info: &KernelInfo,
        index: usize,
        out: Room<'_, c_char>,
        size: Out<'_, usize>,
    ) {
        out.text(&at(&info.0.inputs, index)?.name, size)
    }

    fn KernelInfo_GetOutputName(
        info: &KernelInfo,
        index: usize,
        out: Room<'_, c_char>,
        size: Out<'_, usize>,
    ) {
        out.text(&at(&info.0.outputs, index)?.name, size)
    }

    fn KernelInfo_GetInputTypeInfo(
        info: &KernelInfo,
        index: usize,
        type_info: OutHandle<'_, TypeInfo>,
    ) {
        type_info.set(TypeInfo::of(&at(&info.0.inputs, index)?.ty));
        Ok(())
    }

    fn KernelInfo_GetOutputTypeInfo(
        info: &KernelInfo,
        index: usize,
        type_info: OutHandle<'_, TypeInfo>,
    ) {
        type_info.set(TypeInfo::of(&at(&info.0.outputs, index)?.ty));
        Ok(())
    }

    /// The value lives as long as the kernel. It must not be written to.
    fn KernelInfoGetConstantInput_tensor(
        info: &KernelInfo,
        index: usize,
        is_constant: Out<'_, i32>,
        out: Out<'_, *const OrtValue>,
    ) {
        let constant = at(&info.0.inputs, index)?.constant.as_ref();
        is_constant.set(constant.is_some().into());
        out.set(constant.map_or(std::ptr::null(), opaque));
        Ok(())
    }

    fn KernelInfo_GetNodeName(info: &KernelInfo, out: Room<'_, c_char>, size: Out<'_, usize>) {
        out.text(&info.0.name, size)
    }

    fn KernelInfo_GetOperatorDomain(
        info: &KernelInfo,
        out: Room<'_, c_char>,
        size: Out<'_, usize>,
    ) {
        out.text(&info.0.domain, size)
    }

    fn KernelInfo_GetOperatorType(info: &KernelInfo, out: Room<'_, c_char>, size: Out<'_, usize>) {
        out.text(&info.0.op_type, size)
    }

    fn KernelInfo_GetOperatorSinceVersion(info: &KernelInfo, since_version: Out<'_, i32>) {
        since_version.set(info.0.since_version);
        Ok(())
    }

    /// The entries of the session's options.
    fn KernelInfo_GetConfigEntries(info: &KernelInfo, out: OutHandle<'_, KeyValues>) {
        let mut entries = KeyValues::default();
        info.0.session.entries.iter().for_each(|(key, value)| entries.set(key, value));
        out.set(entries);
        Ok(())
    }

    fn KernelInfo_GetLogger(info: &KernelInfo, logger: OutRef<'_, KernelLogger>) {
        logger.set(info.logger());
        Ok(())
    }

    /// The only allocator.
    fn KernelInfoGetAllocator(
        _info: &KernelInfo,
        _mem_type: i32,
        out: Out<'_, *mut OrtAllocator>,
    ) {
        out.set(default_allocator().as_ptr());
        Ok(())
    }
}
