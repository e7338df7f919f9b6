//! Loads one model in many processes, which share the constants in a cache folder.

#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::error::Error;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use ort_session::{Session, process_memory};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [model, folder] => worker(model, folder),
        [model, folder, n] => manager(model, folder, n.parse()?),
        _ => Err("usage: processes MODEL CACHE_FOLDER [N_PROCESSES]".into()),
    }
}

/// Starts the processes, and stops them once all have loaded the model.
fn manager(model: &str, folder: &str, n: usize) -> Result<(), Box<dyn Error>> {
    // The first one optimizes the model and packs its constants into a file; the others map that file.
    let mut processes = Vec::new();
    for i in 0..n {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([model, folder]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let mut line = String::new();
        let output = process.stdout.take().ok_or("no output")?;
        BufReader::new(output).read_line(&mut line)?;
        print!("process {i}: {line}");
        processes.push(process);
    }
    for mut process in processes {
        drop(process.stdin.take());
        process.wait()?;
    }
    Ok(())
}

/// Loads the model, reports how, and waits for the end of its input.
fn worker(model: &str, folder: &str) -> Result<(), Box<dyn Error>> {
    let session = Session::builder().cache_dir(folder).commit_from_file(model)?;
    let metadata = session.metadata();
    let memory = session.memory();
    let own = process_memory()?.map_or(0, |memory| memory.rss_anon / 1024);
    println!(
        "cache {:?}, loaded in {:.1?}, {} KiB of constants mapped, {} KiB packed in private memory, {own} KiB private",
        metadata.cache,
        metadata.load_time,
        memory.packed_mapped.usage.virtual_bytes / 1024,
        memory.packed_heap.usage.virtual_bytes / 1024,
    );
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
