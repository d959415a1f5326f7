"""Recognises one line of a log in the formats that are met most often, and writes records as JSON lines or CSV.

`parse_text` and `parse_json` turn a line into a dict with `timestamp`, `level`, `source`, `message` and
`fields`, or None if they do not know it. Timestamps stay as written: a syslog line has no year, and
nothing here makes one up. Levels are upper-cased, nothing else.
"""

import csv
import io
import json
import re

COLUMNS = ("line_no", "timestamp", "level", "source", "message", "stack", "fields")

_STAMP = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_LEVEL = (r"(?i:TRACE|DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|ERR|CRITICAL|CRIT|FATAL|EMERG|ALERT|PANIC)")

# Tried in this order. A logger's name without brackets must have a dot or '::', or it might be prose.
_LINES = [re.compile(text) for text in (
    # 2026-01-02 03:04:05,123 - pricing.feed - WARNING - message
    rf"(?P<timestamp>{_STAMP}) - (?P<source>[\w.:-]{{1,100}}) - (?P<level>{_LEVEL}) - (?P<message>.*)",
    # 2026-01-02T03:04:05.123Z INFO gateway.http: message, or with the logger in brackets, or without one
    rf"(?P<timestamp>{_STAMP})\s{{1,8}}(?P<level>{_LEVEL})\s{{1,8}}"
    r"(?:\[(?P<bracketed>[^\]]{1,100})\]:?\s|(?P<source>(?=[\w-]{1,50}(?:\.|::))[\w.:-]{3,100}):\s)?\s?(?P<message>.*)",
    # [2026-01-02 03:04:05] WARN message
    rf"\[(?P<timestamp>{_STAMP})\]\s{{1,8}}\[?(?P<level>{_LEVEL})\]?:?\s(?P<message>.*)",
    # Jan  2 03:04:05 edge-1 openskill-worker[812]: message
    r"(?:<\d{1,3}>)?(?P<timestamp>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) (?P<host>[\w.-]{1,100}) "
    r"(?P<source>[^\s:\[]{1,100})(?:\[(?P<pid>\d{1,10})\])?: (?P<message>.*)",
    # WARNING:pricing.feed:message, what Python's logging writes when nobody set it up
    rf"(?P<level>{_LEVEL}):(?P<source>[\w.-]{{1,100}}):(?P<message>.*)",
)]
_ACCESS = re.compile(
    r'(?P<client>[\w.:-]{1,64}) \S{1,64} (?P<user>\S{1,64}) '
    r'\[(?P<timestamp>\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] '
    r'"(?P<method>[A-Z]{1,10}) (?P<path>[^\s"]{1,4000}) [^"]{1,20}" (?P<status>\d{3}) (?P<bytes>\d{1,18}|-)'
    r'(?: "(?P<referer>[^"]*)" "(?P<agent>[^"]*)")?')
_PAIR = re.compile(r'([A-Za-z_][\w.-]{0,63})=("(?:[^"\\]|\\.)*"|[^\s"]*)(?:\s|$)')
_MARKED_LEVEL = re.compile(rf"\[?({_LEVEL})(?:\]:?|:)\s")
_LEADING_LEVEL = re.compile(rf"\[?({_LEVEL})\b\]?:?\s")
_CONTINUATION = re.compile(
    r"\s+\S|Traceback \(most recent call last\):|Caused by: |During handling of the above|The above exception was|"
    r"stack backtrace:|[A-Za-z_][\w.]{0,100}(?:Error|Exception|Exit|Interrupt|Timeout)(?::|$)")


def is_continuation(line):
    """Whether the line belongs to the record before, as the lines of a stack trace do."""
    return _CONTINUATION.match(line) is not None


def parse_text(line, timestamp_pattern=None):
    if timestamp_pattern is not None:
        found = _by_timestamp(line, timestamp_pattern)
        if found:
            return found
    for pattern in _LINES:
        match = pattern.match(line)
        if match:
            groups = match.groupdict()
            fields = {key: groups[key] for key in ("host", "pid") if groups.get(key)}
            level = groups.get("level") or _marked_level(groups["message"])
            return _record(groups.get("timestamp"), level, groups.get("source") or groups.get("bracketed"),
                           groups["message"], fields)
    return _access(line) or _logfmt(line)


