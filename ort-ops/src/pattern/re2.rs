//! Patterns of RE2 in the syntax of `regex_syntax`.

// collects are bounded: by a pattern, of at most 64 KiB

use regex_syntax::ast::ClassAsciiKind;

/// `pattern` as `regex_syntax` writes what it means in RE2: `None` if RE2 has no such pattern.
pub(super) fn translated(pattern: &str) -> Option<String> {
    let mut translated = String::new();
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let (before, after) = rest.split_at(c.len_utf8());
        rest = match c {
            '\\' => escape(after, false, &mut translated)?,
            '[' => class(after, &mut translated)?,
            '{' if !is_count(after) => {
                translated.push_str(r"\{");
                after
            }
            '(' if has_unknown_flag(after) => return None,
            _ => {
                translated.push_str(before);
                after
            }
        };
    }
    Some(translated)
}

/// Whether `{` and `rest` are `{n}`, `{n,}` or `{n,m}`: other braces are characters.
fn is_count(rest: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit();
    let after_least = rest.trim_start_matches(is_digit);
    let after_most = match after_least.strip_prefix(',') {
        Some(most) => most.trim_start_matches(is_digit),
        None => after_least,
    };
    after_least.len() < rest.len() && after_most.starts_with('}')
}

/// Whether `(` and `rest` set flags that RE2 does not have.
fn has_unknown_flag(rest: &str) -> bool {
    let flags = rest.strip_prefix('?').unwrap_or_default();
    let mut flags = flags.chars().take_while(|&c| c.is_ascii_alphabetic() || c == '-');
    !rest.starts_with("?P<") && flags.any(|c| !matches!(c, 'i' | 'm' | 's' | 'U' | '-'))
}

/// Translates a class after its bracket, in which brackets and operators of sets are characters. Returns what
/// follows it.
fn class<'a>(mut rest: &'a str, translated: &mut String) -> Option<&'a str> {
    translated.push('[');
    if let Some(after) = rest.strip_prefix('^') {
        translated.push('^');
        rest = after;
    }
    let (mut is_first, mut is_range) = (true, false);
    loop {
        let c = rest.chars().next()?;
        let (before, after) = rest.split_at(c.len_utf8());
        let was_range = std::mem::take(&mut is_range);
        rest = match c {
            ']' if !is_first => {
                translated.push(']');
                return Some(after);
            }
            '\\' => escape(after, true, translated)?,
            '[' if after.starts_with(':') => {
                let (name, after) = after[1..].split_once(":]")?;
                ClassAsciiKind::from_name(name.strip_prefix('^').unwrap_or(name))?;
                translated.extend(["[:", name, ":]"]);
                after
            }
            '-' if !is_first && !was_range => {
                is_range = true;
                translated.push('-');
                after
            }
            '[' | ']' | '&' | '~' | '-' => {
                translated.extend([r"\", before]);
                after
            }
            _ => {
                translated.push_str(before);
                after
            }
        };
        is_first = false;
    }
}

/// Translates what is after a backslash: classes and word boundaries are ASCII, `\Q...\E` is a text.
fn escape<'a>(rest: &'a str, in_class: bool, translated: &mut String) -> Option<&'a str> {
    let c = rest.chars().next()?;
    let after = &rest[c.len_utf8()..];
    let text = match c {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => r"[\t\n\f\r\x20]",
        'S' => r"[^\t\n\f\r\x20]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        'b' if !in_class => r"(?-u:\b)",
        'B' if !in_class => r"(?-u:\B)",
        '<' => "<",
        '>' => ">",
        'Q' if !in_class => {
            let (text, after) = after.split_once(r"\E").unwrap_or((after, ""));
            translated.push_str(&regex_syntax::escape(text));
            return Some(after);
        }
        '0'..='7' => {
            let n_digits = rest.bytes().take(3).take_while(|c| matches!(c, b'0'..=b'7')).count();
            let (digits, after) = rest.split_at(n_digits);
            // A single digit would refer to a group.
            let code = u32::from_str_radix(digits, 8).ok().filter(|_| c == '0' || n_digits > 1)?;
            translated.push_str(&format!(r"\x{{{code:x}}}"));
            return Some(after);
        }
        'p' | 'P' | 'x' if after.starts_with('{') => {
            let (name, after) = after.split_once('}')?;
            translated.extend(["\\", &rest[..1], name, "}"]);
            return Some(after);
        }
        'b' | 'B' | 'Q' | 'u' | 'U' => return None,
        _ => {
            translated.extend(['\\', c]);
            return Some(after);
        }
    };
    translated.push_str(text);
    Some(after)
}
