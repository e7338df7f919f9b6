//! Converts text to tokens, and tokens back to text while they are generated.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A tokenizer, as `tokenizer.json` describes it.
#[derive(Debug)]
pub(super) struct Words {
    path: PathBuf,
    #[cfg(feature = "tokenizers")]
    tokenizer: tokenizers::Tokenizer,
}

#[cfg(feature = "tokenizers")]
impl Words {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let tokenizer = tokenizers::Tokenizer::from_file(path);
        let tokenizer = tokenizer.map_err(|error| failed(path, &*error))?;
        Ok(Self { path: path.to_owned(), tokenizer })
    }

    /// The tokens of a text.
    pub(super) fn ids(&self, text: &str) -> Result<Vec<usize>, Failure> {
        let encoding = self.tokenizer.encode(text, true);
        let encoding = encoding.map_err(|error| failed(&self.path, &*error))?;
        Ok(encoding.get_ids().iter().map(|&id| id.try_into().unwrap_or(usize::MAX)).collect())
    }

    /// The text of tokens, without special ones.
    fn text(&self, ids: &[usize]) -> Result<String, Failure> {
        let ids: Vec<u32> = ids.iter().map(|&id| id.try_into().unwrap_or(u32::MAX)).collect();
        self.tokenizer.decode(&ids, true).map_err(|error| failed(&self.path, &*error))
    }
}

#[cfg(feature = "tokenizers")]
fn failed(path: &Path, error: &(dyn std::error::Error + Send + Sync)) -> Failure {
    Failure::Tokenizer { path: path.to_owned(), reason: error.to_string() }
}

#[cfg(not(feature = "tokenizers"))]
impl Words {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        Err(Self { path: path.to_owned() }.absent())
    }

    pub(super) fn ids(&self, _text: &str) -> Result<Vec<usize>, Failure> {
        Err(self.absent())
    }

    fn text(&self, _ids: &[usize]) -> Result<String, Failure> {
        Err(self.absent())
    }

    fn absent(&self) -> Failure {
        let reason =
            "this program was built without the feature `tokenizers`: use --ids".to_owned();
        Failure::Tokenizer { path: self.path.clone(), reason }
    }
}

/// Writes text or ids to standard output while they are generated.
#[derive(Debug)]
pub(super) struct Stream<'w> {
    words: Option<&'w Words>,
    is_shown: bool,
    /// How many tokens are shown.
    n_ids: usize,
    /// The first of the last tokens that were shown together: the text of a token depends on those before it.
    context: usize,
    /// How many bytes of the text are shown.
    n_bytes: usize,
}

impl<'w> Stream<'w> {
    pub(super) const fn new(words: Option<&'w Words>, is_shown: bool) -> Self {
        Self { words, is_shown, n_ids: 0, context: 0, n_bytes: 0 }
    }

    /// Shows the new tokens. An incomplete character is shown when it is complete.
    pub(super) fn show(&mut self, ids: &[usize]) -> Result<(), Failure> {
        if !self.is_shown {
            return Ok(());
        }
        let Some(words) = self.words else {
            let new: Vec<String> = ids[self.n_ids..].iter().map(usize::to_string).collect();
            let before = if self.n_ids == 0 { "" } else { " " };
            self.n_ids = ids.len();
            return shown(&format!("{before}{}", new.join(" ")));
        };
        shown(&self.new_text(words, ids)?)
    }

    /// The text since the last call, without an incomplete character at its end.
    fn new_text(&mut self, words: &Words, ids: &[usize]) -> Result<String, Failure> {
        let before = words.text(&ids[self.context..self.n_ids])?;
        let text = words.text(&ids[self.context..])?;
        let is_complete = !text.ends_with(char::REPLACEMENT_CHARACTER);
        let Some(new) = text.strip_prefix(&*before).filter(|_| is_complete) else {
            return Ok(String::new());
        };
        // A special token has no text, and what follows would start like a text.
        if !new.is_empty() {
            self.context = self.n_ids;
        }
        self.n_ids = ids.len();
        self.n_bytes += new.len();
        Ok(new.to_owned())
    }

    /// Shows the rest and ends the line. Returns the whole text.
    pub(super) fn end(self, ids: &[usize]) -> Result<Option<String>, Failure> {
        let text = self.words.map(|words| words.text(ids)).transpose()?;
        if self.is_shown {
            shown(text.as_ref().and_then(|text| text.get(self.n_bytes..)).unwrap_or_default())?;
            shown("\n")?;
        }
        Ok(text)
    }
}

fn shown(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Print)
}

#[cfg(all(test, feature = "tokenizers"))]
mod tests {
    use super::{Stream, Words};

    /// Words that start with a space, a special token, and bytes of a character.
    const TOKENIZER: &str = r#"{
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "pre_tokenizer": null,
        "post_processor": null,
        "added_tokens": [{"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true}],
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "_"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "WordLevel", "unk_token": "_a",
            "vocab": {"<s>": 0, "_a": 1, "_bc": 2, "d": 3, "<0xC3>": 4, "<0xA9>": 5}}
    }"#;

    #[test]
    fn text_is_shown_once_and_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        std::fs::write(&path, TOKENIZER).unwrap();
        let words = Words::open(&path).unwrap();
        for ids in [
            &[1, 2, 3, 0, 2, 4, 5, 1, 0, 0, 3, 4, 5, 1, 4][..],
            &[0, 0, 1, 3, 3],
            &[4, 5, 2, 2],
            &[0],
        ] {
            let (mut stream, mut all) = (Stream::new(Some(&words), true), String::new());
            for n in 1..=ids.len() {
                all += &stream.new_text(&words, &ids[..n]).unwrap();
            }
            let whole = words.text(ids).unwrap();
            assert_eq!(all, whole.trim_end_matches(char::REPLACEMENT_CHARACTER), "{ids:?}");
            assert_eq!(stream.n_bytes, all.len());
        }
    }
}
