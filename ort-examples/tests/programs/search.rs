//! Embeddings of sentences.

use crate::{model, run};

/// A table of embeddings: one row per token, and one column each for fruit, animals and the rest.
const TABLE: &str = "graph(input_ids: int64[1,n], attention_mask: int64[1,n]) -> (states) {
  table = const float[8,3] [0.0, 0.0, 0.1, 0.0, 0.0, 0.1, 0.0, 0.0, 0.1, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.1]
  states = Gather-13 (table, input_ids)
}";

#[test]
fn the_sentence_that_means_the_same_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path(), TABLE);
    let vocabulary = folder.path().join("vocabulary.txt");
    std::fs::write(&vocabulary, "[UNK]\n[CLS]\n[SEP]\napple\npear\ncat\ndog\n##s\n").unwrap();
    let sentences = folder.path().join("sentences.txt");
    std::fs::write(&sentences, "A cat.\nSome apples!\nNothing.\nA dog and an apple\n").unwrap();
    let paths = [&model, &vocabulary, &sentences].map(|path| path.to_str().unwrap());
    let args = [paths[0], paths[1], paths[2], "Pears?"];
    let printed = run(env!("CARGO_BIN_EXE_search"), &args);
    let found: Vec<_> = printed.lines().map(|line| line.split_once("  ").unwrap().1).collect();
    assert_eq!(found, ["Some apples!", "A dog and an apple", "Nothing."]);
}
