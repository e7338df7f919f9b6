//! `generate`: continues a prompt with a language model, token by token.

mod config;
mod feeds;
mod report;
mod sampling;
mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use ort_session::{DType, Outputs, Session, State, Tensor, TensorError, Value, bf16, f16};

use self::config::GenaiConfig;
use self::feeds::Feeds;
use self::report::Report;
use self::sampling::Sampling;
use self::words::Words;
use crate::examples::examples;
use crate::failure::Failure;
use crate::options::SessionOptions;
use crate::random::SplitMix64;

/// Generate text, or token ids, with a language model
///
/// The model has an input of token ids, an output of logits, and usually a key-value cache: outputs `present…` that
/// become its inputs `past…`, as in exports of Optimum and ONNX Runtime GenAI. A genai_config.json in the model's
/// folder is read.
#[derive(Args, Debug)]
#[command(after_help = examples!(
    "generate models/tiny_decoder/model.onnx --ids 1,2,3 --max-tokens 8",
    "generate models/tiny_decoder/model.onnx --ids 7 --max-tokens 8 --temperature 1",
))]
pub(crate) struct Arguments {
    /// The model, a .ort or .onnx file
    model: PathBuf,
    /// The prompt as token ids, such as 1,2,3
    #[arg(long, value_name = "IDS", value_delimiter = ',', required_unless_present = "prompt")]
    ids: Vec<usize>,
    /// The prompt as text
    #[arg(long, value_name = "TEXT", requires = "tokenizer", conflicts_with = "ids")]
    prompt: Option<String>,
    /// The tokenizer.json of the model
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    /// The maximum number of tokens to generate
    #[arg(long, value_name = "N", default_value_t = 128)]
    max_tokens: usize,
    /// A token that ends generation, instead of those in genai_config.json
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    end: Vec<usize>,
    /// The sampling temperature: 0 always takes the likeliest token, 1 keeps the model's own probabilities
    /// [default: 0, or that of genai_config.json]
    #[arg(long, value_name = "T", value_parser = not_negative, allow_negative_numbers = true)]
    temperature: Option<f32>,
    /// Sample from this many of the likeliest tokens, 0 for all [default: 0]
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// Sample from the likeliest tokens that together have this probability [default: 1]
    #[arg(long, value_name = "P", value_parser = not_negative, allow_negative_numbers = true)]
    top_p: Option<f32>,
    /// Penalize tokens that already occur, by this factor [default: 1]
    #[arg(long, value_name = "X", value_parser = positive, allow_negative_numbers = true)]
    repetition_penalty: Option<f32>,
    /// The seed of random sampling
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    session: SessionOptions,
}

/// The cache initially reserves room for at most this many tokens.
const MOST_RESERVED: usize = 4096;

/// Why generation stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// The maximum number of tokens was generated.
    MaxTokens,
    /// The model generated an end token.
    End,
    /// The model's context is full.
    Context,
}

/// A model that generates.
struct Generator<'a> {
    path: &'a Path,
    session: &'a Session,
    /// The state kept from token to token; without it, each run reads all tokens.
    state: Option<State>,
    feeds: Feeds,
    logits: String,
    ids: Vec<usize>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let config = GenaiConfig::of_model(&arguments.model)?;
    let words = arguments.tokenizer.as_deref().map(Words::open).transpose()?;
    let ids = match (&arguments.prompt, &words) {
        (Some(prompt), Some(words)) => words.ids(prompt)?,
        _ => arguments.ids.clone(),
    };
    if ids.is_empty() {
        return Err(Failure::NoTokens);
    }
    let session = arguments.session.open(&arguments.model)?;
    let mut generator = Generator::new(&arguments.model, &session, &config, ids)?;
    let report = generator.generate(arguments, &config, words.as_ref())?;
    report.print(arguments, &generator)?;
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    fn sampling(&self, config: &GenaiConfig) -> Sampling {
        Sampling {
            temperature: self.temperature.or(config.search("temperature")).unwrap_or(0.0),
            top_k: self.top_k.or(config.top_k()).unwrap_or(0),
            top_p: self.top_p.or(config.search("top_p")).unwrap_or(1.0),
            repetition_penalty: { self.repetition_penalty }
                .or(config.search("repetition_penalty"))
                .unwrap_or(1.0),
        }
    }
}

