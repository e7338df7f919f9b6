//! Links of rustdoc, which do not work outside of it.

/// The text with links to items replaced by what they show. Links to pages are kept.
pub(crate) fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        plain += before;
        let Some((shown, behind)) = after.split_once(']') else {
            return plain + "[" + after;
        };
        let target = behind.strip_prefix('(').and_then(|target| target.split_once(')'));
        (plain, rest) = match target {
            Some((target, behind)) if !target.contains('/') => (plain + shown, behind),
            None if shown.starts_with('`') => (plain + shown, behind),
            _ => (plain + "[", after),
        };
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_items_are_what_they_show() {
        for (text, expected) in [
            ("a [`B::c`](d::B::c) e", "a `B::c` e"),
            ("[`x`], (y)", "`x`, (y)"),
            ("[claims](Provider::claim) [`y`]", "claims `y`"),
            ("[a] b", "[a] b"),
            ("[a](https://b.c)", "[a](https://b.c)"),
            ("a[", "a["),
        ] {
            assert_eq!(without_links(text), expected);
        }
    }
}
