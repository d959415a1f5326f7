//! Calls a second and the slowest in a hundred: a line of dots for each contender, one dot for each number of callers.

use super::{Drawing, Scale, short};
use crate::contenders::Contender;
use crate::load::Cell;
use crate::report::{rate, time};
use crate::rounds::Throughput;
use crate::settings::IN_FLIGHT;

const NAMES: f64 = 350.0;
const PANEL: f64 = 300.0;
const GAP: f64 = 40.0;
const TOP: f64 = 62.0;
const ROW: f64 = 22.0;

/// A figure of a cell, where it is drawn, and how it is told.
struct Panel {
    title: &'static str,
    value: fn(&Cell) -> f64,
    told: fn(&Cell) -> String,
    left: f64,
}

pub(crate) fn draw(contenders: &[Contender], found: &Throughput) -> String {
    let bottom = TOP + ROW * contenders.len() as f64;
    let mut drawing = Drawing::new(NAMES + 2.0 * PANEL + GAP + 30.0, bottom + 34.0);
    legend(&mut drawing);
    for (index, contender) in contenders.iter().enumerate() {
        let name = contender.what.replace('`', "");
        drawing.text("", (NAMES - 14.0, middle(index) + 4.0), "end", &name);
    }
    let panels = [
        Panel {
            title: "calls per second",
            value: |cell| cell.per_second,
            told: |cell| format!("{} calls/s", rate(cell.per_second)),
            left: NAMES,
        },
        Panel {
            title: "p99, milliseconds",
            value: |cell| cell.p99.as_secs_f64() * 1000.0,
            told: |cell| time(cell.p99),
            left: NAMES + PANEL + GAP,
        },
    ];
    for panel in &panels {
        draw_panel(&mut drawing, panel, contenders, found, bottom);
    }
    drawing.finish()
}

fn middle(row: usize) -> f64 {
    TOP + ROW * (row as f64 + 0.5)
}

fn legend(drawing: &mut Drawing) {
    let mut x = 20.0;
    drawing.text("small", (x, 24.0), "start", "in flight:");
    x += 62.0;
    for (index, callers) in IN_FLIGHT.iter().enumerate() {
        drawing.dot(&format!("s{index}"), (x, 20.0), 5.0, "");
        drawing.text("small", (x + 9.0, 24.0), "start", &callers.to_string());
        x += 44.0;
    }
}

fn draw_panel(drawing: &mut Drawing, panel: &Panel, contenders: &[Contender], found: &Throughput, bottom: f64) {
    let cell = |contender: &Contender, callers| found.get((contender.id, callers)).ok();
    let all: Vec<f64> = contenders
        .iter()
        .flat_map(|contender| IN_FLIGHT.into_iter().filter_map(|callers| cell(contender, callers)))
        .map(|cell| (panel.value)(&cell))
        .collect();
    let scale = Scale::around(all.into_iter(), (panel.left, panel.left + PANEL));
    drawing.text("title", (panel.left, 24.0), "start", panel.title);
    for (value, x) in scale.marks() {
        drawing.line("grid", (x, TOP - 6.0), (x, bottom));
        drawing.text("small", (x, TOP - 12.0), "middle", &short(value));
    }
    for (row, contender) in contenders.iter().enumerate() {
        let dots: Vec<_> = IN_FLIGHT
            .into_iter()
            .enumerate()
            .filter_map(|(index, callers)| Some((index, callers, cell(contender, callers)?)))
            .map(|(index, callers, cell)| (index, callers, scale.place((panel.value)(&cell)), (panel.told)(&cell)))
            .collect();
        let places = || dots.iter().map(|(_, _, x, _)| *x);
        let (left, right) = (places().fold(f64::INFINITY, f64::min), places().fold(0.0, f64::max));
        if left < right {
            drawing.line("join", (left, middle(row)), (right, middle(row)));
        }
        for (index, callers, x, told) in dots {
            drawing.dot(&format!("s{index}"), (x, middle(row)), 5.0, &format!("{callers} in flight: {told}"));
        }
    }
}
