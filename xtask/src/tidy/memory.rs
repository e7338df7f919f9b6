//! Memory whose size follows from a file or from data is allocated with a check: by `filled`, `collected`,
//! `with_room` and `Room` of ort-tensor.
//!
//! Other allocations of a variable number of elements state their bound, in the line or the one above:
//! `// bounded: by the rank`. For `collect` and `extend`, a file may state one bound, above its first line of code:
//! `// collects are bounded: by the rank`. Tests are exempt.

use crate::problem::Problem;
use crate::repository::{File, Repository};
use crate::scan::{code_of, line_at};

/// The crates that see sizes of files and data.
const CRATES: [&str; 4] = ["ort-graph", "ort-ops", "ort-ep-cpu", "ort-session"];

/// Calls that allocate memory and abort where there is none.
const ALLOCATORS: [&str; 8] = [
    "with_capacity(",
    ".reserve(",
    ".reserve_exact(",
    "from_elem(",
    "zeroed_vec(",
    "AlignedBuf::zeroed(",
    "AlignedBuf::lasting(",
    "AlignedBuf::copy_of(",
];

/// Calls that allocate as many elements as an iterator or a slice has.
const COLLECTORS: [&str; 6] =
    [".collect()", ".collect::<", ".extend(", ".extend_from_slice(", "::from_iter(", "into_owned"];
/// Methods that `Room` has as well, with a check: unlike those of vectors, they return a result that is used.
const COUNTED: [&str; 2] = [".extend(", ".resize("];

const REASON: &str = "// bounded: ";
/// The same for all collects of a file.
const REASON_OF_FILE: &str = "// collects are bounded: ";

/// Reports unchecked allocations.
pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    let files = repository.with_extension("rs").filter(|file| is_ours(&file.path));
    files.flat_map(problems).collect()
}

/// Whether it is a source of these crates, and not a test.
fn is_ours(path: &str) -> bool {
    let mut parts = path.split('/');
    let (name, folder) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let is_test = |part: &str| matches!(part, "properties" | "testing" | "tests.rs" | "testing.rs");
    CRATES.contains(&name)
        && folder == "src"
        && !parts.any(is_test)
        && !path.ends_with("src/case.rs")
        && !path.contains("src/case/")
}

fn problems(file: &File) -> Vec<Problem> {
    let code = code_of(&file.text);
    // Tests are last, in their own module.
    let end = code.find("mod tests {").unwrap_or(code.len());
    let lines: Vec<&str> = file.text.lines().collect();
    let has_reason = |i: usize| {
        let above = i.checked_sub(1).map_or("", |above| lines[above]);
        [lines[i], above].iter().any(|line| line.contains(REASON))
    };
    let takes = |line: &str| ALLOCATORS.iter().any(|taker| line.contains(taker)) || repeats(line);
    let code = &code[..end];
    let taking = code.lines().enumerate().filter(|(_, line)| takes(line)).map(|(i, _)| i);
    let taken = taking.chain(uncounted(code, &[".resize("])).filter(|i| !has_reason(*i));
    let what = "allocate with a check (`ort_tensor::filled`), or state the bound: `// bounded: …`";
    let mut problems: Vec<_> =
        taken.map(|i| Problem::new(&file.path, i + 1, "memory", what)).collect();
    let collects = uncounted(code, &COLLECTORS);
    match reason_of_file(&file.text) {
        Some(i) if collects.is_empty() => {
            problems.push(Problem::new(&file.path, i + 1, "memory", "nothing is collected here"));
        }
        Some(_) => {}
        None => {
            let what = "collect by `ort_tensor::collected`, or state the bound: `// bounded: …`";
            let unexplained = collects.into_iter().filter(|i| !has_reason(*i));
            problems.extend(unexplained.map(|i| Problem::new(&file.path, i + 1, "memory", what)));
        }
    }
    problems
}

/// The line of the bound for all collects of the file: a comment above the first line of code.
fn reason_of_file(text: &str) -> Option<usize> {
    let comments = text.lines().take_while(|line| line.is_empty() || line.starts_with("//"));
    comments.enumerate().find(|(_, line)| line.starts_with(REASON_OF_FILE)).map(|(i, _)| i)
}

/// The lines with an unchecked call of one of these, each once.
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

/// What follows the closing parenthesis of a call; `code` begins with its arguments.
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

/// `vec![value; n]` where `n` is not a literal.
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
    fn memory_is_allocated_with_a_check_or_has_a_bound() {
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
    fn collects_are_counted_or_have_a_bound() {
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
        // The bound must be above all code.
        assert_eq!(lines(path, &format!("{text}\n{reason}")), [2, 6, 11]);
        assert_eq!(lines(path, &format!("//! X.\n{reason}let a = vec![0; n];\n")), [3, 2]);
    }
}
