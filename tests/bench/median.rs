//! Medians over rounds: one that the machine spoilt does not count.

use std::time::Duration;

use openskill_tests::quantile::median;

use crate::load::Cell;

/// The median of each figure.
pub(crate) fn of_cells(cells: &[Cell]) -> Cell {
    let of = |figure: fn(&Cell) -> Duration| median(cells.iter().map(figure).collect());
    Cell {
        per_second: median(cells.iter().map(|cell| cell.per_second).collect()),
        p50: of(|cell| cell.p50),
        p99: of(|cell| cell.p99),
        cpu: of(|cell| cell.cpu),
        refused: median(cells.iter().map(|cell| cell.refused).collect()),
        abandoned: cells.iter().any(|cell| cell.abandoned),
    }
}
