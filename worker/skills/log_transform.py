"""Turns a log file beneath the allowed root into records with the same shape, as JSON or as a file."""

import os
from contextlib import nullcontext

from log_formats import csv_lines, is_continuation, json_lines, parse_json, parse_text
from openskill_sdk import Fields, Result, log, progress, run
from openskill_sdk.errors import invalid
from openskill_sdk.paths import Root
from openskill_sdk.patterns import compile_pattern, processor_limit

MAX_LINE = 8192
MAX_STACK_LINES = 100
MAX_STACK_LENGTH = 16_384
MAX_LEVELS = 50
PATTERN_SECONDS = 5


def handle(input):
    fields = Fields(input)
    input_path = fields.string("input_path", required=True)
    form = fields.string("format", default="text", choices=("text", "jsonl"))
    output = fields.string("output", default="stdout", choices=("stdout", "file"))
    output_format = fields.string("output_format", default="jsonl", choices=("jsonl", "csv"))
    output_path = fields.string("output_path", default=None)
    rules = fields.object("rules", default=None)
    limit = fields.integer("limit", 1, 10_000, default=200)
    fields.done()
    pattern, level_map = parse_rules(rules)
    if output == "stdout" and output_path is not None:
        raise invalid("output_path", "applies only to output 'file'")

    with Root() as root:
        content, beyond = root.read(input_path, "input_path")
        if beyond:  # the last line is cut
            content = content[:content.rfind(b"\n") + 1]
            log("warn", f"the file is larger than 5 MB; its last {beyond} bytes were not read")
        parser = Parser(form, pattern, level_map)
        with processor_limit(PATTERN_SECONDS, "rules.timestamp_regex") if pattern else nullcontext():
            parser.read(content.decode("utf-8", "replace"))
        records, stats = parser.records, parser.stats
        stats["bytes_skipped"] = beyond
        data = {"records": records, "output_path": None, "stats": stats}
        if output == "file":
            data["output_path"] = write(root, records, input_path, output_path, output_format)
            data["records"] = []
        elif len(records) > limit:
            stats["truncated"] = len(records) - limit
            data["records"] = records[:limit]
    return Result(data, truncated=bool(stats["truncated"] or beyond))


def parse_rules(rules):
    if rules is None:
        return None, {}
    text = rules.string("timestamp_regex", default=None, min_length=1)
    levels = rules.object("level_map", default=None)
    rules.done()
    level_map = {}
    for key, value in levels.items() if levels else ():
        if not isinstance(value, str) or len(value) > 64:
            raise invalid(levels.name(key), "must be a string of at most 64 characters")
        level_map[key.upper()] = value
    if text is None:
        return None, level_map
    pattern = compile_pattern(text, "rules.timestamp_regex")
    if pattern.groups != 1 and "timestamp" not in pattern.groupindex:
        raise invalid("rules.timestamp_regex", "must have one group, or one named 'timestamp', around the timestamp")
    return pattern, level_map


class Parser:
    """Reads lines into records and keeps count of what became of each."""

    def __init__(self, form, pattern, level_map):
        self.form, self.pattern, self.level_map = form, pattern, level_map
        self.records = []
        self.stats = {"lines_read": 0, "records": 0, "dropped": 0, "truncated": 0, "joined": 0,
                      "lines_cut": 0, "bytes_skipped": 0, "levels": {}}

    def read(self, text):
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        open_record = None  # the record to which a stack trace would belong
        for number, line in enumerate(lines, 1):
            if number % 20_000 == 0:
                progress(number / len(lines), f"{number} of {len(lines)} lines")
            line = line.rstrip("\r")
            if not line.strip():
                continue
            if self.form == "text" and len(line) > MAX_LINE:
                line = line[:MAX_LINE]
                self.stats["lines_cut"] += 1
            parsed = self.parse(line, open_record)
            if parsed is not None:
                open_record = {"line_no": number, **parsed}
                self.add(open_record)
            elif self.form == "text" and open_record and is_continuation(line) and self.join(open_record, line):
                self.stats["joined"] += 1
            else:
                self.stats["dropped"] += 1
                open_record = open_record if is_continuation(line) else None
        self.stats["lines_read"] = len(lines)

    def parse(self, line, open_record):
        if self.form == "jsonl":
            return parse_json(line)
        if line[0].isspace() and open_record:  # an indented line never starts a record inside a trace
            return None
        return parse_text(line, self.pattern)

    def add(self, record):
        level = record["level"]
        record["level"] = level = self.level_map.get(level, level)
        self.records.append(record)
        self.stats["records"] += 1
        levels, name = self.stats["levels"], level or "none"
        if name in levels or len(levels) < MAX_LEVELS:
            levels[name] = levels.get(name, 0) + 1

    def join(self, record, line):
        stack = record.get("stack")
        joined = line if stack is None else stack + "\n" + line
        if joined.count("\n") >= MAX_STACK_LINES or len(joined) > MAX_STACK_LENGTH:
            return False
        record["stack"] = joined
        return True


def write(root, records, input_path, output_path, output_format):
    """Writes all records. An existing file is replaced in the folder `out` alone, so that no input is lost."""
    own = root.shown(["out"]) + "/"
    if output_path is None:
        stem = os.path.splitext(root.split(input_path)[-1])[0]
        output_path = f"{own}{stem}.{output_format}"
    if not output_path.endswith("." + output_format):
        raise invalid("output_path", f"must end with '.{output_format}', the output_format")
    target = root.shown(root.split(output_path, "output_path"))
    if target == root.shown(root.split(input_path)):
        raise invalid("output_path", "must not be the input file")
    chunks = csv_lines(records) if output_format == "csv" else json_lines(records)
    return root.write(output_path, chunks, "output_path", replace=target.startswith(own))


if __name__ == "__main__":
    run(handle)
