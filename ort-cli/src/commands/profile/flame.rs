//! Flame charts: a span lies below the span that encloses it. One lane per thread.

use std::fmt::Write as _;
use std::time::Duration;

use super::page::Colors;
use crate::number;
use crate::print::escaped;

/// A span of time.
#[derive(Clone, Debug)]
pub(super) struct Flame {
    pub(super) name: String,
    /// Flames of one kind have one colour.
    pub(super) kind: String,
    /// Further details.
    pub(super) more: String,
    pub(super) thread: u64,
    pub(super) start: Duration,
    pub(super) time: Duration,
}

/// The flames of one thread, each with its depth.
struct Lane<'a> {
    thread: u64,
    flames: Vec<(usize, &'a Flame)>,
    /// Depth and end of the open flames, the last to begin last.
    open: Vec<(usize, Duration)>,
}

/// Flames with a smaller share of the whole would not be visible, and are left out.
const LEAST_PERCENT: f64 = 0.02;

/// Draws flames as boxes with tooltips, from the first start to the last end.
pub(super) fn chart(flames: &[Flame], colors: &Colors) -> String {
    let start = flames.iter().map(|flame| flame.start).min().unwrap_or_default();
    let end = flames.iter().map(|flame| flame.start + flame.time).max().unwrap_or_default();
    let whole = (end - start).as_secs_f64().max(1e-9);
    let percent = |time: Duration| time.as_secs_f64() / whole * 100.0;
    let mut html = String::from("<div class=flame><div class=inner>\n");
    for lane in lanes(flames) {
        let depth = lane.flames.iter().map(|(depth, _)| depth + 1).max().unwrap_or(0);
        _ = writeln!(html, "<p>thread {}</p><div class=lane style=\"--n:{depth}\">", lane.thread);
        for (depth, flame) in lane.flames {
            let Flame { name, kind, more, start: begin, time, .. } = flame;
            let (left, width) = (percent(*begin - start), percent(*time));
            if width < LEAST_PERCENT {
                continue;
            }
            let (name, color) = (escaped(name), colors.of(kind));
            let title = format!("{name}\n{} at {}\n{}", exact(*time), exact(*begin), escaped(more));
            _ = writeln!(
                html,
                "<i style=\"left:{left:.3}%;width:{width:.3}%;--d:{depth};background:{color}\" title=\"{title}\">{name}</i>"
            );
        }
        html += "</div>\n";
    }
    _ = write!(html, "<p class=axis><span>0</span><span>{}</span></p>", number::time(end - start));
    html + "</div></div>\n"
}

/// The flames of each thread by their starts, longer ones first.
fn lanes(flames: &[Flame]) -> Vec<Lane<'_>> {
    let mut sorted: Vec<&Flame> = flames.iter().collect();
    sorted.sort_by_key(|flame| (flame.start, std::cmp::Reverse(flame.time)));
    let mut lanes: Vec<Lane<'_>> = Vec::new();
    for flame in sorted {
        let lane = match lanes.iter_mut().position(|lane| lane.thread == flame.thread) {
            Some(index) => &mut lanes[index],
            None => {
                lanes.push(Lane { thread: flame.thread, flames: Vec::new(), open: Vec::new() });
                let last = lanes.len() - 1;
                &mut lanes[last]
            }
        };
        lane.push(flame);
    }
    lanes
}

impl<'a> Lane<'a> {
    /// Places the next flame to begin below the last open one.
    fn push(&mut self, flame: &'a Flame) {
        while self.open.pop_if(|(_, end)| *end <= flame.start).is_some() {}
        let depth = self.open.last().map_or(0, |(depth, _)| depth + 1);
        self.open.push((depth, flame.start + flame.time));
        self.flames.push((depth, flame));
    }
}

fn exact(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests {
    use super::{Flame, lanes};
    use std::time::Duration;

    fn flame(name: &str, thread: u64, start: u64, time: u64) -> Flame {
        Flame {
            name: name.to_owned(),
            kind: String::new(),
            more: String::new(),
            thread,
            start: Duration::from_nanos(start),
            time: Duration::from_nanos(time),
        }
    }

    #[test]
    fn flames_that_do_not_overlap_have_the_same_depth() {
        let mut flames: Vec<Flame> = (0..1_000_000).map(|i| flame("", 1, 2 * i, 1)).collect();
        // Two that overlap, and one that begins while only the first is open.
        flames.extend([(1, 9), (2, 3), (6, 2)].map(|(at, n)| flame("", 2, at, n)));
        let lanes = lanes(&flames);
        assert!(lanes[0].flames.iter().all(|(depth, _)| *depth == 0));
        let depths: Vec<usize> = lanes[1].flames.iter().map(|(depth, _)| *depth).collect();
        assert_eq!(depths, [0, 1, 1]);
    }

    #[test]
    fn enclosed_flames_are_below() {
        // In the order of events: by their ends.
        let flames = [
            flame("inner", 1, 2, 3),
            flame("other", 2, 4, 4),
            flame("empty", 1, 5, 0),
            flame("next", 1, 5, 3),
            flame("deep", 1, 9, 1),
            flame("last", 1, 8, 2),
            flame("whole", 1, 0, 10),
        ];
        let found: Vec<(u64, Vec<(usize, &str)>)> = lanes(&flames)
            .iter()
            .map(|lane| (lane.thread, lane.flames.iter().map(|(d, f)| (*d, &*f.name)).collect()))
            .collect();
        let one =
            vec![(0, "whole"), (1, "inner"), (1, "next"), (2, "empty"), (1, "last"), (2, "deep")];
        assert_eq!(found, [(1, one), (2, vec![(0, "other")])]);
    }
}
