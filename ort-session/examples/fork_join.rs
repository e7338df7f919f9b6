//! `fork_join [THREADS]`: the overhead of a kernel that divides its work among threads, by the size and number of
//! parts and the time between two kernels.
//!
//! A custom provider runs the model's only node with a kernel that measures its threads.
#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::error::Error;
use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ort_ep::{
    Claim, CompileError, ExecutionProvider, Io, Kernel, KernelError, PackStore, Prepared, Threads,
};
use ort_graph::{Export, Graph, ModelInfo, NodeId, export};
use ort_session::{Level, ModelBytes, Session, Tensor};

fn main() -> Result<(), Box<dyn Error>> {
    let n_threads = std::env::args().nth(1).map_or(Ok(2), |n| n.parse())?;
    let graph =
        Graph::parse("graph(x: float[1]) -> (y) {\n y = Relu-14 (x)\n}", &ort_ops::registry())?;
    let info = ModelInfo { opsets: vec![(String::new(), 17)], ..ModelInfo::default() };
    let file = export(&graph, Export::new(&info))?;
    let bytes = ModelBytes::from_vec(ort_format::write(&file)?);
    let builder = Session::builder().level(Level::Disable).threads(n_threads);
    let session = builder.provider(Arc::new(Probe)).commit(bytes)?;
    let x = Tensor::from_slice(&[1], &[1.0_f32])?;
    session.run([("x", &x)])?;
    Ok(())
}

#[derive(Debug)]
struct Probe;

impl ExecutionProvider for Probe {
    fn name(&self) -> &'static str {
        "Probe"
    }

    fn claim(&self, graph: &Graph, root: NodeId) -> Option<Claim> {
        Some(Claim::one(root, graph.get_node(root)?))
    }

    fn compile(
        &self,
        _: &Graph,
        _: &Claim,
        _: &dyn PackStore,
    ) -> Result<Box<dyn Kernel>, CompileError> {
        Ok(Box::new(Probe))
    }
}

impl Kernel for Probe {
    fn run(&self, _: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        io.outputs[0].tensor(ort_tensor::DType::F32, &[1])?;
        println!("{} threads; µs at the 10th, 50th and 90th percentile", io.threads.count());
        for (n_parts, part_us, pause_us) in
            [(2, 0, 0), (2, 1, 0), (2, 5, 0), (8, 5, 0), (2, 5, 30), (2, 5, 200), (8, 50, 200)]
        {
            let work = |_| busy(Duration::from_micros(part_us));
            let [p10, p50, p90] = measure(io.threads, n_parts, &work, pause_us);
            println!(
                "{n_parts} parts of {part_us:2} µs, {pause_us:3} µs between: {p10:7.2} {p50:7.2} {p90:7.2}"
            );
        }
        Ok(())
    }
}

/// The fastest of ten rounds each.
fn measure(
    threads: &dyn Threads,
    n_parts: usize,
    work: &(dyn Fn(usize) + Sync),
    pause_us: u64,
) -> [f64; 3] {
    let mut best = [f64::INFINITY; 3];
    for _ in 0..10 {
        let mut times: Vec<f64> = Vec::with_capacity(200);
        for _ in 0..200 {
            busy(Duration::from_micros(pause_us));
            let start = Instant::now();
            threads.for_each(n_parts, work);
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        times.sort_by(f64::total_cmp);
        for (best, percent) in best.iter_mut().zip([10, 50, 90]) {
            *best = best.min(times[times.len() * percent / 100]);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    best
}

/// Computes for this long.
fn busy(time: Duration) {
    let start = Instant::now();
    while black_box(start).elapsed() < time {
        spin_loop();
    }
}
