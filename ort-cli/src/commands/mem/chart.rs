//! Memory as stacked bars: the stages of a process, or several processes. Drawn as SVG, or in a terminal.

use super::parts::{self, PARTS};
use super::processes::Row;
use super::stages::{STAGES, Timeline};
use super::svg;
use super::tables::size;
use crate::number;
use crate::print::one_line;
use crate::terminal::{self, Colour};

/// Bars side by side.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) parts: Vec<Part>,
    pub(super) bars: Vec<Bar>,
}

/// A part that all bars have: its name and colour.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) paint: Paint,
}

/// A colour and, for output without colours, a character.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint {
    pub(super) svg: &'static str,
    terminal: Colour,
    character: char,
}

/// The sizes of the parts, from the bottom to the top.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) parts: Vec<u64>,
}

const fn paint(svg: &'static str, terminal: u8, character: char) -> Paint {
    Paint { svg, terminal: Colour(terminal), character }
}

/// One for each of [`PARTS`]: cool colours for shared memory, warm ones for private memory.
const PAINTS: [Paint; PARTS.len()] = [
    paint("#9aa7b1", 247, '▒'),
    paint("#4e79a7", 67, '█'),
    paint("#a0cbe8", 152, '▓'),
    paint("#edc948", 221, '='),
    paint("#f28e2b", 208, '#'),
    paint("#e15759", 167, '*'),
    paint("#ff9da7", 217, '+'),
    paint("#b07aa1", 139, '░'),
];

/// The parts of one of several processes, in the colours of their purposes.
const PARTS_OF_PROCESS: [Part; 5] = [
    Part { name: "model, shared", paint: PAINTS[1] },
    Part { name: "others, shared", paint: PAINTS[0] },
    Part { name: "activations", paint: PAINTS[5] },
    Part { name: "inputs", paint: PAINTS[6] },
    Part { name: "rest, private", paint: PAINTS[7] },
];

/// The maximum width of a drawing in a terminal, and the width without a terminal.
const MAX_COLUMNS: usize = 120;
const DEFAULT_COLUMNS: usize = 80;

impl Chart {
    /// A bar for each stage.
    pub(super) fn of_stages(timeline: &Timeline) -> Self {
        let parts = PARTS.iter().zip(PAINTS).map(|((_, name), paint)| Part { name, paint });
        let bars = timeline.stages.iter().zip(STAGES);
        let bars =
            bars.map(|(stage, name)| Bar { name: name.into(), parts: parts::of(stage).into() });
        Self { title: title(&timeline.names), parts: parts.collect(), bars: bars.collect() }
    }

    /// A bar for each process, and one for all together, which counts shared memory once.
    pub(super) fn of_processes(names: &[String], rows: &[Row], all: &Row) -> Self {
        let private = |row: &Row| [row.activations, row.inputs, row.private_without_activations()];
        let bar = |row: &Row| {
            let model = row.model_files.shared();
            let others = row.total.shared().saturating_sub(model);
            Bar { name: row.id.to_string(), parts: [&[model, others][..], &private(row)].concat() }
        };
        // The proportional set size: a page mapped by n processes counts as 1/n in each.
        let model = all.model_files.pss.saturating_sub(all.model_files.private());
        let others = all.total.pss.saturating_sub(all.total.private() + model);
        let parts = [&[model, others][..], &private(all)].concat();
        let together = Bar { name: "together".to_owned(), parts };
        let bars = rows.iter().map(bar).chain([together]).collect();
        Self { title: title(names), parts: PARTS_OF_PROCESS.to_vec(), bars }
    }

    /// The picture as SVG.
    pub(super) fn svg(&self) -> String {
        svg::draw(self)
    }

    /// The picture for standard output, as wide as its terminal.
    pub(super) fn text(&self) -> String {
        let columns = terminal::width().unwrap_or(DEFAULT_COLUMNS).min(MAX_COLUMNS);
        self.text_of(columns, &|text, colour| terminal::coloured(text, colour))
    }

