//! Reading of graphs that a program builds.
//!
//! These are the only graphs that a program can reach: onnxruntime gives graphs of sessions to provider libraries alone,
//! which cannot be registered here. Of the functions for graphs, onnxruntime answers those of this file for a graph
//! that is built; `missing` has the others, which need resolved types and edges.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::{CStr, c_char};

use ort_session::ModelInfo;
use ort_sys::{OrtGraph, OrtNode, OrtValueInfo, os_char};

use crate::editor::{EditedGraph, EditedNode, IR_VERSION};
use crate::error::Error;
use crate::ffi::{Out, OutHandle, OutRef, Outs, Shared, export, opaque};
use crate::metadata::Metadata;
use crate::op_attr::OpAttr;

/// The name of every graph that is built, as in onnxruntime: functions to set it do not exist.
const GRAPH_NAME: &CStr = c"ModelEditorGraph";

export! {
    /// The pointers are valid as long as the node.
    fn Node_GetName(node: &EditedNode, node_name: Out<'_, *const c_char>) {
        node_name.set(node.texts[0].as_ptr());
        Ok(())
    }

    fn Node_GetOperatorType(node: &EditedNode, operator_type: Out<'_, *const c_char>) {
        operator_type.set(node.texts[1].as_ptr());
        Ok(())
    }

    fn Node_GetDomain(node: &EditedNode, domain_name: Out<'_, *const c_char>) {
        domain_name.set(node.texts[2].as_ptr());
        Ok(())
    }

    /// The position in the graph; 0 before the node is added to one.
    fn Node_GetId(node: &EditedNode, node_id: Out<'_, usize>) {
        node_id.set(node.id);
        Ok(())
    }

    /// Fails, as in onnxruntime: only nodes of sessions are assigned to providers.
    fn Node_GetEpName(node: &EditedNode, _out: Out<'_, *const c_char>) {
        let _ = node;
        Err(Error::argument("node", "is built by a program: it has no provider"))
    }

    fn Node_GetNumInputs(node: &EditedNode, num_inputs: Out<'_, usize>) {
        num_inputs.set(node.node.inputs.len());
        Ok(())
    }

    fn Node_GetNumOutputs(node: &EditedNode, num_outputs: Out<'_, usize>) {
        num_outputs.set(node.node.outputs.len());
        Ok(())
    }

    fn Node_GetNumAttributes(node: &EditedNode, num_attributes: Out<'_, usize>) {
        num_attributes.set(node.attrs.len());
        Ok(())
    }

    /// Null if there is none. It lives as long as the node.
    fn Node_GetAttributeByName(
        node: &EditedNode,
        attribute_name: &str,
        attribute: OutRef<'_, OpAttr>,
    ) {
        match node.attrs.iter().find(|attr| attr.name() == attribute_name) {
            Some(found) => attribute.set(found),
            None => attribute.set_none(),
        }
        Ok(())
    }

    fn Graph_GetNumInputs(graph: &EditedGraph, num_inputs: Out<'_, usize>) {
        num_inputs.set(graph.parts().inputs.iter().flatten().count());
        Ok(())
    }

    fn Graph_GetNumOutputs(graph: &EditedGraph, num_outputs: Out<'_, usize>) {
        num_outputs.set(graph.parts().outputs.iter().flatten().count());
        Ok(())
    }

    fn Graph_GetNumInitializers(graph: &EditedGraph, num_initializers: Out<'_, usize>) {
        num_initializers.set(graph.parts().initializers.len());
        Ok(())
    }

    fn Graph_GetNumNodes(graph: &EditedGraph, num_nodes: Out<'_, usize>) {
        num_nodes.set(graph.parts().nodes.len());
        Ok(())
    }

    fn Graph_GetName(_graph: &EditedGraph, graph_name: Out<'_, *const c_char>) {
        graph_name.set(GRAPH_NAME.as_ptr());
        Ok(())
    }

    /// Empty: it has no file.
    fn Graph_GetModelPath(_graph: &EditedGraph, model_path: Out<'_, *const os_char>) {
        model_path.set(c"".as_ptr().cast());
        Ok(())
    }

    /// That of a session's model.
    fn Graph_GetOnnxIRVersion(_graph: &EditedGraph, onnx_ir_version: Out<'_, i64>) {
        onnx_ir_version.set(IR_VERSION);
        Ok(())
    }

    /// Without any text: there are no functions to set them.
    fn Graph_GetModelMetadata(_graph: Shared<'_, EditedGraph>, out: OutHandle<'_, Metadata>) {
        out.set(Metadata(ModelInfo::default()));
        Ok(())
    }

    /// Fails, as in onnxruntime: graphs that are built have no views.
    fn Graph_GetGraphView(
        _src_graph: &EditedGraph,
        _nodes: *mut *const OrtNode,
        _num_nodes: usize,
        _dst_graph: *mut *mut OrtGraph,
    ) {
        Err(Error::argument("src_graph", "is built by a program: views are of graphs of sessions"))
    }

    /// The value infos live as long as the graph.
    fn Graph_GetInputs(
        graph: &EditedGraph,
        inputs: Outs<'_, *const OrtValueInfo>[num_inputs],
        num_inputs: usize,
    ) {
        let _ = num_inputs;
        inputs.fill(graph.parts().inputs.iter().flatten().map(|value| opaque(&**value)));
        Ok(())
    }

    /// The value infos live as long as the graph.
    fn Graph_GetOutputs(
        graph: &EditedGraph,
        outputs: Outs<'_, *const OrtValueInfo>[num_outputs],
        num_outputs: usize,
    ) {
        let _ = num_outputs;
        outputs.fill(graph.parts().outputs.iter().flatten().map(|value| opaque(&**value)));
        Ok(())
    }

    /// The nodes live as long as the graph.
    fn Graph_GetNodes(
        graph: &EditedGraph,
        nodes: Outs<'_, *const OrtNode>[num_nodes],
        num_nodes: usize,
    ) {
        let _ = num_nodes;
        nodes.fill(graph.parts().nodes.iter().map(|node| opaque(&**node)));
        Ok(())
    }
}
