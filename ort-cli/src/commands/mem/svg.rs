//! A chart as SVG without embedded fonts, styles or scripts.

use std::fmt::Write;

use super::chart::{Bar, Chart};
use super::tables::size;
use crate::number;
use crate::print::escaped;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 480.0;
/// Around the plot.
const LEFT: f64 = 80.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 56.0;
const BAR_SHARE: f64 = 0.62;

/// The picture.
pub(super) fn draw(chart: &Chart) -> String {
    let most = chart.bars.iter().map(Bar::total).max().unwrap_or(0);
    let step = grid_step(most);
    let top = step * most.div_ceil(step).max(1);
    let axis = Axis { top: number::float(top), n_bars: chart.bars.len().max(1) };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n"
    );
    text(&mut svg, (LEFT, 28.0), "start", &chart.title);
    for line in 0..=top / step {
        let y = axis.y(number::float(line * step));
        let (x1, x2) = (LEFT, WIDTH - RIGHT);
        _ = writeln!(
            svg,
            "<line x1=\"{x1}\" y1=\"{y:.1}\" x2=\"{x2}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>"
        );
        text(&mut svg, (LEFT - 8.0, y + 4.0), "end", &size(line * step));
    }
    for (i, bar) in chart.bars.iter().enumerate() {
        draw_bar(&mut svg, &axis, i, (chart, bar));
        label(&mut svg, axis.middle(i), &bar.name);
    }
    legend(&mut svg, chart);
    svg + "</svg>\n"
}

/// Maps bytes and bars to coordinates.
struct Axis {
    top: f64,
    n_bars: usize,
}

impl Axis {
    fn y(&self, n_bytes: f64) -> f64 {
        HEIGHT - BOTTOM - n_bytes / self.top * (HEIGHT - TOP - BOTTOM)
    }

    /// The middle of a bar.
    fn middle(&self, i: usize) -> f64 {
        LEFT + self.slot() * (number::as_f64(i) + 0.5)
    }

    fn slot(&self) -> f64 {
        (WIDTH - LEFT - RIGHT) / number::as_f64(self.n_bars)
    }
}

/// A power of two of bytes that gives four to eight lines.
const fn grid_step(most: u64) -> u64 {
    let mut step = 1 << 10;
    while most / step >= 8 {
        step *= 2;
    }
    step
}

fn draw_bar(svg: &mut String, axis: &Axis, i: usize, (chart, bar): (&Chart, &Bar)) {
    let width = axis.slot() * BAR_SHARE;
    let x = axis.middle(i) - width / 2.0;
    let mut below = 0;
    for (&n_bytes, part) in bar.parts.iter().zip(&chart.parts) {
        let (bottom, top) = (axis.y(number::float(below)), axis.y(number::float(below + n_bytes)));
        below += n_bytes;
        if n_bytes > 0 {
            let (height, size) = (bottom - top, size(n_bytes));
            let (name, colour) = (part.name, part.paint.svg);
            _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.2}\" \
                 fill=\"{colour}\"><title>{name}: {size}</title></rect>"
            );
        }
    }
    let y = axis.y(number::float(below)) - 5.0;
    text(svg, (axis.middle(i), y), "middle", &size(below));
}

/// A bar's name in two lines.
fn label(svg: &mut String, x: f64, name: &str) {
    let (first, rest) = name.split_once(' ').unwrap_or((name, ""));
    let y = HEIGHT - BOTTOM + 18.0;
    text(svg, (x, y), "middle", first);
    text(svg, (x, y + 15.0), "middle", rest);
}

/// The parts, the upper ones first.
fn legend(svg: &mut String, chart: &Chart) {
    let x = WIDTH - RIGHT + 24.0;
    for (i, part) in chart.parts.iter().rev().enumerate() {
        let (y, colour) = (TOP + 22.0 * number::as_f64(i), part.paint.svg);
        _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"14\" height=\"14\" fill=\"{colour}\"/>"
        );
        text(svg, (x + 22.0, y + 11.0), "start", part.name);
    }
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) {
    let text = escaped(text);
    _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_powers_of_two_apart_and_few() {
        for (most, step) in [(0, 1 << 10), (8191, 1 << 10), (8192, 2 << 10), (100 << 20, 16 << 20)]
        {
            assert_eq!(grid_step(most), step, "{most}");
            assert!(most / grid_step(most) < 8);
        }
    }
}
