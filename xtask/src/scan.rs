//! Separates Rust code from comments, strings and characters, so that a word or brace in them is
//! not mistaken for code.

/// `text` with every comment, string and character literal replaced by spaces. Lines and columns keep their numbers.
pub(crate) fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let n_hidden = hidden_len(rest);
        if n_hidden > 0 {
            let (hidden, after) = rest.split_at(n_hidden);
            code.extend(hidden.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = after;
        } else {
            let n_plain = word_len(rest).max(first.len_utf8());
            let (plain, after) = rest.split_at(n_plain);
            code.push_str(plain);
            rest = after;
        }
    }
    code
}

/// The words of `code` (identifiers, keywords, numbers) with their offsets.
pub(crate) fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut offset = 0;
    std::iter::from_fn(move || {
        offset += code[offset..].find(is_word)?;
        let word = &code[offset..offset + word_len(&code[offset..])];
        let start = offset;
        offset += word.len();
        Some((start, word))
    })
}

/// The number of the line with the byte at `offset`, counted from 1.
pub(crate) fn line_at(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// The number of leading bytes of `text` that are letters, digits or underscores.
pub(crate) fn word_len(text: &str) -> usize {
    text.find(|c| !is_word(c)).unwrap_or(text.len())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of the comment, string or character that `rest` starts with; zero if there is none.
fn hidden_len(rest: &str) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment_len(rest);
    }
    let (prefix, literal) = rest.split_at(word_len(rest));
    let len = match prefix {
        "" | "b" if literal.starts_with('\'') => character_len(literal),
        "" | "b" | "c" if literal.starts_with('"') => string_len(literal),
        "r" | "br" | "cr" => raw_string_len(literal),
        _ => 0,
    };
    if len == 0 { 0 } else { prefix.len() + len }
}

/// Block comments nest.
fn block_comment_len(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        let step = &rest[at..];
        if step.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if step.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += step.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

fn string_len(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

fn raw_string_len(rest: &str) -> usize {
    let n_hashes = rest.len() - rest.trim_start_matches('#').len();
    let Some(body) = rest[n_hashes..].strip_prefix('"') else {
        return 0; // A raw identifier: r#type.
    };
    let end = format!("\"{}", "#".repeat(n_hashes));
    body.find(&end).map_or(rest.len(), |at| n_hashes + 1 + at + end.len())
}

/// `'x'` and `'\n'` are characters, `'a` alone is a lifetime.
fn character_len(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => {
            // What follows the backslash may itself be a quote.
            let end = chars.skip(1).find(|&(_, c)| c == '\'');
            end.map_or(0, |(at, _)| at + 1)
        }
        Some(_) => match chars.next() {
            Some((at, '\'')) => at + 1,
            _ => 0,
        },
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_outside_code_is_blanked() {
        for (text, words) in [
            ("a // b\nc", "a c"),
            ("a /* b /* c */ d */ e", "a e"),
            ("a /* b\n*/ c", "a c"),
            ("a \"b \\\" c\" d", "a d"),
            ("r\"\\\" b", "b"),
            ("x r#\"a \" b\"# y", "x y"),
            ("br##\"\"# \"## y", "y"),
            ("b\"a\" c\"a\" b'a' y", "y"),
            ("'{' '\\'' '\\u{7f}' y", "y"),
            ("\"é\" 'ß' x // ü", "x"),
            ("&'a str, 'b: loop {}", "&'a str, 'b: loop {}"),
            ("r#type(0) for_r \"\"", "r#type(0) for_r"),
            ("\"unterminated {", ""),
            ("/* unterminated {", ""),
        ] {
            let code = code_of(text);
            assert_eq!(code.split_whitespace().collect::<Vec<_>>().join(" "), words, "{text}");
            let shape =
                |text: &str| text.lines().map(|line| line.chars().count()).collect::<Vec<_>>();
            assert_eq!(shape(&code), shape(text), "{text}");
        }
    }

    #[test]
    fn words_come_with_their_offsets() {
        let found: Vec<_> = words("fn f_1(x: &'a u8)").collect();
        assert_eq!(found, [(0, "fn"), (3, "f_1"), (7, "x"), (12, "a"), (14, "u8")]);
    }

    #[test]
    fn lines_are_counted_from_one() {
        assert_eq!([0, 1, 2].map(|offset| line_at("a\nb", offset)), [1, 1, 2]);
    }
}
