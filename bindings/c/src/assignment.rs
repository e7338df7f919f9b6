//! `OrtEpAssignedSubgraph`: which provider runs which nodes. The CPU provider runs all, one by one.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::{CString, c_char};
use std::sync::atomic::AtomicPtr;

use ort_session::Session as Built;
use ort_sys::{OrtEpAssignedNode, OrtEpAssignedSubgraph};

use crate::error::{Error, text};
use crate::ffi::{Handle, Out, export, opaque};
use crate::providers::AVAILABLE;
use crate::session::Session;

/// The entry of session options with which assignments are recorded.
pub(crate) const KEY: &str = "session.record_ep_graph_assignment_info";

/// A node of the optimized graph.
#[derive(Debug)]
pub(crate) struct AssignedNode {
    name: CString,
    domain: CString,
    op_type: CString,
}

/// A node, as a subgraph.
#[derive(Debug)]
pub(crate) struct AssignedSubgraph {
    ep: CString,
    nodes: Pointers<OrtEpAssignedNode>,
}

/// An array of pointers for C, which threads share.
type Pointers<T> = Box<[AtomicPtr<T>]>;

/// The nodes of a session. The pointers lead into the slices.
#[derive(Debug)]
pub(crate) struct Assignments {
    #[expect(dead_code, reason = "the subgraphs point to them")]
    nodes: Box<[AssignedNode]>,
    subgraphs: Box<[AssignedSubgraph]>,
    pointers: Pointers<OrtEpAssignedSubgraph>,
}

fn pointers<'a, T: Handle + 'a>(objects: impl IntoIterator<Item = &'a T>) -> Pointers<T::Opaque> {
    objects.into_iter().map(|it| AtomicPtr::new(opaque(it).cast_mut())).collect()
}

impl Assignments {
    pub(crate) fn of(session: &Built) -> Self {
        let nodes = session.nodes().map(|node| AssignedNode {
            name: text(&node.name),
            domain: text(&node.domain),
            op_type: text(&node.op_type),
        });
        let nodes: Box<[AssignedNode]> = nodes.collect();
        let subgraph = |node| AssignedSubgraph { ep: text(AVAILABLE[0]), nodes: pointers([node]) };
        let subgraphs: Box<[AssignedSubgraph]> = nodes.iter().map(subgraph).collect();
        let pointers = pointers(&subgraphs);
        Self { nodes, subgraphs, pointers }
    }
}

export! {
    /// The objects live as long as the session.
    fn Session_GetEpGraphAssignmentInfo(
        session: &Session,
        ep_subgraphs: Out<'_, *const *const OrtEpAssignedSubgraph>,
        num_ep_subgraphs: Out<'_, usize>,
    ) {
        session.ready()?;
        let none = || Error::fail(format!("the entry {KEY} of the session's options must be 1"));
        let assignments = session.assignments.as_ref().ok_or_else(none)?;
        ep_subgraphs.set(assignments.pointers.as_ptr().cast());
        num_ep_subgraphs.set(assignments.subgraphs.len());
        Ok(())
    }

    fn EpAssignedSubgraph_GetEpName(
        ep_subgraph: &AssignedSubgraph,
        out: Out<'_, *const c_char>,
    ) {
        out.set(ep_subgraph.ep.as_ptr());
        Ok(())
    }

    fn EpAssignedSubgraph_GetNodes(
        ep_subgraph: &AssignedSubgraph,
        ep_nodes: Out<'_, *const *const OrtEpAssignedNode>,
        num_ep_nodes: Out<'_, usize>,
    ) {
        ep_nodes.set(ep_subgraph.nodes.as_ptr().cast());
        num_ep_nodes.set(ep_subgraph.nodes.len());
        Ok(())
    }

    fn EpAssignedNode_GetName(ep_node: &AssignedNode, out: Out<'_, *const c_char>) {
        out.set(ep_node.name.as_ptr());
        Ok(())
    }

    fn EpAssignedNode_GetDomain(ep_node: &AssignedNode, out: Out<'_, *const c_char>) {
        out.set(ep_node.domain.as_ptr());
        Ok(())
    }

    fn EpAssignedNode_GetOperatorType(ep_node: &AssignedNode, out: Out<'_, *const c_char>) {
        out.set(ep_node.op_type.as_ptr());
        Ok(())
    }
}
