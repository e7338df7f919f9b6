//! Text tables, as wide as the terminal allows.

use std::fmt;

use crate::terminal::{self, faint};

/// Which side the cells of a column are flush with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    Left,
    Right,
}

/// Names are not cut shorter than this.
const MIN_NAME: usize = 12;

/// The gap before each column.
const GAP: &str = "  ";

/// A table without lines: two spaces before each column, each as wide as its widest cell.
///
/// In a terminal that is too narrow, the longest cells of columns that are flush left are cut in their middle: those
/// are names, which often differ at their ends. Numbers are never cut.
#[derive(Clone, Debug)]
pub(crate) struct Table<const N: usize> {
    flush: [Flush; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    /// A table with these columns.
    pub(crate) fn new(columns: [(&str, Flush); N]) -> Self {
        let head = columns.map(|(name, _)| name.to_owned());
        Self { flush: columns.map(|(_, flush)| flush), rows: vec![head] }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }

    /// The lines of the table, none longer than `most` characters if possible.
    fn lines(&self, most: Option<usize>) -> Vec<String> {
        let widths = self.widths(most);
        let line = |row: &[String; N]| {
            let mut line = String::new();
            for ((cell, width), flush) in row.iter().zip(widths).zip(self.flush) {
                let cell = shortened(cell, width);
                line += GAP;
                // A width in a format string is at most that of a u16.
                let padding = " ".repeat(width - cell.chars().count().min(width));
                match flush {
                    Flush::Left => line.extend([&*cell, &padding]),
                    Flush::Right => line.extend([&padding, &*cell]),
                }
            }
            line.trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }

    fn widths(&self, most: Option<usize>) -> [usize; N] {
        let widest = |i: usize| self.rows.iter().map(|row| row[i].chars().count()).max();
        let mut widths: [usize; N] = std::array::from_fn(|i| widest(i).unwrap_or(0));
        let length = widths.iter().map(|width| width + GAP.len()).sum::<usize>();
        let mut excess = most.map_or(0, |most| length.saturating_sub(most));
        while excess > 0 {
            let names = (0..N).filter(|&i| self.flush[i] == Flush::Left && widths[i] > MIN_NAME);
            let Some(widest) = names.max_by_key(|&i| widths[i]) else { break };
            widths[widest] -= 1;
            excess -= 1;
        }
        widths
    }
}

impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, line) in self.lines(terminal::width()).iter().enumerate() {
            match i {
                0 => f.write_str(&faint(line))?,
                _ => write!(f, "\n{line}")?,
            }
        }
        Ok(())
    }
}

/// A text shortened to at most `most` characters: its beginning and its end.
fn shortened(text: &str, most: usize) -> String {
    let n = text.chars().count();
    if n <= most {
        return text.to_owned();
    }
    let kept = most.saturating_sub(1);
    let end = kept / 2;
    let beginning: String = text.chars().take(kept - end).collect();
    let end: String = text.chars().skip(n - end).collect();
    format!("{beginning}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new([("name", Flush::Left), ("n", Flush::Right)]);
        table.row(["é".to_owned(), "12".to_owned()]);
        table.row(["longer".to_owned(), "3".to_owned()]);
        assert_eq!(table.to_string(), "  name     n\n  é       12\n  longer   3");
    }

    #[test]
    fn names_are_cut_where_the_terminal_is_narrow_and_numbers_are_not() {
        let mut table =
            Table::new([("node", Flush::Left), ("op", Flush::Left), ("time", Flush::Right)]);
        table.row([
            "/model/layers.0/attention/MatMul_17".into(),
            "MatMul".into(),
            "1.25 ms".into(),
        ]);
        table.row(["short".into(), "QLinearMatMul".into(), "1 µs".into()]);
        let whole = table.lines(None);
        assert_eq!(whole[1], "  /model/layers.0/attention/MatMul_17  MatMul         1.25 ms");
        assert_eq!(table.lines(Some(61)), whole);
        let cut = table.lines(Some(50));
        assert_eq!(cut[1], "  /model/layer…n/MatMul_17  MatMul         1.25 ms");
        assert!(cut.iter().all(|line| line.chars().count() <= 50), "{cut:?}");
        assert_eq!(table.lines(Some(0))[2], "  short         QLinea…atMul     1 µs");
    }

    #[test]
    fn a_text_that_is_cut_keeps_both_ends() {
        for (most, expected) in
            [(9, "abcdefghi"), (8, "abcd…ghi"), (5, "ab…hi"), (1, "…"), (0, "…")]
        {
            assert_eq!(shortened("abcdefghi", most), expected);
        }
    }
}
