//! `memory MODEL [LEVEL]`: the process' private memory before, during and after a session.
#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::error::Error;

use ort_session::{Level, Session, process_memory};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: memory MODEL [LEVEL]")?;
    let level: Level = args.next().map_or(Ok(Level::All), |word| word.parse())?;
    let before = private_mib()?;
    let session = Session::builder().level(level).commit_from_file(path)?;
    let memory = session.memory();
    let loaded = private_mib()?;
    drop(session);
    let dropped = private_mib()?;
    let (packed, copied) = (mib(memory.packed_heap.n_bytes()), mib(memory.copied_bytes()));
    println!("private MiB: {before:.1} before, {loaded:.1} loaded, {dropped:.1} dropped");
    println!("  reported: {packed:.1} packed, {copied:.1} copied");
    println!("  beyond: {:.1}", loaded - before - packed - copied);
    Ok(())
}

fn private_mib() -> Result<f64, Box<dyn Error>> {
    let memory = process_memory()?.ok_or("this system does not report the memory of a process")?;
    Ok(mib(usize::try_from(memory.rss_anon)?))
}

fn mib(n_bytes: usize) -> f64 {
    n_bytes as f64 / f64::from(1 << 20)
}
