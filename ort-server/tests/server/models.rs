//! Small models, as text in the language of ort-graph.

use std::fs;
use std::path::Path;

use ort_graph::{Export, Graph, ModelInfo, export};

/// `y = x + [1, 2, 3]`, `negated = −x`, by rows.
pub(crate) const AFFINE: &str = "graph(x: float[n,3]) -> (y, negated) {
    c = const float[3] [1, 2, 3]
    y: float[n,3] = Add-14 (x, c)
    negated: float[n,3] = Neg-13 (x)
}";

/// `y[i] = [10, 20, 30][index[i]]`: fails for other indices than −3 to 2.
pub(crate) const PICK: &str = "graph(index: int64[n]) -> (y) {
    table = const float[3] [10, 20, 30]
    y: float[n] = Gather-13 [axis: 0] (table, index)
}";

/// Takes `trips` iterations.
pub(crate) const SLOW: &str = "graph(trips: int64[1]) -> (v) {
    one = const float[2] [1, 1]
    v = Loop-16 [
      body: graph(i: int64[], go: bool[], w: float[2]) -> (on, w1) {
        on = Identity-16 (go)
        w1 = Neg-13 (w)
      }
    ] (trips, _, one)
}";

/// Every element type of the protocol, from inputs to outputs.
pub(crate) fn identities() -> String {
    let types = [
        "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
        "float16", "bfloat16", "float", "double", "string",
    ];
    let each = |part: &dyn Fn(&str) -> String, separator: &str| types.map(part).join(separator);
    let inputs = each(&|it| format!("{it}_in: {it}[k]"), ", ");
    let outputs = each(&|it| format!("{it}_out"), ", ");
    let nodes = each(&|it| format!("{it}_out: {it}[k] = Identity-16 ({it}_in)"), "\n");
    format!("graph({inputs}) -> ({outputs}) {{\n{nodes}\n}}")
}

/// Writes the `.ort` file of a graph, or `text` itself if the file is none.
pub(crate) fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    if text.starts_with("graph") {
        fs::write(path, bytes(text)).unwrap();
    } else {
        fs::write(path, text).unwrap();
    }
}

fn bytes(text: &str) -> Vec<u8> {
    let graph = Graph::parse(text, &ort_ops::registry()).unwrap();
    let opsets = vec![(String::new(), 17)];
    let info = ModelInfo { ir_version: 8, opsets, ..ModelInfo::default() };
    let file = export(&graph, Export::new(&info)).unwrap();
    ort_format::write(&file).unwrap()
}
