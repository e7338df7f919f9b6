//! Finds the functions of a file, their lengths and their parameters, without parsing Rust:
//! `fn`, a name, generics, parentheses, then the first brace at the same depth and its match.

use crate::scan::{code_of, line_at, word_len, words};

/// A function: what starts with `fn` and a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// The line of its `fn`, from one on.
    pub(crate) line: usize,
    /// Lines with code from `fn` to the closing brace; zero for a declaration without a body.
    pub(crate) n_lines: usize,
    /// Parameters, the receiver included.
    pub(crate) n_params: usize,
    /// Whether an attribute or comment declares it a table, with one line per entry.
    pub(crate) is_table: bool,
}

/// All functions of a source file, nested ones and those in macros included.
pub(crate) fn functions(text: &str) -> Vec<Function> {
    let code = code_of(text);
    let starts = words(&code).filter(|&(_, word)| word == "fn");
    starts.filter_map(|(start, _)| function(text, &code, start)).collect()
}

/// The function whose `fn` is at `start`; `None` for a pointer type or a macro's pattern.
fn function(text: &str, code: &str, start: usize) -> Option<Function> {
    let name_start = skip_blanks(code, start + "fn".len());
    let sigil_len = usize::from(code[name_start..].starts_with('$'));
    let name_end = name_start + sigil_len + word_len(&code[name_start + sigil_len..]);
    let open = skip_blanks(code, generics_end(code, name_end)?);
    if name_end == name_start || !code[open..].starts_with('(') {
        return None;
    }
    let close = matching(code, open)?;
    let n_lines = match body(code, close + 1) {
        Some(brace) => {
            let whole = &code[start..=matching(code, brace)?];
            whole.lines().filter(|line| !line.trim().is_empty()).count()
        }
        None => 0,
    };
    let line = line_at(code, start);
    Some(Function {
        name: code[name_start..name_end].into(),
        line,
        n_lines,
        n_params: n_items(&code[open + 1..close]),
        is_table: is_table(text, code, line),
    })
}

fn skip_blanks(code: &str, at: usize) -> usize {
    code.len() - code[at..].trim_start().len()
}

/// The offset after `<…>`, or `at` itself if there is none. The `>` of an arrow closes nothing.
fn generics_end(code: &str, at: usize) -> Option<usize> {
    if !code[at..].starts_with('<') {
        return Some(at);
    }
    let mut depth = 0_usize;
    let mut last = ' ';
    for (step, c) in code[at..].char_indices() {
        match c {
            '<' => depth += 1,
            '>' if last != '-' && last != '=' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(at + step + 1);
        }
        last = c;
    }
    None
}

/// The offset of the bracket that closes the one at `open`, whatever its kind.
fn matching(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (step, c) in code[open..].char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(open + step);
        }
    }
    None
}

/// The brace that opens the body of a function whose parameters end before `at`.
fn body(code: &str, at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (step, c) in code[at..].char_indices() {
        match c {
            '{' if depth == 0 => return Some(at + step),
            ';' | ')' | ']' | '}' if depth == 0 => return None,
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// How many items a list has, separated by commas outside all brackets.
fn n_items(list: &str) -> usize {
    let mut depth = 0_i32;
    let mut n_items = 0;
    let mut is_blank = true;
    let mut last = ' ';
    for c in list.chars() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            '>' if last == '-' || last == '=' => {}
            ')' | ']' | '}' | '>' => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 {
            is_blank = true;
        } else if is_blank && !c.is_whitespace() {
            is_blank = false;
            n_items += 1;
        }
        last = c;
    }
    n_items
}

/// Whether the comments and attributes above `line` hold `// table: …` or `reason = "table: …"`.
fn is_table(text: &str, code: &str, line: usize) -> bool {
    let above: Vec<_> = text.lines().zip(code.lines()).take(line - 1).collect();
    let belongs = |&&(raw, code): &&(&str, &str)| {
        !raw.trim().is_empty() && !code.trim_end().ends_with(['{', '}', ';'])
    };
    above.iter().rev().take_while(belongs).any(|(raw, _)| {
        raw.trim_start().starts_with("// table: ") || raw.contains("reason = \"table: ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str) -> Vec<(String, usize, usize, usize)> {
        let found = functions(text).into_iter();
        found.map(|f| (f.name, f.line, f.n_lines, f.n_params)).collect()
    }

    #[test]
    fn a_function_is_found_with_its_lines_and_parameters() {
        for (text, line, n_lines, n_params) in [
            ("fn f() {}", 1, 1, 0),
            ("\n\npub(crate) const fn f(x: u8) -> u8 {\n    x\n}", 3, 3, 1),
            ("fn f(&self,\n    map: HashMap<K, V>,\n) {\n}\n", 1, 4, 2),
            ("fn f<F: Fn(u8, u8) -> u8, const N: usize>(f: F, x: [u8; N]) where F: X {}", 1, 1, 2),
            ("fn f(g: impl Fn(A, B) -> C, (a, b): (u8, u8));", 1, 0, 2),
            ("fn f() -> [u8; 3] {\n    [0; 3]\n}", 1, 3, 0),
            ("fn f() {\n    // a comment\n\n    let s = \"}\";\n}", 1, 3, 0),
            ("fn f() {\n    let text = \"\n    }\n    \";\n}", 1, 4, 0),
        ] {
            assert_eq!(sizes(text), [("f".into(), line, n_lines, n_params)], "{text}");
        }
    }

    #[test]
    fn nested_functions_and_those_of_macros_are_found() {
        let text = "fn outer() {\n    fn inner() {\n    }\n}\nmacro_rules! m {\n    ($name:ident) => {\n        fn $name(x: u8) {}\n    };\n}";
        let expected =
            [("outer".into(), 1, 4, 0), ("inner".into(), 2, 2, 0), ("$name".into(), 7, 1, 1)];
        assert_eq!(sizes(text), expected);
    }

    #[test]
    fn only_functions_are_found() {
        for text in [
            "type F = fn(u8) -> u8;",
            "macro_rules! m { (fn $name:ident($($arg:ident),*)) => {}; }",
            "// fn f() {}",
            "\"fn f() {}\"",
            "let fn_like = 1;",
            "fn",
            "fn f(",
            "fn f() {",
        ] {
            assert_eq!(sizes(text), [], "{text}");
        }
    }

    #[test]
    fn a_table_is_declared_right_above() {
        for (text, is_table) in [
            ("// table: one arm an operator\nfn f() {}", true),
            ("/// Doc.\n// table: one arm an operator\n#[inline]\nfn f() {}", true),
            (
                "#[expect(\n    clippy::too_many_lines,\n    reason = \"table: one line a case\"\n)]\nfn f() {}",
                true,
            ),
            ("/// Reads a table: slowly.\nfn f() {}", false),
            ("// table: of g\nfn g() {}\nfn f() {}", false),
            ("// table: of nothing\n\nfn f() {}", false),
        ] {
            let found = functions(text).pop().map(|f| f.is_table);
            assert_eq!(found, Some(is_table), "{text}");
        }
    }
}
