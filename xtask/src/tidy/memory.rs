//! Memory whose size follows from a file or from data is asked for, not taken: by `filled`, `collected`,
//! `with_room` and `Room` of ort-tensor.
//!
//! Other ways to a number of elements need the reason for which that is small, in the line or the one above:
//! `// bounded: by the rank`. For what is collected, and what vectors are extended by, a file may state one reason,
//! above its first line of code: `// collects are bounded: by the rank`. Tests may do as they like.

use crate::problem::Problem;
use crate::repository::{File, Repository};
use crate::scan::{code_of, line_at};

/// The crates that see sizes of files and data.
const CRATES: [&str; 4] = ["ort-graph", "ort-ops", "ort-ep-cpu", "ort-session"];

/// What takes memory and aborts where there is none.
const TAKERS: [&str; 8] = [
    "with_capacity(",
    ".reserve(",
    ".reserve_exact(",
    "from_elem(",
    "zeroed_vec(",
    "AlignedBuf::zeroed(",
    "AlignedBuf::lasting(",
    "AlignedBuf::copy_of(",
];

/// What takes memory for as many elements as an iterator or a slice has.
const COLLECTORS: [&str; 5] =
    [".collect()", ".collect::<", ".extend(", ".extend_from_slice(", "::from_iter("];
/// What `Room` has, too, where it is counted: unlike that of vectors, its result is looked at.
const COUNTED: [&str; 2] = [".extend(", ".resize("];

const REASON: &str = "// bounded: ";
/// The same for all that a file collects.
const REASON_OF_FILE: &str = "// collects are bounded: ";

/// Reports memory that is taken without being asked for.
pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    let files = repository.with_extension("rs").filter(|file| is_ours(&file.path));
    files.flat_map(problems).collect()
}

/// Whether it is a source of these crates, and no test.
fn is_ours(path: &str) -> bool {
    let mut parts = path.split('/');
    let (name, folder) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let is_test = |part: &str| matches!(part, "properties" | "testing" | "tests.rs" | "testing.rs");
    CRATES.contains(&name)
        && folder == "src"
        && !parts.any(is_test)
        && !path.ends_with("src/case.rs")
}

fn problems(file: &File) -> Vec<Problem> {
    let code = code_of(&file.text);
    // Tests stand last, in a module of their own.
    let end = code.find("mod tests {").unwrap_or(code.len());
    let lines: Vec<&str> = file.text.lines().collect();
    let is_told = |i: usize| {
        let above = i.checked_sub(1).map_or("", |above| lines[above]);
        [lines[i], above].iter().any(|line| line.contains(REASON))
    };
    let takes = |line: &str| TAKERS.iter().any(|taker| line.contains(taker)) || repeats(line);
    let code = &code[..end];
    let taking = code.lines().enumerate().filter(|(_, line)| takes(line)).map(|(i, _)| i);
    let taken = taking.chain(uncounted(code, &[".resize("])).filter(|i| !is_told(*i));
    let what =
        "ask for the memory (`ort_tensor::filled`), or say why it is little: `// bounded: …`";
    let mut problems: Vec<_> =
        taken.map(|i| Problem::new(&file.path, i + 1, "memory", what)).collect();
    let collects = uncounted(code, &COLLECTORS);
    match reason_of_file(&file.text) {
        Some(i) if collects.is_empty() => {
            problems.push(Problem::new(&file.path, i + 1, "memory", "nothing is collected here"));
        }
        Some(_) => {}
        None => {
            let what =
                "collect by `ort_tensor::collected`, or say why it is little: `// bounded: …`";
            let untold = collects.into_iter().filter(|i| !is_told(*i));
            problems.extend(untold.map(|i| Problem::new(&file.path, i + 1, "memory", what)));
        }
    }
    problems
}

/// The line of the reason for all that the file collects: a comment above the first line of code.
fn reason_of_file(text: &str) -> Option<usize> {
    let comments = text.lines().take_while(|line| line.is_empty() || line.starts_with("//"));
    comments.enumerate().find(|(_, line)| line.starts_with(REASON_OF_FILE)).map(|(i, _)| i)
}

/// The lines in which one of these stands and is not counted, each once.
fn uncounted(code: &str, ways: &[&str]) -> Vec<usize> {
    let found = ways.iter().flat_map(|way| code.match_indices(way));
    let uncounted = found.filter(|(at, way)| {
        !COUNTED.contains(way) || !after_call(&code[at + way.len()..]).starts_with('?')
    });
    let mut lines: Vec<_> = uncounted.map(|(at, _)| line_at(code, at) - 1).collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

/// What follows the parenthesis that closes a call, of which `code` begins with the arguments.
fn after_call(code: &str) -> &str {
    let mut depth = 1_usize;
    for (i, c) in code.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &code[i + 1..];
        }
    }
    ""
}

/// `vec![value; n]`, of which `n` is no number.
fn repeats(line: &str) -> bool {
    let after = line.split("vec![").skip(1);
    { after }.any(|after| {
        let mut depth = 0_usize;
        let mut count = None;
        for (i, c) in after.char_indices() {
            match c {
                '(' | '[' | '{' => depth += 1,
                ']' if depth == 0 => {
                    let n = count.map(|start: usize| after[start..i].trim());
                    return n.is_some_and(|n| n.parse::<usize>().is_err());
                }
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                ';' if depth == 0 => count = Some(i + 1),
                _ => {}
            }
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        if is_ours(path) { problems(&file).iter().map(|it| it.line).collect() } else { Vec::new() }
    }

    #[test]
    fn memory_is_asked_for_or_told_to_be_little() {
        let text = "\
let a = vec![0; n];
let b = vec![0; 4];
let c = vec![f(x[0; 1]), y];
let d = Vec::with_capacity(n); // bounded: by the rank
// bounded: by the rank
let e = Shape::from_elem(1, rank);
let f = Vec::with_capacity(n); // as many as there are
e.resize(n, 0);
room.resize(n, 0)?;
mod tests {
let a = vec![0; n];
";
        assert_eq!(lines("ort-ops/src/ops/x.rs", text), [1, 7, 8]);
        assert_eq!(lines("ort-ops/src/properties/x.rs", text), []);
        assert_eq!(lines("ort-kernels/src/x.rs", text), []);
    }

    #[test]
    fn what_is_collected_is_counted_or_told_to_be_little() {
        let text = "\
use a::b;
let a: Vec<_> = items.map(f).collect();
let b = items.collect::<Vec<_>>(); // bounded: by the rank
// bounded: by the rank
let c: Shape = items.collect();
vector.extend(items.map(|(a, b)| a + b));
room.extend(items.map(|(a, b)| f(a)(b)))?;
room.extend(
    items,
)?;
vector.extend_from_slice(all); let d = Shape::from_iter(all);
let e = collected(items)?; // .collect()
mod tests {
let f = items.collect();
";
        let path = "ort-session/src/x.rs";
        assert_eq!(lines(path, text), [2, 6, 11]);
        let reason = "// collects are bounded: by the rank\n";
        assert_eq!(lines(path, &format!("//! X.\n\n{reason}{text}")), []);
        // A reason stands above all code, and where it is one.
        assert_eq!(lines(path, &format!("{text}\n{reason}")), [2, 6, 11]);
        assert_eq!(lines(path, &format!("//! X.\n{reason}let a = vec![0; n];\n")), [3, 2]);
    }
}
