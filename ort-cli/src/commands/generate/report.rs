//! The report at the end of generation.

use std::time::Duration;

use ort_session::process_memory;
use serde_json::json;

use super::{Arguments, Generator, Stop};
use crate::failure::Failure;
use crate::number;
use crate::print;

/// The result of generation.
#[derive(Debug)]
pub(super) struct Report {
    n_prompt: usize,
    pub(super) n_tokens: usize,
    pub(super) stop: Stop,
    /// The text, if there is a tokenizer.
    pub(super) text: Option<String>,
    /// When each token was generated, from the start.
    times: Vec<Duration>,
}

impl Report {
    pub(super) const fn new(n_prompt: usize) -> Self {
        Self { n_prompt, n_tokens: 0, stop: Stop::MaxTokens, text: None, times: Vec::new() }
    }

    /// Records a token that was generated `time` after the start.
    pub(super) fn note(&mut self, time: Duration) {
        self.n_tokens += 1;
        self.times.push(time);
    }

    fn first(&self) -> Duration {
        self.times.first().copied().unwrap_or_default()
    }

    /// How long each token took, in milliseconds.
    fn token_times(&self) -> Vec<f64> {
        let before = std::iter::once(&Duration::ZERO).chain(&self.times);
        let times = self.times.iter().zip(before).map(|(time, before)| *time - *before);
        times.map(|time| number::rounded(number::millis(time))).collect()
    }

    /// Tokens per second, without the first; `None` if there are fewer than two.
    fn tokens_per_second(&self) -> Option<f64> {
        let time = (*self.times.last()? - self.first()).as_secs_f64();
        let n = self.n_tokens.checked_sub(1).filter(|&n| n > 0)?;
        Some(n as f64 / time)
    }

    pub(super) fn print(
        &self,
        arguments: &Arguments,
        generator: &Generator<'_>,
    ) -> Result<(), Failure> {
        let memory = process_memory().ok().flatten();
        let peak = memory.and_then(|memory| usize::try_from(memory.peak_rss).ok());
        let rate = self.tokens_per_second();
        if arguments.json {
            let ids = &generator.ids[self.n_prompt..];
            return print::line(json!({
                "model": arguments.model.to_string_lossy(),
                "prompt_ids": &generator.ids[..self.n_prompt],
                "ids": ids,
                "text": self.text,
                "stop": self.stop.name(),
                "first_token_ms": number::millis(self.first()),
                "token_ms": self.token_times(),
                "tokens_per_s": rate.map(number::rounded),
                "threads": generator.session.n_threads(),
                "memory": { "cache": generator.cache_bytes(), "peak": peak },
            }));
        }
        let rate = rate
            .map_or_else(String::new, |rate| format!(" · {} tokens/s", number::significant(rate)));
        let peak = peak.map_or_else(String::new, |peak| format!(" · peak {}", number::bytes(peak)));
        print::line(format!(
            "\n  tokens  {} · {}\n  time    first token {}{rate}\n  memory  cache {}{peak}",
            number::count(self.n_tokens),
            self.stop.description(),
            number::time(self.first()),
            number::bytes(generator.cache_bytes()),
        ))
    }
}

impl Stop {
    const fn name(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::End => "end",
            Self::Context => "context",
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::MaxTokens => "limit of tokens reached",
            Self::End => "end token",
            Self::Context => "context full",
        }
    }
}
