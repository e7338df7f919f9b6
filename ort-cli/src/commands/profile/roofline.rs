//! The roofline: the attainable performance at each number of operations per byte, and that of the nodes.
//!
//! `x` is operations per byte, `y` GFLOP/s, both on logarithmic scales. The roofline is min(peak, bandwidth · x).
//! Bytes are those of inputs and outputs: operands in cache can lift a node above the roofline.

use std::fmt::Write as _;

use super::page::Colors;
use crate::number::significant;
use crate::print::escaped;
use crate::profile::{Profile, Row};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 420.0;
/// Left and below there is room for the numbers of the axes.
const MARGIN: f64 = 46.0;

/// A point of the plot: operations per byte, and GFLOP/s.
type Point = (f64, f64);

/// The ranges of the axes, as logarithms.
#[derive(Clone, Copy, Debug)]
struct Axes {
    x: (f64, f64),
    y: (f64, f64),
}

/// Draws the nodes that compute; slower ones are larger.
pub(super) fn plot(profile: &Profile, colors: &Colors) -> String {
    let point = |row: &Row| -> Option<Point> {
        Some((row.work.flops / row.work.bytes.max(1.0), row.work.gflops()?))
    };
    let points: Vec<(Point, &Row)> =
        profile.nodes().iter().filter_map(|row| Some((point(row)?, row))).collect();
    let bounds = profile.peak();
    let (peak, gigabytes) = (bounds.gflops.max(1e-3), bounds.gigabytes.max(1e-3));
    let ridge = peak / gigabytes;
    let axes = Axes::around(points.iter().map(|(point, _)| *point).chain([(ridge, peak)]));
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=img>\n");
    axes.draw(&mut svg);
    let (first, last) = (axes.x.0.exp2(), axes.x.1.exp2());
    let corners = [(first, first * gigabytes), (ridge, peak), (last, peak)];
    let corners: Vec<String> = corners.map(|corner| axes.place(corner)).map(pair).into();
    _ = writeln!(svg, "<polyline class=roof points=\"{}\"/>", corners.join(" "));
    let (x, y) = axes.place((last, peak));
    let what =
        format!("{} GFLOP/s · {} GB/s", significant(peak.round()), significant(gigabytes.round()));
    _ = writeln!(svg, "<text x=\"{x:.0}\" y=\"{:.0}\" text-anchor=end>{what}</text>", y - 6.0);
    let total = profile.total().time;
    for (point, row) in points {
        let (x, y) = axes.place(point);
        let radius = 3.0 + 18.0 * row.work.share_of(total).sqrt();
        let work = &row.step.work;
        let [took, share, speed, peak, ..] = profile.figures(row).map(|cell| cell.text);
        let (node, op_type, variant) = (escaped(&work.node), escaped(&work.op_type), work.variant);
        let color = colors.of(&work.op_type);
        _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" fill=\"{color}\"><title>{node}\n{op_type} · {variant}\n{took} · {share} of the time\n{speed} GFLOP/s · {peak} of the peak</title></circle>"
        );
    }
    svg + "</svg>\n"
}

fn pair((x, y): Point) -> String {
    format!("{x:.1},{y:.1}")
}

impl Axes {
    /// Whole powers of two around all points, with some room.
    fn around(points: impl Iterator<Item = Point>) -> Self {
        let mut axes = Self { x: (f64::MAX, f64::MIN), y: (f64::MAX, f64::MIN) };
        for (x, y) in points {
            let (x, y) = (x.max(1e-6).log2(), y.max(1e-6).log2());
            axes.x = (axes.x.0.min(x), axes.x.1.max(x));
            axes.y = (axes.y.0.min(y), axes.y.1.max(y));
        }
        let widened = |(least, most): (f64, f64)| ((least - 0.5).floor(), (most + 0.5).ceil());
        Self { x: widened(axes.x), y: widened(axes.y) }
    }

    fn place(&self, (x, y): Point) -> Point {
        let part = |value: f64, (least, most): (f64, f64)| {
            (value.max(1e-9).log2().clamp(least, most) - least) / (most - least)
        };
        let (right, top) = (WIDTH - MARGIN - 8.0, HEIGHT - MARGIN - 8.0);
        (MARGIN + part(x, self.x) * right, 8.0 + (1.0 - part(y, self.y)) * top)
    }

    fn draw(&self, svg: &mut String) {
        let (low, high) = (
            self.place((self.x.0.exp2(), self.y.0.exp2())),
            self.place((self.x.1.exp2(), self.y.1.exp2())),
        );
        for x in steps(self.x) {
            let (at, _) = self.place((x, 1.0));
            _ = writeln!(
                svg,
                "<path d=\"M{at:.1} {:.1}V{:.1}\"/><text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=middle>{}</text>",
                low.1,
                high.1,
                low.1 + 16.0,
                significant(x)
            );
        }
        for y in steps(self.y) {
            let (_, at) = self.place((1.0, y));
            _ = writeln!(
                svg,
                "<path d=\"M{:.1} {at:.1}H{:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=end>{}</text>",
                low.0,
                high.0,
                low.0 - 6.0,
                at + 4.0,
                significant(y)
            );
        }
        _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=end>operations per byte</text>",
            high.0,
            HEIGHT - 6.0
        );
        _ = writeln!(svg, "<text x=\"{:.1}\" y=\"20\">GFLOP/s</text>", MARGIN + 6.0);
    }
}

/// Powers of two from one logarithm to another, about ten of them.
fn steps((least, most): (f64, f64)) -> impl Iterator<Item = f64> {
    let step = ((most - least) / 10.0).ceil().max(1.0);
    std::iter::successors(Some(least), move |at| Some(at + step))
        .take_while(move |at| *at <= most)
        .map(f64::exp2)
}

#[cfg(test)]
mod tests {
    use super::Axes;

    #[test]
    fn points_are_placed_by_their_logarithms() {
        let axes = Axes::around([(1.0, 2.0), (16.0, 512.0)].into_iter());
        assert_eq!((axes.x, axes.y), ((-1.0, 5.0), (0.0, 10.0)));
        let (left, right) = (axes.place((0.5, 1.0)), axes.place((32.0, 1024.0)));
        let middle = axes.place((4.0, 32.0));
        assert_eq!(middle, ((left.0 + right.0) / 2.0, (left.1 + right.1) / 2.0));
        assert!(left.1 > right.1, "up is more");
    }
}
