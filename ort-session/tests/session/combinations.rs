//! Combinations of options do not change results.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use ort_session::{
    Arena, Cancel, DType, Denormals, ExecutionMode, IsaChoice, Level, Load, LoadLimits, ModelBytes,
    RunLimits, RunOptions, Session, SessionBuilder, Tensor,
};
use ort_testing::Rng;
use proptest::prelude::*;
use proptest::sample::select;

use crate::model::of_text;

/// Batch, channels, height and width of all values between two layers.
const SHAPE: [usize; 4] = [2, 16, 12, 12];

/// The largest number of products in a sum, that of a 3×3 convolution.
const N_PRODUCTS: usize = 16 * 9;

const N_LAYERS: usize = 3;

/// Options that may change results by rounding.
#[derive(Clone, Copy, Debug)]
struct Rounding {
    level: Level,
    isa: IsaChoice,
    prepacking: bool,
    winograd: bool,
    denormals: Denormals,
}

/// Options that may not change results.
#[derive(Clone, Copy, Debug)]
struct Same {
    threads: Threads,
    from: From,
    arena: Arena,
    is_cached: bool,
    recorded: Recorded,
}

/// The threads that compute.
#[derive(Clone, Copy, Debug)]
struct Threads {
    n_threads: usize,
    mode: ExecutionMode,
    n_branches: Option<usize>,
    is_own: bool,
    /// The spin duration in µs.
    spin_us: u64,
}

/// Recording, events, and limits that are never reached.
#[derive(Clone, Copy, Debug)]
struct Recorded {
    is_profiled: bool,
    is_traced: bool,
    is_bounded: bool,
    /// Whether the run writes to bound memory.
    is_bound: bool,
}

/// How a session loads the model.
#[derive(Clone, Copy, Debug)]
enum From {
    Memory,
    File(Load),
}

impl Rounding {
    fn builder(self) -> SessionBuilder {
        Session::builder()
            .level(self.level)
            .isa(self.isa)
            .prepacking(self.prepacking)
            .winograd(self.winograd)
            .denormals(self.denormals)
    }
}

impl Same {
    fn session(self, builder: SessionBuilder, (model, folder): (&[u8], &Path)) -> Session {
        let builder = self.recorded.set(self.threads.set(builder)).arena(self.arena);
        let builder =
            if self.is_cached { builder.cache_dir(folder.join("cache")) } else { builder };
        let session = match self.from {
            From::Memory => builder.commit(ModelBytes::from_vec(model.to_vec())),
            From::File(load) => builder.load(load).commit_from_file(folder.join("model.ort")),
        };
        session.unwrap()
    }
}

impl Threads {
    fn set(self, builder: SessionBuilder) -> SessionBuilder {
        let spin_us = Duration::from_micros(self.spin_us);
        let builder = builder.threads(self.n_threads).execution_mode(self.mode);
        let builder = builder.own_pool(self.is_own).spinning(spin_us);
        self.n_branches.into_iter().fold(builder, SessionBuilder::inter_op_threads)
    }
}

impl Recorded {
    fn set(self, builder: SessionBuilder) -> SessionBuilder {
        let builder = if self.is_profiled { builder.collect_trace() } else { builder };
        let limits = LoadLimits {
            max_nodes: Some(1000),
            max_depth: Some(0),
            max_elements: Some(1 << 20),
            max_bytes: Some(1 << 30),
            max_time: Some(Duration::from_secs(3600)),
        };
        if self.is_bounded { builder.load_limits(limits) } else { builder }
    }

