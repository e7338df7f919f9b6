//! The same as `run.c` through the crate `ort`, which loads the library that `ORT_DYLIB_PATH` names.

#![forbid(unsafe_code)]

use std::error::Error;
use std::path::Path;

use ort::ep::CPU;
use ort::session::Session;
use ort::value::{DynValue, Tensor};

/// An input: `NAME:TYPE:DIMS:FILE`.
fn input(text: &str) -> Result<(String, DynValue), Box<dyn Error>> {
    let parts: Vec<&str> = text.splitn(4, ':').collect();
    let &[name, number, dims, path] = &parts[..] else {
        return Err("an input has four parts".into());
    };
    let dims = dims.split(',').filter(|dim| *dim != "s").map(str::parse);
    let (dims, bytes) = (dims.collect::<Result<Vec<i64>, _>>()?, std::fs::read(path)?);
    let value = match number {
        "1" => {
            let items = bytes.as_chunks().0.iter().map(|item| f32::from_le_bytes(*item));
            Tensor::from_array((dims, items.collect::<Vec<_>>()))?.into_dyn()
        }
        "6" => {
            let items = bytes.as_chunks().0.iter().map(|item| i32::from_le_bytes(*item));
            Tensor::from_array((dims, items.collect::<Vec<_>>()))?.into_dyn()
        }
        _ => {
            let items = bytes.as_chunks().0.iter().map(|item| i64::from_le_bytes(*item));
            Tensor::from_array((dims, items.collect::<Vec<_>>()))?.into_dyn()
        }
    };
    Ok((name.to_owned(), value))
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, folder, inputs @ ..] = &arguments[..] else {
        return Err("run MODEL FOLDER NAME:TYPE:DIMS:FILE…".into());
    };
    let environment = ort::init().with_name("run").build()?;
    let builder = Session::builder(&environment)?.with_intra_threads(1)?;
    let mut builder = builder.with_execution_providers([CPU::default().build()])?;
    let mut session = builder.commit_from_file(model)?;
    let inputs = inputs.iter().map(|text| input(text)).collect::<Result<Vec<_>, _>>()?;
    let outputs = session.run(inputs)?;
    for (i, (_, output)) in outputs.iter().enumerate() {
        let bytes: Vec<u8> = match output.try_extract_tensor::<f32>() {
            Ok((_, items)) => items.iter().flat_map(|item| item.to_le_bytes()).collect(),
            Err(_) => {
                let items = output.try_extract_tensor::<i64>()?.1;
                items.iter().flat_map(|item| item.to_le_bytes()).collect()
            }
        };
        std::fs::write(Path::new(folder).join(format!("{i}.bin")), bytes)?;
    }
    Ok(())
}