impl<'a> Generator<'a> {
    fn new(
        path: &'a Path,
        session: &'a Session,
        config: &GenaiConfig,
        ids: Vec<usize>,
    ) -> Result<Self, Failure> {
        let pairs = config.pairs();
        let state = match pairs.is_empty() {
            // A model without a cache has no such names.
            true => session.new_state().ok(),
            false => Some(session.new_state_of(pairs).map_err(|error| Failure::State {
                path: path.to_owned(),
                source: Box::new(error),
            })?),
        };
        let of_state = |name: &str| {
            state.iter().flat_map(State::pairs).any(|pair| [pair.0, pair.1].contains(&name))
        };
        let feeds = Feeds::new(session, config, of_state)?;
        let named = config.name("outputs", "logits");
        let outputs = session.outputs().into_iter().map(|output| output.name);
        let outputs: Vec<String> = outputs.filter(|name| !of_state(name)).collect();
        let logits = outputs.iter().find(|name| *name == named).or(outputs.first());
        let logits = logits.cloned().ok_or_else(|| Failure::NoLogits { path: path.to_owned() })?;
        Ok(Self { path, session, state, feeds, logits, ids })
    }

    fn generate(
        &mut self,
        arguments: &Arguments,
        config: &GenaiConfig,
        words: Option<&Words>,
    ) -> Result<Report, Failure> {
        let sampling = arguments.sampling(config);
        let ends = if arguments.end.is_empty() { config.ends() } else { arguments.end.clone() };
        let context = config.context_length().unwrap_or(usize::MAX);
        if let Some(state) = &mut self.state {
            let n_tokens = self.ids.len().saturating_add(arguments.max_tokens);
            state.reserve(n_tokens.min(context).min(MOST_RESERVED)).map_err(|error| {
                Failure::State { path: self.path.to_owned(), source: Box::new(error) }
            })?;
        }
        let mut random = SplitMix64::new(arguments.seed);
        let (n_prompt, mut n_fed) = (self.ids.len(), 0);
        let mut report = Report::new(n_prompt);
        let mut stream = words::Stream::new(words, !arguments.json);
        let start = Instant::now();
        report.stop = loop {
            if report.n_tokens == arguments.max_tokens {
                break Stop::MaxTokens;
            }
            if self.ids.len() > context {
                break Stop::Context;
            }
            let mut scores = match self.scores(n_fed) {
                Ok(scores) => scores,
                Err(failure) => {
                    // Ends the line of tokens, so that the error begins a new one.
                    stream.end(&self.ids[n_prompt..])?;
                    return Err(failure);
                }
            };
            n_fed = self.ids.len();
            let token = sampling.choose(&mut scores, &self.ids, &mut random);
            report.note(start.elapsed());
            if ends.contains(&token) {
                break Stop::End;
            }
            self.ids.push(token);
            stream.show(&self.ids[n_prompt..])?;
        };
        report.text = stream.end(&self.ids[n_prompt..])?;
        Ok(report)
    }

    /// The logits for the next token, where the state already holds the first `n_fed` tokens.
    fn scores(&mut self, n_fed: usize) -> Result<Vec<f32>, Failure> {
        let failed = |source| Failure::run(self.path, source);
        let size = |source| Failure::Value { name: self.logits.clone(), source };
        let outputs = match &mut self.state {
            Some(state) => {
                let inputs = self.feeds.tensors(&self.ids[n_fed..], n_fed).map_err(size)?;
                self.session.run_state(state, inputs).map_err(failed)?
            }
            None => {
                let inputs = self.feeds.tensors(&self.ids, 0).map_err(size)?;
                self.session.run(inputs).map_err(failed)?
            }
        };
        last_row(&outputs, &self.logits).map_err(size)
    }

    /// The size of the cache in bytes.
    fn cache_bytes(&self) -> usize {
        self.state.as_ref().map_or(0, State::n_bytes)
    }
}

/// The last row of the logits `[1, n, tokens]`, or `[1, tokens]`.
fn last_row(outputs: &Outputs, name: &str) -> Result<Vec<f32>, TensorError> {
    let missing = TensorError::Kind { expected: "tensor", found: "nothing" };
    let logits: &Tensor = outputs.get(name).map(Value::as_tensor).transpose()?.ok_or(missing)?;
    let row = logits.shape().last().copied().unwrap_or(0);
    let start = logits.len().saturating_sub(row);
    Ok(match logits.dtype() {
        DType::F16 => logits.as_slice::<f16>()?[start..].iter().map(|&x| x.into()).collect(),
        DType::Bf16 => logits.as_slice::<bf16>()?[start..].iter().map(|&x| x.into()).collect(),
        _ => logits.as_slice::<f32>()?[start..].to_vec(),
    })
}

fn not_negative(text: &str) -> Result<f32, String> {
    let number = text.parse().ok().filter(|x: &f32| x.is_finite() && *x >= 0.0);
    number.ok_or_else(|| "expected a non-negative number".to_owned())
}

fn positive(text: &str) -> Result<f32, String> {
    not_negative(text).ok().filter(|x| *x > 0.0).ok_or("expected a positive number".to_owned())
}
