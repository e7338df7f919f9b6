//! Images: classes and lines of text.

use image::{Rgb, RgbImage};

use crate::{model, run};

/// The scores are the means of the three channels.
const MEANS: &str = "graph(x: float[1,3,8,8]) -> (y) {
  m = GlobalAveragePool-1 (x)
  y = Flatten-13 (m)
}";

#[test]
fn an_image_has_the_class_of_its_colour() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path(), MEANS);
    let labels = folder.path().join("labels.txt");
    std::fs::write(&labels, "red\ngreen\nblue\n").unwrap();
    for (colour, name) in [([255, 0, 0], "red"), ([0, 255, 0], "green"), ([0, 0, 255], "blue")] {
        let picture = folder.path().join("picture.png");
        RgbImage::from_pixel(20, 10, Rgb(colour)).save(&picture).unwrap();
        let args = [&model, &picture, &labels].map(|path| path.to_str().unwrap());
        let printed = run(env!("CARGO_BIN_EXE_classify"), &args);
        assert_eq!(printed.lines().count(), 3);
        assert!(printed.lines().next().unwrap().ends_with(name), "{printed}");
    }
}

/// One step per column. White is class 1, black is class 2, gray is blank.
const COLUMNS: &str = "graph(x: float[1,3,48,w]) -> (y) {
  columns = ReduceMean-13 [axes: [1, 2], keepdims: 0] (x)
  last = const int64[1] [2]
  column = Unsqueeze-13 (columns, last)
  weights = const float[1,3] [0.0, 1.0, -1.0]
  scores = MatMul-13 (column, weights)
  bias = const float[3] [0.5, 0.0, 0.0]
  y = Add-14 (scores, bias)
}";

#[test]
fn repeated_characters_count_once_unless_a_blank_is_between_them() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path(), COLUMNS);
    let dictionary = folder.path().join("dictionary.txt");
    std::fs::write(&dictionary, "a\nb\n").unwrap();
    let picture = folder.path().join("picture.png");
    let columns: [u8; 12] = [255, 255, 255, 0, 0, 0, 128, 128, 128, 0, 0, 0];
    let pixel = |x: u32, _| Rgb([columns[usize::try_from(x).unwrap()]; 3]);
    RgbImage::from_fn(12, 48, pixel).save(&picture).unwrap();
    let args = [&model, &picture, &dictionary].map(|path| path.to_str().unwrap());
    assert_eq!(run(env!("CARGO_BIN_EXE_ocr"), &args), "abb\n");
}
