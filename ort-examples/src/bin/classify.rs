//! Classifies an image: decodes and resizes it, runs the model, and prints the five classes with the highest scores.

#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::error::Error;

use image::imageops::FilterType;
use ort_session::{Dim, Session, Tensor, Type};

/// Mean and standard deviation of each channel in ImageNet. Models trained with other values document them.
const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const STD: [f32; 3] = [0.229, 0.224, 0.225];

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(model), Some(picture)) = (args.next(), args.next()) else {
        return Err("usage: classify MODEL PICTURE [LABELS]".into());
    };
    let labels = args.next().map(std::fs::read_to_string).transpose()?.unwrap_or_default();
    let labels: Vec<_> = labels.lines().collect();

    let session = Session::builder().commit_from_file(model)?;
    let inputs = session.inputs();
    let input = inputs.first().ok_or("the model has no input")?;
    let [height, width] = size(&input.ty);
    let x = preprocess(&picture, height, width)?;
    let outputs = session.run([(input.name.as_str(), &x)])?;
    let scores = outputs[0].as_tensor()?.as_slice::<f32>()?;
    for (class, score) in top(scores, 5) {
        println!("{score:8.4}  {class} {}", labels.get(class).unwrap_or(&""));
    }
    Ok(())
}

/// Height and width of an NCHW input; 224 for free dimensions.
fn size(ty: &Type) -> [usize; 2] {
    let Type::Tensor(tensor) = ty else { return [224, 224] };
    let dim = |axis: usize| match tensor.dims.as_ref().and_then(|dims| dims.get(axis)) {
        Some(Dim::Known(n)) => *n,
        _ => 224,
    };
    [dim(2), dim(3)]
}

/// The image as float[1, 3, height, width] in RGB order, normalized.
fn preprocess(path: &str, height: usize, width: usize) -> Result<Tensor, Box<dyn Error>> {
    let (h, w) = (u32::try_from(height)?, u32::try_from(width)?);
    let picture = image::open(path)?.resize_exact(w, h, FilterType::Triangle).to_rgb8();
    let mut x = Vec::with_capacity(3 * height * width);
    for channel in 0..3 {
        let normalized = |byte: u8| (f32::from(byte) / 255.0 - MEAN[channel]) / STD[channel];
        x.extend(picture.pixels().map(|pixel| normalized(pixel[channel])));
    }
    Ok(Tensor::from_slice(&[1, 3, height, width], &x)?)
}

/// The classes with the highest scores, best first.
fn top(scores: &[f32], n: usize) -> Vec<(usize, f32)> {
    let mut classes: Vec<_> = scores.iter().copied().enumerate().collect();
    classes.sort_by(|a, b| b.1.total_cmp(&a.1));
    classes.truncate(n);
    classes
}
