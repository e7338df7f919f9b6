//! Recognizes a line of text in an image with a recognition model of PP-OCR and its dictionary.

#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::error::Error;

use image::imageops::FilterType;
use ort_session::{Session, Tensor};

/// The height that the models require; the width follows from the image.
const HEIGHT: u32 = 48;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(model), Some(picture), Some(dictionary)) = (args.next(), args.next(), args.next())
    else {
        return Err("usage: ocr MODEL PICTURE DICTIONARY".into());
    };
    let dictionary = std::fs::read_to_string(dictionary)?;
    let session = Session::builder().commit_from_file(model)?;
    let inputs = session.inputs();
    let input = inputs.first().ok_or("the model has no input")?;
    let x = preprocess(&picture)?;
    let outputs = session.run([(input.name.as_str(), &x)])?;
    let scores = outputs[0].as_tensor()?;
    println!("{}", decode(scores, &dictionary)?);
    Ok(())
}

/// The image as float[1, 3, 48, width], from -1 to 1, in BGR order as in training.
fn preprocess(path: &str) -> Result<Tensor, Box<dyn Error>> {
    let picture = image::open(path)?;
    let width = (picture.width() * HEIGHT).div_ceil(picture.height()).max(1);
    let picture = picture.resize_exact(width, HEIGHT, FilterType::Triangle).to_rgb8();
    let mut x = Vec::new();
    for channel in [2, 1, 0] {
        x.extend(picture.pixels().map(|pixel| f32::from(pixel[channel]) / 127.5 - 1.0));
    }
    Ok(Tensor::from_slice(&[1, 3, usize::try_from(HEIGHT)?, usize::try_from(width)?], &x)?)
}

/// The text of float[1, steps, classes], by greedy CTC decoding: the best class of each step, where repeated classes
/// count once and class 0 is blank. The classes after it are the lines of the dictionary, and a space.
fn decode(scores: &Tensor, dictionary: &str) -> Result<String, Box<dyn Error>> {
    let characters: Vec<_> = dictionary.lines().chain([" "]).collect();
    let &[1, _, n_classes] = scores.shape() else {
        return Err(
            format!("scores of shape {:?}, expected [1, steps, classes]", scores.shape()).into()
        );
    };
    let (mut text, mut last) = (String::new(), 0);
    for step in scores.as_slice::<f32>()?.chunks_exact(n_classes) {
        let best = step.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        let best = best.map_or(0, |(class, _)| class);
        if best != 0 && best != last {
            text += characters.get(best - 1).ok_or("the dictionary does not match the model")?;
        }
        last = best;
    }
    Ok(text)
}