    /// The result of a run, with a trace if it writes one.
    fn result(self, session: &Session, folder: &Path) -> Vec<f32> {
        let mut options = RunOptions::new();
        if self.is_traced {
            options = options.tag("traced").enable_profiling(folder.join("run"));
        }
        if self.is_bounded {
            let (max_time, max_bytes) = (Some(Duration::from_secs(3600)), Some(1 << 30));
            let limits = RunLimits { max_time, max_bytes, ..RunLimits::default() };
            options = options.limits(limits).cancel(&Cancel::new());
        }
        let (x, name) = (x(), session.outputs()[0].name.clone());
        let mut y = Tensor::zeros(DType::F32, &SHAPE).unwrap();
        if self.is_bound {
            session.run_into([("x", &x)], [(name.as_str(), &mut y)], &options).unwrap();
            return y.as_slice::<f32>().unwrap().to_vec();
        }
        let outputs = session.run_with([("x", &x)], &options).unwrap();
        outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap().to_vec()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..Default::default() })]

    #[test]
    fn options_change_results_by_rounding_only(
        seed in 0_u64..1000,
        rounding in rounding(),
        same in prop::collection::vec(same(), 3),
    ) {
        let model = of_text(&network(seed));
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("model.ort"), &model).unwrap();
        let commit = |builder: SessionBuilder| {
            builder.threads(1).commit(ModelBytes::from_vec(model.clone())).unwrap()
        };
        let expected = result(&commit(rounding.builder()));
        for same in same {
            // A cache folder is filled by the first of two sessions, and used by the second.
            for _ in 0..=usize::from(same.is_cached) {
                let session = same.session(rounding.builder(), (&model, folder.path()));
                // The second run reuses the memory of the first.
                for _ in 0..2 {
                    let found = same.recorded.result(&session, folder.path());
                    prop_assert!(bits(&found) == bits(&expected), "{:?}", same);
                }
            }
        }
        let plain = Session::builder().level(Level::Disable).isa(IsaChoice::Generic);
        for (a, b) in expected.iter().zip(result(&commit(plain))) {
            prop_assert!((a - b).abs() <= bound(), "{} {}", a, b);
        }
    }
}

fn rounding() -> impl Strategy<Value = Rounding> {
    let isas: Vec<IsaChoice> = [IsaChoice::Best, IsaChoice::Avx512, IsaChoice::Avx2]
        .into_iter()
        .chain([IsaChoice::Generic])
        .filter(|&isa| ort_session::CpuProvider::new(options(isa)).is_ok())
        .collect();
    let denormals = select(vec![Denormals::Flush, Denormals::Preserve]);
    (select(Level::ALL.to_vec()), select(isas), any::<bool>(), any::<bool>(), denormals).prop_map(
        |(level, isa, prepacking, winograd, denormals)| Rounding {
            level,
            isa,
            prepacking,
            winograd,
            denormals,
        },
    )
}

fn options(isa: IsaChoice) -> ort_session::CpuOptions {
    let mut options = ort_session::CpuOptions::default();
    options.isa = isa;
    options
}

fn same() -> impl Strategy<Value = Same> {
    let files = [Load::Mapped, Load::Populated, Load::Read, Load::Auto].map(From::File);
    let from = select([&[From::Memory][..], &files].concat());
    let arenas = select(vec![Arena::Keep, Arena::Shrink, Arena::Off]);
    (threads(), from, arenas, any::<bool>(), recorded()).prop_map(
        |(threads, from, arena, is_cached, recorded)| Same {
            threads,
            from,
            arena,
            is_cached,
            recorded,
        },
    )
}

fn threads() -> impl Strategy<Value = Threads> {
    let modes = select(vec![ExecutionMode::Sequential, ExecutionMode::Parallel]);
    let branches = prop::option::of(1_usize..=3);
    let spin_us = select(vec![0, 10, 1000]);
    (1_usize..=3, modes, branches, any::<bool>(), spin_us).prop_map(
        |(n_threads, mode, n_branches, is_own, spin_us)| Threads {
            n_threads,
            mode,
            n_branches,
            is_own,
            spin_us,
        },
    )
}

fn recorded() -> impl Strategy<Value = Recorded> {
    any::<[bool; 4]>().prop_map(|[is_profiled, is_traced, is_bounded, is_bound]| Recorded {
        is_profiled,
        is_traced,
        is_bounded,
        is_bound,
    })
}

