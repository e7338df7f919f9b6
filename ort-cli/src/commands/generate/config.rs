//! A model's `genai_config.json`, if there is one: names of inputs and outputs, end tokens, and sampling parameters.
//!
//! Source: onnxruntime-genai 0.9, `src/config.h`; missing fields have their defaults.

use std::fs;
use std::path::Path;

use serde_json::Value as Json;

use crate::failure::Failure;

/// The contents of the file.
#[derive(Clone, Debug, Default)]
pub(super) struct GenaiConfig(Json);

impl GenaiConfig {
    /// Reads the file in the model's folder; empty if there is none.
    pub(super) fn of_model(model: &Path) -> Result<Self, Failure> {
        let path = model.with_file_name("genai_config.json");
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => return Err(Failure::Config { path, reason: error.to_string() }),
        };
        let json = serde_json::from_slice(&bytes);
        json.map(Self).map_err(|error| Failure::Config { path, reason: error.to_string() })
    }

    /// The model's name for an input or output of the decoder.
    pub(super) fn name<'n>(&'n self, kind: &str, key: &'n str) -> &'n str {
        self.0["model"]["decoder"][kind][key].as_str().unwrap_or(key)
    }

    /// Name patterns of outputs, and of the inputs that they become, if the file has both.
    pub(super) fn pairs(&self) -> Vec<(String, String)> {
        let decoder = &self.0["model"]["decoder"];
        let pair = |part: &str| {
            let output = decoder["outputs"][format!("present_{part}_names")].as_str()?;
            let input = decoder["inputs"][format!("past_{part}_names")].as_str()?;
            Some((output.to_owned(), input.to_owned()))
        };
        ["key", "value"].iter().filter_map(|part| pair(part)).collect()
    }

    /// The tokens that end generation.
    pub(super) fn ends(&self) -> Vec<usize> {
        match &self.0["model"]["eos_token_id"] {
            Json::Array(ids) => ids.iter().filter_map(id).collect(),
            one => id(one).into_iter().collect(),
        }
    }

    /// The model's maximum number of tokens.
    pub(super) fn context_length(&self) -> Option<usize> {
        id(&self.0["model"]["context_length"])
    }

    /// `top_k`, if sampling is enabled.
    pub(super) fn top_k(&self) -> Option<usize> {
        id(&self.0["search"]["top_k"]).filter(|_| self.is_sampled())
    }

    fn is_sampled(&self) -> bool {
        self.0["search"]["do_sample"].as_bool().unwrap_or(false)
    }

    /// A number of `search`; `None` for a sampling parameter if sampling is disabled.
    pub(super) fn search(&self, key: &str) -> Option<f32> {
        let number = self.0["search"][key].as_f64();
        let number = number.filter(|_| self.is_sampled() || key == "repetition_penalty")?;
        #[expect(clippy::cast_possible_truncation, reason = "a setting with few decimals")]
        Some(number as f32)
    }
}

fn id(json: &Json) -> Option<usize> {
    json.as_u64().and_then(|id| id.try_into().ok())
}
