//! File names with wildcards: `*` is any text, `?` any one character.

use std::str::FromStr;

/// A pattern for the whole of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob(String);

impl Glob {
    /// Whether the pattern describes `name`.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let (pattern, name): (Vec<char>, Vec<char>) =
            (self.0.chars().collect(), name.chars().collect());
        let (mut at, mut from) = (0, 0);
        // The position of the last `*`, and the first character that it does not cover yet.
        let mut star: Option<(usize, usize)> = None;
        while from < name.len() {
            match pattern.get(at) {
                Some('*') => {
                    star = Some((at, from));
                    at += 1;
                }
                Some(&c) if c == '?' || c == name[from] => (at, from) = (at + 1, from + 1),
                _ => {
                    let Some((place, covered)) = star else { return false };
                    star = Some((place, covered + 1));
                    (at, from) = (place + 1, covered + 1);
                }
            }
        }
        pattern[at..].iter().all(|&c| c == '*')
    }

    /// The pattern as given.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Any text is a pattern.
impl FromStr for Glob {
    type Err = std::convert::Infallible;

    fn from_str(pattern: &str) -> Result<Self, Self::Err> {
        Ok(Glob(pattern.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_describes_the_whole_name() {
        for (pattern, name, expected) in [
            ("model.ort", "model.ort", true),
            ("model.ort", "model.orts", false),
            ("model.ort", "a model.ort", false),
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything", true),
            ("*.raw.ort", "model.raw.ort", true),
            ("*.raw.ort", "model.raw.ort.raw.ort", true),
            ("model.*", "model.", true),
            ("model.*", "model", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-", false),
            ("?", "ä", true),
            ("?", "", false),
            ("*?", "", false),
            ("**", "x", true),
        ] {
            let glob: Glob = pattern.parse().unwrap();
            assert_eq!(glob.matches(name), expected, "{pattern} {name}");
        }
    }
}
