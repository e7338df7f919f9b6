//! Reads a .ort file with ort-format alone: which operators it has, and how large its weights are.

#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::collections::BTreeMap;
use std::error::Error;

use ort_format::{AttributeValue, Graph, Limits};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: read_ort MODEL.ort")?;
    let bytes = std::fs::read(path)?;
    // The whole file is checked here. Views of it borrow from `bytes`, and cannot fail.
    let file = ort_format::open(&bytes, &Limits::default())?;
    let model = file.model();
    println!("format {}, IR version {}", file.ort_version().unwrap_or("?"), model.ir_version());
    for set in model.opset_import() {
        let domain = if set.domain().is_empty() { "ai.onnx" } else { set.domain() };
        println!("{domain} {}", set.version());
    }
    let mut summary = Summary::default();
    summary.add(model.graph());
    for (operator, count) in summary.operators {
        println!("{count:6} {operator}");
    }
    println!("{} initializers, {} bytes", summary.n_initializers, summary.n_bytes);
    Ok(())
}

#[derive(Default)]
struct Summary<'a> {
    operators: BTreeMap<&'a str, usize>,
    n_initializers: usize,
    n_bytes: usize,
}

impl<'a> Summary<'a> {
    /// Adds a graph and those of its nodes' attributes.
    fn add(&mut self, graph: Graph<'a>) {
        for tensor in graph.initializers() {
            self.n_initializers += 1;
            self.n_bytes += tensor.raw_data().map_or(0, <[u8]>::len);
        }
        for node in graph.nodes() {
            *self.operators.entry(node.op_type()).or_default() += 1;
            for attribute in node.attributes() {
                match attribute.value() {
                    AttributeValue::Graph(graph) => self.add(graph),
                    AttributeValue::Graphs(graphs) => graphs.iter().for_each(|it| self.add(it)),
                    _ => {}
                }
            }
        }
    }
}
