#!/usr/bin/env python3
"""Draws the Grafana dashboard as SVG, one picture for each row, from the data of a Prometheus server.

    python3 deploy/observability/render.py --prometheus http://127.0.0.1:9090 --minutes 15 pictures/

It runs the queries of the dashboard. Use it for a report, or without Grafana. It needs Python 3.9 and no packages.
"""
import argparse
import json
import math
import pathlib
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from xml.sax.saxutils import escape

DASHBOARD = pathlib.Path(__file__).parent / "grafana/dashboards/openskill.json"
COLUMN, LINE, GAP = 50, 34, 8
COLORS = ["#3274d9", "#e0762f", "#56a64b", "#b877d9", "#e02f44", "#37872d", "#f2cc0c", "#8ab8ff", "#a16a4c", "#777777"]
# Series that are drawn and named in a panel.
MOST_SERIES = 10


class Prometheus:
    def __init__(self, url, seconds):
        self.url, self.seconds, self.now = url.rstrip("/"), seconds, time.time()

    def get(self, path, **parameters):
        address = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(address, timeout=30) as response:
                return json.load(response)["data"]["result"]
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{parameters['query']}: {error.read().decode(errors='replace')}") from None
        except OSError as error:
            raise SystemExit(f"Prometheus at {self.url} does not answer: {error}") from None

    def now_of(self, expression):
        return self.get("query", query=expression, time=self.now)

    def history_of(self, expression):
        start = self.now - self.seconds
        return self.get("query_range", query=expression, start=start, end=self.now, step=max(self.seconds / 180, 1))