    fn text_of(&self, columns: usize, coloured: &dyn Fn(&str, Colour) -> String) -> String {
        let longest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
        let names = longest(&mut self.bars.iter().map(|bar| bar.name.chars().count()));
        let totals = self.bars.iter().map(Bar::total);
        let sizes = longest(&mut totals.clone().map(|n| size(n).chars().count()));
        let most = totals.max().unwrap_or(0).max(1);
        let room = columns.saturating_sub(names + sizes + "        ".len()).max(10);
        let mut text = self.title.clone() + "\n";
        for bar in &self.bars {
            let total = size(bar.total());
            text += &format!("\n  {:names$}  {total:>sizes$}  ", bar.name);
            let mut below = 0;
            for (n_bytes, part) in bar.parts.iter().zip(&self.parts) {
                let n = cells(below + n_bytes, most, room) - cells(below, most, room);
                below += n_bytes;
                let drawn = part.paint.character.to_string().repeat(n);
                text += &coloured(&drawn, part.paint.terminal);
            }
        }
        text + "\n" + &self.legend(columns, coloured)
    }

    fn legend(&self, columns: usize, coloured: &dyn Fn(&str, Colour) -> String) -> String {
        let (mut text, mut column) = (String::new(), columns);
        for Part { name, paint } in self.parts.iter().filter(|part| self.has(part)) {
            let width = "  # ".len() + name.len();
            if column + width > columns {
                text.push('\n');
                column = 0;
            }
            column += width;
            let sample = coloured(&paint.character.to_string(), paint.terminal);
            text += &format!("  {sample} {name}");
        }
        text
    }

    /// Whether any bar has this part.
    fn has(&self, part: &Part) -> bool {
        let place = self.parts.iter().position(|it| it.name == part.name);
        place.is_some_and(|place| self.bars.iter().any(|bar| bar.parts[place] > 0))
    }
}

impl Bar {
    pub(super) fn total(&self) -> u64 {
        self.parts.iter().sum()
    }
}

fn title(names: &[String]) -> String {
    format!("Resident memory: {}", one_line(&names.join(", "), 100))
}

/// How many of `room` characters represent `n` of `most`, rounded.
fn cells(n: u64, most: u64, room: usize) -> usize {
    let cells = number::float(n) / number::float(most) * number::as_f64(room);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to room")]
    let cells = cells.round() as usize;
    cells.min(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(bars: &[(&str, &[u64])]) -> Chart {
        let bar = |(name, parts): &(&str, &[u64])| Bar {
            name: (*name).to_owned(),
            parts: parts.iter().map(|n| n << 20).collect(),
        };
        let parts = PARTS_OF_PROCESS.to_vec();
        Chart { title: "Memory".to_owned(), parts, bars: bars.iter().map(bar).collect() }
    }

    #[test]
    fn a_bar_is_as_long_as_its_part_of_the_longest() {
        let chart = chart(&[("1", &[4, 2, 0, 0, 2]), ("together", &[4, 2, 0, 0, 10])]);
        let plain = |text: &str, _| text.to_owned();
        assert_eq!(
            chart.text_of(40, &plain),
            "Memory\n\
             \n  1          8.0 MiB  ████▒▒░░\
             \n  together  16.0 MiB  ████▒▒░░░░░░░░░░\
             \n\n  █ model, shared  ▒ others, shared\
             \n  ░ rest, private"
        );
        let marked = |text: &str, colour: Colour| format!("<{}{text}>", colour.0);
        let coloured = chart.text_of(40, &marked);
        assert!(coloured.contains("<67████><247▒▒><167><217><139░░>"), "{coloured}");
    }

    #[test]
    fn nothing_at_all_has_no_bar() {
        let text = chart(&[("1", &[0; 5])]).text_of(0, &|text, _| text.to_owned());
        assert_eq!(text, "Memory\n\n  1  0 B  \n");
    }
}
