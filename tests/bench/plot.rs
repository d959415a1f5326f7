//! Plots as SVG, written by hand: legible on white and on black, and small.
//!
//! - [`throughput`]: a line of dots for each contender
//! - [`growth`]: a small plot for each axis

use std::fmt::Write as _;

pub(crate) mod growth;
pub(crate) mod throughput;

/// Follows the reader's choice of light or dark.
const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#24292f}\
    .small{font-size:10.5px;fill:#57606a}.title{font-size:14px;font-weight:600}\
    .grid{stroke:#d0d7de;stroke-width:1}.frame{fill:none;stroke:#8c959f}\
    .linear{stroke:#8c959f;stroke-dasharray:5 4;fill:none}\
    .a{fill:#0969da;stroke:#0969da}.b{fill:#bc4c00;stroke:#bc4c00}.line{fill:none;stroke-width:2}\
    .s0{fill:#a5c8f0}.s1{fill:#5a9de0}.s2{fill:#0969da}.s3{fill:#053a75}.join{stroke:#afb8c1;stroke-width:2}\
    @media(prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}.grid{stroke:#30363d}\
    .frame,.linear{stroke:#6e7681}.join{stroke:#484f58}.a{fill:#58a6ff;stroke:#58a6ff}.b{fill:#f0883e;stroke:#f0883e}\
    .line{fill:none}.s0{fill:#1f4a80}.s1{fill:#2f74c8}.s2{fill:#58a6ff}.s3{fill:#cae4ff}}";

/// What is being drawn.
pub(crate) struct Drawing {
    width: f64,
    height: f64,
    body: String,
}

impl Drawing {
    fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let _ = writeln!(self.body, r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#);
    }

    fn dot(&mut self, class: &str, (x, y): (f64, f64), radius: f64, title: &str) {
        let title = escaped(title);
        let shape = format!(r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="{radius}">"#);
        let _ = writeln!(self.body, "{shape}<title>{title}</title></circle>");
    }

    /// `anchor`: `start`, `middle` or `end`.
    fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: &str, text: &str) {
        let head = format!(r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">"#);
        let _ = writeln!(self.body, "{head}{}</text>", escaped(text));
    }

    fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(self.body, r#"<polyline class="{class}" points="{}"/>"#, points.join(" "));
    }

    fn finish(self) -> String {
        let Self { width, height, body } = self;
        let size = format!(r#"viewBox="0 0 {width} {height}" width="{width}" height="{height}""#);
        format!("<svg xmlns=\"http://www.w3.org/2000/svg\" {size}>\n<style>{STYLE}</style>\n{body}</svg>\n")
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A logarithmic scale: from values to places.
#[derive(Debug, Clone, Copy)]
struct Scale {
    values: (f64, f64),
    places: (f64, f64),
}

impl Scale {
    /// From the power of ten below the least value to the one above the largest, one at least.
    fn around(values: impl Iterator<Item = f64> + Clone, places: (f64, f64)) -> Self {
        let least = values.clone().fold(f64::INFINITY, f64::min).max(1e-9);
        let largest = values.fold(least, f64::max);
        let low = 10f64.powf(least.log10().floor());
        let high = 10f64.powf(largest.log10().ceil()).max(low * 10.0);
        Self { values: (low, high), places }
    }

    fn place(&self, value: f64) -> f64 {
        let (low, high) = (self.values.0.log10(), self.values.1.log10());
        let share = (value.log10() - low) / (high - low);
        self.places.0 + share * (self.places.1 - self.places.0)
    }

    /// The powers of ten, and where they are.
    fn marks(&self) -> Vec<(f64, f64)> {
        let (low, high) = (self.values.0.log10().round() as i32, self.values.1.log10().round() as i32);
        (low..=high).map(|power| 10f64.powi(power)).map(|value| (value, self.place(value))).collect()
    }
}

/// A power of ten, as people write it.
fn short(value: f64) -> String {
    match value {
        1e6.. => format!("{}M", value / 1e6),
        1e3.. => format!("{}k", value / 1e3),
        _ => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_holds_all_its_values() {
        let scale = Scale::around([3.0, 250.0].into_iter(), (0.0, 300.0));
        assert_eq!(scale.marks(), [(1.0, 0.0), (10.0, 100.0), (100.0, 200.0), (1000.0, 300.0)]);
        assert!((scale.place(31.6227766) - 150.0).abs() < 1e-6);
        assert_eq!(Scale::around([5.0].into_iter(), (0.0, 1.0)).values, (1.0, 10.0));
    }
}
