//! Whatever options are combined, the numbers are the same.

use std::fmt::Write as _;
use std::path::Path;

use ort_session::{
    Arena, Denormals, ExecutionMode, IsaChoice, Level, Load, ModelBytes, Session, SessionBuilder,
    Tensor,
};
use ort_testing::Rng;
use proptest::prelude::*;
use proptest::sample::select;

use crate::model::of_text;

/// Images, channels, height and width of everything between two layers.
const SHAPE: [usize; 4] = [2, 16, 12, 12];

/// The products in a sum: of no layer more than of a convolution of 3×3.
const N_PRODUCTS: usize = 16 * 9;

const N_LAYERS: usize = 3;

/// What may change results by rounding.
#[derive(Clone, Copy, Debug)]
struct Rounding {
    level: Level,
    isa: IsaChoice,
    prepacking: bool,
    winograd: bool,
    denormals: Denormals,
}

/// What may not.
#[derive(Clone, Copy, Debug)]
struct Same {
    n_threads: usize,
    mode: ExecutionMode,
    from: From,
    arena: Arena,
    is_cached: bool,
}

/// How a session gets at the model.
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
        let builder = builder.threads(self.n_threads).execution_mode(self.mode).arena(self.arena);
        let builder =
            if self.is_cached { builder.cache_dir(folder.join("cache")) } else { builder };
        let session = match self.from {
            From::Memory => builder.commit(ModelBytes::from_vec(model.to_vec())),
            From::File(load) => builder.load(load).commit_from_file(folder.join("model.ort")),
        };
        session.unwrap()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..Default::default() })]

    #[test]
    fn options_change_no_more_than_roundings(
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
                // The second run uses what the first has left.
                for _ in 0..2 {
                    let found = result(&session);
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
    let modes = select(vec![ExecutionMode::Sequential, ExecutionMode::Parallel]);
    (1_usize..=3, modes, from, arenas, any::<bool>()).prop_map(
        |(n_threads, mode, from, arena, is_cached)| Same {
            n_threads,
            mode,
            from,
            arena,
            is_cached,
        },
    )
}

/// Rounding the sums of a layer moves a result by `n·2⁻²⁴` of the magnitudes summed, here 1 at most,
/// and Winograd's filtering by a few times as much. No layer but the LSTM moves what comes in by more
/// than it was, and that by four times at most: its cells forget a quarter in each step.
fn bound() -> f32 {
    let per_layer = N_PRODUCTS as f32 * (-24_f32).exp2();
    4.0 * (0..N_LAYERS).fold(0.0, |of_layers_before, _| 4.0 * of_layers_before + per_layer)
}

fn result(session: &Session) -> Vec<f32> {
    let x = Tensor::from_slice(&SHAPE, &Rng::new(7).uniforms(SHAPE.iter().product())).unwrap();
    let outputs = session.run([("x", &x)]).unwrap();
    outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap().to_vec()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// The text of a network whose values lie between −1 and 1.
fn network(seed: u64) -> String {
    let mut rng = Rng::new(seed);
    let (mut text, mut x) = (String::new(), "x".to_owned());
    for layer in 0..N_LAYERS {
        let (y, kind) = (format!("y{layer}"), rng.index(4));
        // Magnitudes that are summed add up to 1 at most.
        let mut constant = |shape: &[usize], n_summed: usize| {
            let name = format!("w{layer}_{}", text.len());
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
        text += &node;
        x = y;
    }
    let [n, c, h, w] = SHAPE;
    format!("graph(x: float[{n},{c},{h},{w}]) -> ({x}) {{\n{text}}}")
}
