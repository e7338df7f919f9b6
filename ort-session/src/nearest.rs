//! The word that was probably meant.

// collects are bounded: as long as a name

/// The known word nearest to `word`, if at most a third of it differs: a suggestion for
/// messages about unknown words.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distances = known.into_iter().map(|other| (distance(word, other), other));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= nearest.len().div_ceil(3)).then_some(nearest)
}

/// The number of characters to insert, remove or replace to change one word into the other.
///
/// Source: V. Levenshtein, "Binary codes capable of correcting deletions, insertions, and
/// reversals", 1966; row by row.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.chars().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[row.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_counts_the_characters_that_change() {
        for (a, b, expected) in
            [("", "", 0), ("a", "", 1), ("", "ab", 2), ("kitten", "sitting", 3), ("ab", "ba", 2)]
        {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn the_nearest_word_is_near() {
        let known = ["threads", "level"];
        assert_eq!(nearest("thread", known), Some("threads"));
        assert_eq!(nearest("lvel", known), Some("level"));
        assert_eq!(nearest("weather", known), None);
        assert_eq!(nearest("x", []), None);
    }
}
