//! Reads the part of TOML that this repository's manifests use: `[section]` and `key = value`.

/// One `key = value` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// Counted from 1.
    pub(crate) line: usize,
    /// The name in the last `[…]` above it.
    pub(crate) section: &'a str,
    /// Up to the first dot: `rayon` of `rayon.workspace = true`.
    pub(crate) key: &'a str,
    /// From the first dot on, or empty: `workspace` of `rayon.workspace = true`.
    pub(crate) subkey: &'a str,
    pub(crate) value: &'a str,
    /// What follows a `#` outside quotes.
    pub(crate) comment: Option<&'a str>,
}

/// Which dependencies a section lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needed {
    /// By the crate itself, on some platform at least, or by its build script.
    Always,
    /// By its tests, examples and benchmarks.
    ByTests,
}

/// The entries in order. A line that continues a list belongs to none.
pub(crate) fn entries(text: &str) -> impl Iterator<Item = Entry<'_>> {
    let mut section = "";
    text.lines().enumerate().filter_map(move |(i, line)| {
        if let Some(rest) = line.strip_prefix('[') {
            section = rest.split_once(']').map_or(rest, |(name, _)| name);
            return None;
        }
        let (body, comment) = split_comment(line);
        let (key, value) = body.split_once('=')?;
        let (key, subkey) = key.trim().split_once('.').unwrap_or((key.trim(), ""));
        let is_key =
            !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "-_".contains(c));
        is_key.then_some(Entry { line: i + 1, section, key, subkey, value: value.trim(), comment })
    })
}

impl Entry<'_> {
    /// Whether the root's manifest gives the version.
    pub(crate) fn is_from_workspace(&self) -> bool {
        self.subkey == "workspace" || self.value.contains("workspace = true")
    }

    /// Whether the entry is a dependency of the manifest's own crate.
    pub(crate) fn needed(&self) -> Option<Needed> {
        // A platform's section is named `target.'cfg(…)'.dependencies`.
        match self.section.rsplit('.').next()? {
            "dependencies" if self.section != "workspace.dependencies" => Some(Needed::Always),
            "build-dependencies" => Some(Needed::Always),
            "dev-dependencies" => Some(Needed::ByTests),
            _ => None,
        }
    }
}

fn split_comment(line: &str) -> (&str, Option<&str>) {
    let mut is_quoted = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' => is_quoted = !is_quoted,
            '#' if !is_quoted => return (&line[..at], Some(line[at + 1..].trim())),
            _ => {}
        }
    }
    (line, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_know_their_section_line_and_comment() {
        let text = "[package]\nname = \"a#b\"\n\n[dependencies]\nx.workspace = true # why\n";
        let found: Vec<_> =
            entries(text).map(|e| (e.line, e.section, e.key, e.value, e.comment)).collect();
        let expected = [
            (2, "package", "name", "\"a#b\"", None),
            (5, "dependencies", "x", "true", Some("why")),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn dependencies_are_sorted_by_what_needs_them() {
        for (section, needed) in [
            ("dependencies", Some(Needed::Always)),
            ("target.'cfg(unix)'.dependencies", Some(Needed::Always)),
            ("build-dependencies", Some(Needed::Always)),
            ("dev-dependencies", Some(Needed::ByTests)),
            ("workspace.dependencies", None),
            ("features", None),
        ] {
            let text = format!("[{section}]\nx = \"1\"\n");
            assert_eq!(entries(&text).next().and_then(|e| e.needed()), needed, "{section}");
        }
    }
}