def parse_json(line):
    try:
        entry = json.loads(line, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    take = {}
    for name, keys in (("timestamp", ("timestamp", "@timestamp", "ts", "time")),
                       ("level", ("level", "severity", "lvl")), ("source", ("logger", "source", "service", "target")),
                       ("message", ("message", "msg", "event"))):
        key = next((key for key in keys if isinstance(entry.get(key), (str, int, float))
                    and not isinstance(entry.get(key), bool)), None)
        take[name] = None if key is None else str(entry.pop(key))
    if take["message"] is None and take["level"] is None:
        return None
    return _record(take["timestamp"], take["level"], take["source"], take["message"] or "", entry)


def _refuse(name):
    raise ValueError(name)


def _finite(text):
    number = float(text)
    if abs(number) == float("inf"):
        raise ValueError(text)
    return number


def _record(timestamp, level, source, message, fields):
    return {"timestamp": timestamp, "level": level.upper() if level else None, "source": source,
            "message": message.strip(), "fields": fields}


def _marked_level(message):
    """`ERROR: ...` or `[ERROR] ...`, for a format that has no place for a level. A bare word may be prose."""
    match = _MARKED_LEVEL.match(message)
    return match and match.group(1)


def _by_timestamp(line, pattern):
    """The caller's pattern says where the timestamp is; what follows it is level and message."""
    match = pattern.search(line)
    group = "timestamp" if "timestamp" in pattern.groupindex else 1
    if not match or match.group(group) is None:
        return None
    rest = (line[:match.start()] + " " + line[match.end():]).strip(" \t[]-|:,")
    level = _LEADING_LEVEL.match(rest + " ")
    message = rest if not level else rest[level.end():]
    return _record(match.group(group), level and level.group(1), None, message, {})


def _access(line):
    match = _ACCESS.match(line)
    if not match:
        return None
    groups = match.groupdict()
    status = int(groups["status"])
    level = "ERROR" if status >= 500 else "WARN" if status >= 400 else "INFO"
    fields = {"client": groups["client"], "method": groups["method"], "path": groups["path"], "status": status,
              "bytes": 0 if groups["bytes"] == "-" else int(groups["bytes"])}
    for key in ("user", "referer", "agent"):
        if groups[key] not in (None, "", "-"):
            fields[key] = groups[key]
    return _record(groups["timestamp"], level, "access", f"{groups['method']} {groups['path']} {status}", fields)


def _logfmt(line):
    if not _PAIR.match(line):
        return None
    pairs = {}
    for key, value in _PAIR.findall(line):
        pairs.setdefault(key, _unquote(value) if value.startswith('"') else value)
    if "level" not in pairs and "msg" not in pairs:
        return None
    timestamp = pairs.pop("ts", None) or pairs.pop("time", None)
    source = pairs.pop("logger", None) or pairs.pop("component", None)
    return _record(timestamp, pairs.pop("level", None), source, pairs.pop("msg", ""), pairs)


def _unquote(text):
    try:
        return json.loads(text)
    except ValueError:
        return text[1:-1]


def json_lines(records):
    for record in records:
        yield (json.dumps(record, ensure_ascii=False) + "\n").encode("utf-8", "replace")


def csv_lines(records):
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)  # RFC 4180: commas, doubled quotes, CRLF
    writer.writerow(COLUMNS)
    for record in records:
        cells = {**record, "fields": json.dumps(record["fields"], ensure_ascii=False) if record["fields"] else None}
        writer.writerow(["" if cells.get(name) is None else cells[name] for name in COLUMNS])
        if buffer.tell() > 1 << 16:
            yield buffer.getvalue().encode("utf-8", "replace")
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue().encode("utf-8", "replace")
