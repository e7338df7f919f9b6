//! `many_steps`: the overhead of a step, in models of 1,000 nodes with almost no
//! arithmetic.
#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::error::Error;
use std::fmt::Write as _;
use std::time::Instant;

use ort_graph::{Export, Graph, ModelInfo, export};
use ort_session::{Level, ModelBytes, Session, Tensor};

const N_STEPS: usize = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    let chains: [(&str, &[&str]); 4] = [
        ("Relu", &["Relu-14 ($)"]),
        ("Add", &["Add-14 ($, one)"]),
        ("Relu, Neg, Sigmoid, Abs", &["Relu-14 ($)", "Neg-13 ($)", "Sigmoid-13 ($)", "Abs-13 ($)"]),
        (
            "If",
            &[
                "If-13 [then_branch: graph() -> (a) { a = Relu-14 ($) }, else_branch: graph() -> (b) { b = Neg-13 ($) }] (yes)",
            ],
        ),
    ];
    for (what, nodes) in chains {
        let session = session(nodes)?;
        let x = Tensor::from_slice(&[4], &[0.25_f32, -1.0, 2.0, 3.0])?;
        let mut best = f64::INFINITY;
        for _ in 0..500 {
            let start = Instant::now();
            session.run([("x", &x)])?;
            best = best.min(start.elapsed().as_secs_f64());
        }
        println!("{what}: {:.0} ns a step", best * 1e9 / N_STEPS as f64);
    }
    Ok(())
}

/// A session of `N_STEPS` of the nodes in rotation; `$` in each is the output of the previous one.
fn session(nodes: &[&str]) -> Result<Session, Box<dyn Error>> {
    let last = N_STEPS - 1;
    let mut text = format!(
        "graph(x: float[4], yes = bool[] true) -> (y{last}) {{\n  one = const float[1] [1]\n"
    );
    let mut value = "x".to_owned();
    for (i, node) in nodes.iter().cycle().take(N_STEPS).enumerate() {
        writeln!(text, "  y{i} = {}", node.replace('$', &value))?;
        value = format!("y{i}");
    }
    let graph = Graph::parse(&(text + "}"), &ort_ops::registry())?;
    let info = ModelInfo { opsets: vec![(String::new(), 17)], ..ModelInfo::default() };
    let file = export(&graph, Export::new(&info))?;
    let bytes = ModelBytes::from_vec(ort_format::write(&file)?);
    Ok(Session::builder().level(Level::Disable).threads(1).commit(bytes)?)
}
