//! Identifies the contents of files by the crate `magika`, with the model inside it. Prints the label and score of each.

#![forbid(unsafe_code)]

use std::error::Error;

use magika::Session;

fn main() -> Result<(), Box<dyn Error>> {
    let mut session = Session::builder().with_intra_threads(1).build()?;
    for path in std::env::args().skip(1) {
        let found = session.identify_file_sync(&path)?;
        println!("{} {}", found.info().label, found.score());
    }
    Ok(())
}
