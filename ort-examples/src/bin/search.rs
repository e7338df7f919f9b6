//! Embeds sentences with a model such as MiniLM, and finds those closest in meaning to a question.

#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::collections::HashMap;
use std::error::Error;

use ort_session::{Session, Tensor};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [model, vocabulary, sentences, question] = args.as_slice() else {
        return Err("usage: search MODEL VOCABULARY SENTENCES QUESTION".into());
    };
    let vocabulary = std::fs::read_to_string(vocabulary)?;
    let ids = vocabulary.lines().zip(0..).collect();
    let session = Session::builder().commit_from_file(model)?;
    let question = embed(&session, &ids, question)?;
    let mut found = Vec::new();
    for sentence in std::fs::read_to_string(sentences)?.lines() {
        let embedding = embed(&session, &ids, sentence)?;
        let cosine: f32 = embedding.iter().zip(&question).map(|(a, b)| a * b).sum();
        found.push((cosine, sentence.to_owned()));
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (cosine, sentence) in found.iter().take(3) {
        println!("{cosine:.3}  {sentence}");
    }
    Ok(())
}

/// The mean of the last hidden states, of length 1.
fn embed(session: &Session, ids: &HashMap<&str, i64>, text: &str) -> Result<Vec<f32>> {
    let tokens = tokens(ids, text)?;
    let n = tokens.len();
    let tensor = |data: &[i64]| Tensor::from_slice(&[1, n], data);
    let mut inputs = Vec::new();
    for input in session.inputs() {
        let data = match input.name.as_str() {
            "input_ids" => tensor(&tokens)?,
            "attention_mask" => tensor(&vec![1; n])?,
            "token_type_ids" => tensor(&vec![0; n])?,
            other => return Err(format!("the model has an unknown input {other}").into()),
        };
        inputs.push((input.name, data));
    }
    let outputs = session.run(inputs)?;
    let states = outputs[0].as_tensor()?;
    let width = states.shape().last().copied().ok_or("a scalar is not an embedding")?;
    let mut sum = vec![0.0_f32; width];
    for state in states.as_slice::<f32>()?.chunks_exact(width) {
        sum.iter_mut().zip(state).for_each(|(sum, x)| *sum += x);
    }
    let norm = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
    Ok(sum.iter().map(|x| x / norm).collect())
}

/// WordPiece: each word in lower case, split into the longest pieces in the vocabulary. (This supports only ASCII
/// words; the crate `tokenizers` is complete.)
fn tokens(ids: &HashMap<&str, i64>, text: &str) -> Result<Vec<i64>> {
    let id = |piece: &str| ids.get(piece).copied();
    let unknown = id("[UNK]").ok_or("the vocabulary has no [UNK]")?;
    let mut tokens = vec![id("[CLS]").unwrap_or(unknown)];
    let text = text.to_ascii_lowercase();
    for word in text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        let mut start = 0;
        while start < word.len() {
            let prefix = if start == 0 { "" } else { "##" };
            let piece = |end| Some((id(&format!("{prefix}{}", &word[start..end]))?, end));
            let longest = (start + 1..=word.len()).rev().find_map(piece);
            let (token, end) = longest.unwrap_or((unknown, word.len()));
            tokens.push(token);
            start = end;
        }
    }
    tokens.push(id("[SEP]").unwrap_or(unknown));
    Ok(tokens)
}
