"""Prints the prices of raw materials as a table: sample code for tools that read code."""

import csv
import sys
from pathlib import Path

PRICES = Path(__file__).resolve().parent.parent / "prices" / "raw_materials.csv"


class Table:
    """Rows of text, aligned."""

    def __init__(self, header: list[str]) -> None:
        self.rows = [header]

    def add(self, row: list[str]) -> None:
        self.rows.append(row)

    def lines(self) -> list[str]:
        def width(column: int) -> int:
            return max(len(row[column]) for row in self.rows)

        widths = [width(column) for column in range(len(self.rows[0]))]
        return ["  ".join(text.ljust(size) for text, size in zip(row, widths)) for row in self.rows]


def read(path: Path) -> Table:
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    table = Table(header)
    for row in rows:
        table.add(row)
    return table


def main() -> int:
    try:
        table = read(PRICES)
    except OSError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1
    print("\n".join(table.lines()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
