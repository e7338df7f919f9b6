//! A custom graph pass: reads a .onnx file, replaces divisions by constants with multiplications, and saves a .ort file.

#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::error::Error;

use ort_graph::parsed::Model;
use ort_graph::{
    Export, Fact, Graph, ImportLimits, NewNode, NodeId, Patch, Registry, export, import,
};
use ort_onnx::{ExternalFiles, Limits};
use ort_session::Tensor;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(from), Some(to)) = (args.next(), args.next()) else {
        return Err("usage: custom_pass MODEL.onnx OUT.ort".into());
    };
    let registry = ort_ops::registry();
    let file = ort_onnx::open(&std::fs::read(from)?.into(), &Limits::default())?;
    let parsed = Model::of_onnx(file, &ExternalFiles::default())?;
    let mut model = import(parsed, &registry, ImportLimits::default())?;

    let mut n_rewrites = 0;
    for id in model.graph.topological_order()? {
        n_rewrites += usize::from(rewrite(&mut model.graph, id, &registry)?.is_some());
    }
    println!("{n_rewrites} rewrites");

    let record = export(&model.graph, Export::new(&model.info))?;
    std::fs::write(to, ort_format::write(&record)?)?;
    Ok(())
}

/// `Div(x, c)` becomes `Mul(x, 1 / c)`; does nothing for other nodes.
fn rewrite(
    graph: &mut Graph,
    id: NodeId,
    registry: &Registry,
) -> Result<Option<()>, Box<dyn Error>> {
    let Some(node) = graph.get_node(id).filter(|node| node.op_type == "Div") else {
        return Ok(None);
    };
    let (&[x, Some(divisor)], &[Some(quotient)]) =
        (node.inputs.as_slice(), node.outputs.as_slice())
    else {
        return Ok(None);
    };
    let Some(constant) = graph.constant(divisor) else { return Ok(None) };
    let Ok(divisors) = constant.as_slice::<f32>() else { return Ok(None) };
    let reciprocals: Vec<f32> = divisors.iter().map(|c| 1.0 / c).collect();

    // A patch is built separately and applied atomically: an error leaves the graph unchanged.
    let mut patch = Patch::new(graph);
    let shape = constant.shape();
    let fact = Fact::constant(Tensor::from_slice(shape, &reciprocals)?);
    let factor = patch.value("reciprocal", fact)?;
    let product = patch.output_of(NewNode {
        name: node.name.clone(),
        op_type: "Mul".into(),
        since_version: node.since_version,
        inputs: vec![x, Some(factor)],
        ..NewNode::default()
    })?;
    patch.replace(quotient, product);
    patch.commit(graph, registry)?;
    Ok(Some(()))
}
