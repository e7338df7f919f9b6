//! Reads a `.ort` file and writes it again: `rewrite IN OUT`. Prints the warnings of the reader.

use std::error::Error;
use std::io::Write;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(from), Some(to)) = (arguments.next(), arguments.next()) else {
        return Err("usage: rewrite IN OUT".into());
    };
    let bytes = std::fs::read(from)?;
    let (file, warnings) = ort_format::open_with_warnings(&bytes, &ort_format::Limits::default())?;
    for warning in warnings {
        writeln!(std::io::stderr(), "{warning}")?;
    }
    std::fs::write(to, ort_format::write(&file.to_record())?)?;
    Ok(())
}
