//! The arguments of the program `ort-cli`, in a folder with a model, inputs and a test case. Values are taken from lists, so
//! that no mutant asks for gigabytes or minutes.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use ort_conformance::node_cases::Files;
use ort_session::{Level, ModelBytes, Session};
use ort_testing::Rng;
use tempfile::TempDir;

use super::Attack;
use crate::attack::Outcome;
use crate::corpus;
use crate::damage::{garbled, words};

/// The commands, and what makes them short.
const COMMANDS: [&[&str]; 16] = [
    &["inspect", "model.ort"],
    &["run", "model.ort"],
    &["run", "model.onnx", "--inputs", "case/test_data_set_0"],
    &["generate", "model.ort", "--max-tokens", "2", "--ids", "1"],
    &["test", "."],
    &["bench", "model.ort", "--seconds", "0"],
    &["profile", "model.ort", "--runs", "2"],
    &["mem", "model.ort", "--runs", "1"],
    &["compare", "model.ort", "model.onnx", "--runs", "1"],
    &["optimize", "model.onnx"],
    &["convert", "model.onnx", "--output", "out.ort"],
    &["convert", "."],
    &["cache", "list", "cache"],
    &["cache", "prune", "cache"],
    &["completions", "bash"],
    &["man"],
];

const FLAGS: &str = "--level --threads --execution-mode --inter-op-threads --spinning --no-spinning --affinities --load \
    --populate --arena --denormals --isa --provider --disable --enable --dim --config --cache-dir \
    --skip-sums --verbose --only --timeout --inputs --input --shape --max-nodes --max-depth \
    --max-elements --max-load-mib --max-load-time --max-run-mib --max-run-time --max-iterations --output \
    --html --runs --nodes --json --model --max-mib --used-within --all --weights --set-b --rtol --atol \
    --picture --held --ids --prompt --tokenizer --max-tokens --end --temperature --top-k --top-p \
    --repetition-penalty --seed --pack --explain --stop-after --seconds --ops --hold --format \
    --optimization-style --target-platform --required-operators --enable-type-reduction --help --version \
    -- -v -h - --inputs=case";

const VALUES: &str = "0 1 2 3 -1 0.5 -0 1e-9 NaN inf 1e400 4294967295 18446744073709551615 18446744073709551616 \
    -9223372036854775808 307445734561825861 x x=1 x=0x3 x=2x3 x=-1x3 x=9223372036854775807x3 \
    x=4294967296x4294967296 x=0x9223372036854775807x9223372036854775807 x=x.npy x=input_0.pb x= =1 = y * \
    [ a[b- ? model.ort model.onnx out.ort out.onnx out case case/test_data_set_0 cache . nothing basic \
    extended layout all disable parallel sequential mapped read sealed auto keep release generic avx2 \
    avx512 reference cpu GeluFusionL2 session.intra_op_num_threads=2 ep.cpu.winograd=0 1;2 1-2 ort onnx \
    fixed arm";

pub(super) fn prepare() -> Attack {
    let (place, flags, values) = (Place::new(), words(FLAGS), words(VALUES));
    Box::new(move |mutant| {
        let Ok(place) = &place else { return Outcome::Found("no folder".to_owned()) };
        let arguments = arguments(&flags, &values, &mut mutant.rng);
        mutant.label = arguments.join(" ");
        if let Err(error) = place.reset() {
            return Outcome::Found(format!("no files: {error}"));
        }
        let arguments = ["ort-cli".to_owned()].into_iter().chain(arguments).map(OsString::from);
        let code = ort_cli::run(arguments);
        if code == std::process::ExitCode::SUCCESS { Outcome::Accepted } else { Outcome::Rejected }
    })
}

fn arguments(flags: &[&str], values: &[&str], rng: &mut Rng) -> Vec<String> {
    let command = COMMANDS[rng.index(COMMANDS.len())];
    let mut arguments: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
    for _ in 0..rng.below(5) {
        let flag = flags[rng.index(flags.len())];
        let value = values[rng.index(values.len())];
        // A path that leads out of the folder would be written.
        let value = if rng.below(8) == 0 { garbled(value, &WORDS, rng) } else { value.to_owned() };
        let at = 1 + rng.index(arguments.len());
        match rng.below(4) {
            0 => arguments.insert(at, value),
            1 => arguments.insert(at, flag.to_owned()),
            2 => arguments.push(format!("{flag}={value}")),
            _ => arguments.extend([flag.to_owned(), value]),
        }
    }
    arguments
}

const WORDS: [&str; 10] = ["ä", "=", "x", "-", "0", "99", "\u{7}", "…", ",", ";"];

/// A folder that is the current one, and what is in it.
struct Place {
    folder: TempDir,
    files: Vec<(&'static str, Vec<u8>)>,
}

impl Place {
    fn new() -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        std::env::set_current_dir(folder.path())?;
        Ok(Self { folder, files: contents(&corpus::files()) })
    }

    /// The files as they were, and no others.
    fn reset(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.folder.path())? {
            let entry = entry?;
            let is_folder = entry.file_type()?.is_dir();
            if is_folder {
                fs::remove_dir_all(entry.path())?
            } else {
                fs::remove_file(entry.path())?
            }
        }
        for (path, bytes) in &self.files {
            fs::create_dir_all(Path::new(path).parent().unwrap_or(Path::new(".")))?;
            fs::write(path, bytes)?;
        }
        Ok(())
    }
}

/// A node case.
fn contents(cases: &Files) -> Vec<(&'static str, Vec<u8>)> {
    let of = |name: &str| cases.get(&format!("test_softmax_axis_0/{name}")).cloned();
    let model = of("model.ort").unwrap_or_default();
    let builder = Session::builder().level(Level::Disable).threads(1);
    let optimized = builder.optimize(ModelBytes::from_owner(model.clone())).ok();
    let onnx = optimized.and_then(|model| model.to_onnx_bytes().ok()).unwrap_or_default();
    let [input, output] = ["input_0", "output_0"]
        .map(|name| of(&format!("test_data_set_0/{name}.pb")).unwrap_or_default().to_vec());
    vec![
        ("case/model.ort", model.to_vec()),
        ("case/test_data_set_0/input_0.pb", input.clone()),
        ("case/test_data_set_0/output_0.pb", output),
        ("cache/other", Vec::new()),
        ("model.ort", model.to_vec()),
        ("model.onnx", onnx),
        ("input_0.pb", input),
    ]
}
