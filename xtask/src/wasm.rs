//! The JavaScript of a WebAssembly module, as the program `wasm-bindgen` makes it.

use std::path::PathBuf;

use clap::Args;
use wasm_bindgen_cli_support::Bindgen;

use crate::problem::{Failure, Problem};

/// Which module, and where its JavaScript goes.
#[derive(Args)]
pub(crate) struct Arguments {
    /// What cargo made of the crate
    module: PathBuf,
    /// The folder for `NAME.js` and `NAME_bg.wasm`
    folder: PathBuf,
}

/// Writes an ES module that fetches the WebAssembly module next to it, or takes it from its caller.
pub(crate) fn run(arguments: &Arguments) -> Result<Vec<Problem>, Failure> {
    let mut bindgen = Bindgen::new();
    bindgen.input_path(&arguments.module).typescript(false);
    let made = bindgen.web(true).and_then(|bindgen| bindgen.generate(&arguments.folder));
    made.map(|()| Vec::new()).map_err(|reason| Failure::Module {
        module: arguments.module.clone(),
        reason: format!("{reason:#}"),
    })
}
