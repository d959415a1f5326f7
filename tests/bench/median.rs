//! Medians: one round that the machine spoilt does not count.

use std::time::Duration;

use crate::load::Cell;

/// The middle of some values; of an even number, the lower of the two.
pub(crate) fn median<T: Copy + PartialOrd + Default>(mut values: Vec<T>) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_a_value_that_was_there() {
        assert_eq!(median(vec![3, 1, 2]), 2);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), 2.0);
        assert_eq!(median(Vec::<u64>::new()), 0);
    }
}
