//! How many times the cost of the smallest, over how many times the size: a small plot for each axis, both logarithmic. A
//! line that stays beneath the dashed one grows less than its size.

use super::{Drawing, Scale, short};
use crate::growth::{Line, Point};

const PLOT: f64 = 210.0;
const LEFT: f64 = 48.0;
const TOP: f64 = 62.0;
const WIDE: f64 = PLOT + LEFT + 24.0;
const HIGH: f64 = PLOT + 96.0;
const COLUMNS: usize = 3;

pub(crate) fn draw(lines: &[Line]) -> String {
    let lines: Vec<_> = lines.iter().filter(|line| line.points.len() > 1).collect();
    let rows = lines.len().div_ceil(COLUMNS).max(1);
    let mut drawing = Drawing::new(WIDE * COLUMNS as f64 + 10.0, HIGH * rows as f64 + 24.0);
    legend(&mut drawing);
    for (index, line) in lines.into_iter().enumerate() {
        let corner = (WIDE * (index % COLUMNS) as f64 + LEFT, HIGH * (index / COLUMNS) as f64 + TOP);
        draw_line(&mut drawing, line, corner);
    }
    drawing.finish()
}

fn legend(drawing: &mut Drawing) {
    let entries = [("a line", "p50"), ("b line", "CPU per call"), ("linear", "linear")];
    let mut x = LEFT;
    for (class, name) in entries {
        drawing.line(class, (x, 18.0), (x + 26.0, 18.0));
        drawing.text("small", (x + 32.0, 22.0), "start", name);
        x += 120.0;
    }
    drawing.text("small", (x, 22.0), "start", "across: times the smallest size; up: times its cost");
}

fn draw_line(drawing: &mut Drawing, line: &Line, (left, top): (f64, f64)) {
    let (right, bottom) = (left + PLOT, top + PLOT);
    let factors: Vec<_> = line.points.iter().map(|point| line.factors(point)).collect();
    let across = Scale::around(factors.iter().map(|(size, _, _)| *size), (left, right));
    // The same on both sides, so that linear is the diagonal; a little room below, for what gets cheaper.
    let up = Scale { values: (across.values.0 / 2.0, across.values.1), places: (bottom, top) };
    drawing.text("title", (left, top - 12.0), "start", line.axis.name());
    for (value, x) in across.marks() {
        drawing.line("grid", (x, top), (x, bottom));
        drawing.text("small", (x, bottom + 15.0), "middle", &short(value));
    }
    for (value, _) in across.marks() {
        let y = up.place(value);
        drawing.line("grid", (left, y), (right, y));
        drawing.text("small", (left - 6.0, y + 4.0), "end", &short(value));
    }
    let end = across.values.1;
    drawing.path("linear", &[(left, up.place(1.0)), (right, up.place(end))]);
    for (class, cost) in [("a", 1), ("b", 2)] {
        let place = |(size, p50, cpu): &(f64, f64, f64)| {
            let cost = if cost == 1 { *p50 } else { *cpu };
            (across.place(*size), up.place(cost.max(up.values.0)))
        };
        let points: Vec<_> = factors.iter().map(place).collect();
        drawing.path(&format!("{class} line"), &points);
        for (point, at) in line.points.iter().zip(points) {
            drawing.dot(class, at, 3.0, &told(point));
        }
    }
}

fn told(point: &Point) -> String {
    let (p50, cpu) = (crate::report::time(point.cell.p50), crate::report::time(point.cell.cpu));
    format!("{}: p50 {p50}, CPU per call {cpu}", point.size)
}
