//! Memory whose size follows from a file or from data is asked for, not taken: by `filled`, `collected`,
//! `with_room` and `Room` of ort-tensor.
//!
//! Other ways to a number of elements need the reason for which that is small, in the line or the one above:
//! `// bounded: by the rank`. Tests may do as they like.

use crate::problem::Problem;
use crate::repository::{File, Repository};
use crate::scan::code_of;

/// The crates that see sizes of files and data.
const CRATES: [&str; 4] = ["ort-graph", "ort-ops", "ort-ep-cpu", "ort-session"];

/// What takes memory and aborts where there is none.
const TAKERS: [&str; 9] = [
    "with_capacity(",
    ".reserve(",
    ".reserve_exact(",
    ".resize(",
    "from_elem(",
    "zeroed_vec(",
    "AlignedBuf::zeroed(",
    "AlignedBuf::lasting(",
    "AlignedBuf::copy_of(",
];

const REASON: &str = "// bounded: ";

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
    let taken = code[..end].lines().enumerate().filter(|(i, line)| takes(line) && !is_told(*i));
    let what =
        "ask for the memory (`ort_tensor::filled`), or say why it is little: `// bounded: …`";
    taken.map(|(i, _)| Problem::new(&file.path, i + 1, "memory", what)).collect()
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
mod tests {
let a = vec![0; n];
";
        assert_eq!(lines("ort-ops/src/ops/x.rs", text), [1, 7, 8]);
        assert_eq!(lines("ort-ops/src/properties/x.rs", text), []);
        assert_eq!(lines("ort-kernels/src/x.rs", text), []);
    }
}