/// Rounding in a layer's sums changes results by `n·2⁻²⁴` of the summed magnitudes, here at most 1,
/// and Winograd's algorithm by a few times as much. No layer but the LSTM amplifies errors of its input,
/// and the LSTM at most by four: its cells forget a quarter in each step.
fn bound() -> f32 {
    // The sum of two branches rounds once more; halving is exact.
    let per_layer = (N_PRODUCTS + 1) as f32 * (-24_f32).exp2();
    4.0 * (0..N_LAYERS).fold(0.0, |of_layers_before, _| 4.0 * of_layers_before + per_layer)
}

fn x() -> Tensor {
    Tensor::from_slice(&SHAPE, &Rng::new(7).uniforms(SHAPE.iter().product())).unwrap()
}

fn result(session: &Session) -> Vec<f32> {
    let outputs = session.run([("x", &x())]).unwrap();
    outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap().to_vec()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// The text of a network whose values are between −1 and 1. Each layer is the mean of two branches.
fn network(seed: u64) -> String {
    let mut rng = Rng::new(seed);
    let (mut text, mut x) = ("  half = const float[1] [0.5]\n".to_owned(), "x".to_owned());
    for layer in 0..N_LAYERS {
        let branches = ["a", "b"].map(|branch| format!("{branch}{layer}"));
        branches.iter().for_each(|y| write_branch(&mut text, &mut rng, &x, y));
        let ([a, b], y) = (branches, format!("y{layer}"));
        writeln!(text, "  s{y} = Add-14 ({a}, {b})\n  {y} = Mul-14 (s{y}, half)").unwrap();
        x = y;
    }
    let [n, c, h, w] = SHAPE;
    format!("graph(x: float[{n},{c},{h},{w}]) -> ({x}) {{\n{text}}}")
}

/// One of four kinds of nodes from `x` to `y`.
fn write_branch(text: &mut String, rng: &mut Rng, x: &str, y: &str) {
    let kind = rng.index(4);
    // Magnitudes that are summed add up to at most 1.
    let mut constant = |shape: &[usize], n_summed: usize| {
        let name = format!("w{}", text.len());
        let weights = rng.uniforms(shape.iter().product());
        let weights: Vec<f32> = weights.iter().map(|w| w / n_summed as f32).collect();
        writeln!(text, "  {name} = const float{shape:?} {weights:?}").unwrap();
        name
    };
    let node = match kind {
        0 => {
            let (w, b) = (constant(&[16, 16, 3, 3], 2 * N_PRODUCTS), constant(&[16], 2));
            let attributes = "[kernel_shape: [3, 3], pads: [1, 1, 1, 1]]";
            format!("  c{y} = Conv-11 {attributes} ({x}, {w}, {b})\n  {y} = Relu-14 (c{y})\n")
        }
        1 => format!("  {y} = MatMul-13 ({x}, {})\n", constant(&[12, 12], 12)),
        2 => {
            let w = constant(&[16, 1, 3, 3], 9);
            let attributes = "[group: 16, kernel_shape: [3, 3], pads: [1, 1, 1, 1]]";
            format!("  c{y} = Conv-11 {attributes} ({x}, {w})\n  {y} = Tanh-13 (c{y})\n")
        }
        _ => {
            let (w, r) = (constant(&[2, 24, 12], 24), constant(&[2, 24, 6], 12));
            let attributes = "[hidden_size: 6, direction: \"bidirectional\"]";
            format!(
                "  a{y} = const int64[3] [32, 12, 12]\n  b{y} = const int64[4] {SHAPE:?}\n  \
                 s{y} = Reshape-14 ({x}, a{y})\n  l{y} = LSTM-14 {attributes} (s{y}, {w}, {r})\n  \
                 {y} = Reshape-14 (l{y}, b{y})\n"
            )
        }
    };
    *text += &node;
}