def shown(value, unit):
    """A number in the unit of a panel, short."""
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "∞"
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "bytes":
        steps, suffix = [(2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")], "B"
    elif unit == "s":
        steps, suffix = [(1, "s"), (1e-3, "ms"), (1e-6, "µs")], "s"
    else:
        steps, suffix = [(1e9, "G"), (1e6, "M"), (1e3, "k")], ""
    scale, name = next(((step, name) for step, name in steps if abs(value) >= step), (1, suffix))
    rate = "/s" if unit == "reqps" else ""
    return f"{value / scale:.3g}{' ' if name else ''}{name}{rate}"


def legend(target, labels):
    pattern = target.get("legendFormat") or "{{__name__}}"
    return re.sub(r"{{\s*(\w+)\s*}}", lambda it: labels.get(it[1], ""), pattern) or "value"


def text(x, y, content, size=11, color="#444", anchor="start", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{escape(content)}</text>')


class Panel:
    """A panel, and where it is in the picture of its row."""

    def __init__(self, panel, top):
        place = panel["gridPos"]
        self.x, self.y = place["x"] * COLUMN + GAP / 2, (place["y"] - top) * LINE + GAP / 2
        self.width, self.height = place["w"] * COLUMN - GAP, place["h"] * LINE - GAP
        self.title, self.kind, self.targets = panel["title"], panel["type"], panel.get("targets", [])
        self.unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit", "short")

    def draw(self, prometheus):
        frame = (f'<rect x="{self.x:.1f}" y="{self.y:.1f}" width="{self.width:.1f}" height="{self.height:.1f}" '
                 f'rx="3" fill="#fff" stroke="#ccc"/>')
        size = 13 if len(self.title) * 7.5 < self.width else 11
        draw = {"stat": self.number, "table": self.table}.get(self.kind, self.lines)
        return [frame, text(self.x + 10, self.y + 19, self.title, size, "#222", weight="600"), *draw(prometheus)]

    def nothing(self):
        return [text(self.x + self.width / 2, self.y + self.height / 2 + 8, "none", 12, "#999", "middle")]

    def number(self, prometheus):
        found = [(legend(target, it["metric"]), shown(float(it["value"][1]), self.unit))
                 for target in self.targets for it in prometheus.now_of(asked(target))]
        if not found:
            return [text(self.x + self.width / 2, self.y + 82, "0", 32, "#999", "middle")]
        values = [value if len(found) == 1 else f"{name} {value}" for name, value in found]
        size = 32 if len(values) == 1 else 18
        return [text(self.x + self.width / 2, self.y + 82, ",  ".join(values), size, COLORS[0], "middle")]

    def table(self, prometheus):
        found = [it["metric"] for target in self.targets for it in prometheus.now_of(asked(target))]
        rows = [[it.get("skill", ""), it.get("instance", ""), it.get("state", "")] for it in found]
        lines = [text(self.x + 12, self.y + 44 + 18 * at, "   ".join(filter(None, row)), 12)
                 for at, row in enumerate(rows[: int((self.height - 50) / 18)])]
        return lines or self.nothing()

    def lines(self, prometheus):
        series = []
        for target in self.targets:
            for it in prometheus.history_of(asked(target)):
                points = [(at, float(value)) for at, value in it["values"]]
                points = [(at, value) for at, value in points if math.isfinite(value)]
                if points:
                    series.append((legend(target, it["metric"]), points))
        series.sort(key=lambda it: -max(value for _, value in it[1]))
        return self.plot(series[:MOST_SERIES], prometheus) if series else self.nothing()

    def room(self, columns):
        """How many letters a name may have."""
        return int((self.width / columns - 30) / 5.4)

    def plot(self, series, prometheus):
        labels = [f"{name}: {shown(points[-1][1], self.unit)}" for name, points in series]
        # Two columns of names, if they are short.
        columns = 2 if max(map(len, labels)) <= self.room(2) else 1
        rows = math.ceil(len(series) / columns)
        left, right = self.x + 66, self.x + self.width - 14
        top, bottom = self.y + 34, self.y + self.height - 30 - 15 * rows
        most = max(value for _, points in series for _, value in points) or 1
        start = prometheus.now - prometheus.seconds

        def place(at, value):
            x = left + (at - start) / prometheus.seconds * (right - left)
            return f"{x:.1f},{bottom - max(value, 0) / most * (bottom - top):.1f}"

        drawn = []
        for part in (0, 0.5, 1):
            y = bottom - part * (bottom - top)
            drawn.append(f'<line x1="{left:.1f}" x2="{right:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e8e8e8"/>')
            drawn.append(text(left - 6, y + 4, shown(part * most, self.unit), 10, "#777", "end"))
        drawn.append(text(left, bottom + 14, f"{prometheus.seconds / 60:.3g} min ago", 10, "#777"))
        drawn.append(text(right, bottom + 14, "now", 10, "#777", "end"))
        for number, (_, points) in enumerate(series):
            color = COLORS[number % len(COLORS)]
            path = " ".join(place(at, value) for at, value in points)
            drawn.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>')
            x = self.x + 12 + (number % columns) * (self.width - 16) / columns
            y = bottom + 31 + 15 * (number // columns)
            drawn.append(f'<rect x="{x:.1f}" y="{y - 7:.1f}" width="9" height="4" fill="{color}"/>')
            label, room = labels[number], self.room(columns)
            drawn.append(text(x + 14, y, label if len(label) <= room else label[: room - 1] + "…", 10))
        return drawn


def asked(target):
    return target["expr"].replace("$__rate_interval", "1m").replace("$skill", ".*")


def rows(panels):
    """The rows of the dashboard: their titles, and their panels."""
    found = []
    for panel in sorted(panels, key=lambda it: (it["gridPos"]["y"], it["gridPos"]["x"])):
        if panel["type"] == "row":
            found.append((panel["title"], panel["gridPos"]["y"] + 1, []))
        else:
            found[-1][2].append(panel)
    return found


def picture(title, top, panels, prometheus):
    height = max(it["gridPos"]["y"] + it["gridPos"]["h"] for it in panels) - top
    drawn = [part for panel in panels for part in Panel(panel, top).draw(prometheus)]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {24 * COLUMN} {height * LINE}" role="img" '
        f'font-family="Inter, Helvetica, Arial, sans-serif">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="#f4f5f5"/>',
        *drawn,
        "</svg>\n",
    ])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="where the pictures are put")
    parser.add_argument("--prometheus", default="http://127.0.0.1:9090", help="its address")
    parser.add_argument("--minutes", type=float, default=15, help="how far the pictures go back")
    options = parser.parse_args()
    prometheus = Prometheus(options.prometheus, options.minutes * 60)
    options.folder.mkdir(parents=True, exist_ok=True)
    for title, top, panels in rows(json.loads(DASHBOARD.read_text())["panels"]):
        path = options.folder / (re.sub(r"\W+", "-", title.lower()) + ".svg")
        path.write_text(picture(title, top, panels, prometheus))
        print(path)


if __name__ == "__main__":
    main()
