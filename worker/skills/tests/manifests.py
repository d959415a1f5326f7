"""Reads the manifests and checks values against their schemas, with the standard library alone.

This is as much YAML and JSON Schema as the manifests in this folder use, and it refuses the rest.
"""

import json
import math
import pathlib
import re

SKILLS = pathlib.Path(__file__).resolve().parent.parent


def manifest(skill):
    text = (SKILLS / f"{skill}.yaml").read_text("utf-8")
    lines = [line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")]
    value, rest = _block(lines, 0)
    assert not rest, rest[0]
    return value


def _indent(line):
    return len(line) - len(line.lstrip(" "))


def _block(lines, indent):
    """The mapping or sequence whose lines have this indent, and the lines after it."""
    values = [] if lines[0].lstrip().startswith("- ") else {}
    while lines and _indent(lines[0]) == indent:
        line = lines[0][indent:]
        if isinstance(values, list):
            assert line.startswith("- "), line
            lines = [" " * (indent + 2) + line[2:]] + lines[1:]
            value, lines = _block(lines, indent + 2)
            values.append(value)
            continue
        key, text = re.fullmatch(r"([$\w]+):(?: (.*))?", line).groups()
        lines = lines[1:]
        if text is None:
            values[key], lines = _block(lines, _indent(lines[0]))
        elif text == ">-":
            folded = []
            while lines and _indent(lines[0]) > indent:
                folded.append(lines[0].strip())
                lines = lines[1:]
            values[key] = " ".join(folded)
        else:
            values[key], rest = _flow(text.strip(), "")
            assert not rest.strip(), rest
    return values, lines


def _flow(text, stops):
    """One value in a line, and the text after it. `stops` ends a plain word inside brackets."""
    text = text.lstrip()
    if text[0] == "{":
        values, text = {}, text[1:].lstrip()
        while text[0] != "}":
            key, text = _flow(text, ":")
            values[key], text = _flow(text.lstrip()[1:], ",}")
            text = text.lstrip().lstrip(",").lstrip()
        return values, text[1:]
    if text[0] == "[":
        values, text = [], text[1:].lstrip()
        while text[0] != "]":
            value, text = _flow(text, ",]")
            values.append(value)
            text = text.lstrip().lstrip(",").lstrip()
        return values, text[1:]
    if text[0] == '"':
        value, end = json.JSONDecoder().raw_decode(text)
        return value, text[end:]
    if text[0] == "'":
        end = text.index("'", 1)
        return text[1:end], text[end + 1 :]
    word = re.match(rf"[^{re.escape(stops)}]+" if stops else r".+", text).group().strip()
    rest = text[text.index(word) + len(word) :]
    if word in ("true", "false", "null"):
        return {"true": True, "false": False, "null": None}[word], rest
    if re.fullmatch(r"-?\d+(\.\d+)?", word):
        return (float(word) if "." in word else int(word)), rest
    return word, rest


def problems(schema, value, at="data"):
    """What is wrong with `value`, as a list of sentences."""
    known = {
        "$schema",
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "pattern",
        "description",
        "default",
        "examples",
    }
    assert set(schema) <= known, set(schema) - known
    types = schema.get("type", [])
    if types and not any(_is(name, value) for name in ([types] if isinstance(types, str) else types)):
        return [f"{at} is not {types}: {value!r}"]
    found = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{at} is not one of {schema['enum']}")
    if isinstance(value, (int, float)):
        if not schema.get("minimum", -math.inf) <= value <= schema.get("maximum", math.inf):
            found.append(f"{at} is out of range: {value}")
    if isinstance(value, str):
        if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", math.inf):
            found.append(f"{at} has the wrong length: {len(value)}")
        if "pattern" in schema and not re.search(schema["pattern"], value):
            found.append(f"{at} does not fit {schema['pattern']}")
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", math.inf):
            found.append(f"{at} has the wrong number of items: {len(value)}")
        for index, item in enumerate(value):
            found += problems(schema.get("items", {}), item, f"{at}[{index}]")
    if isinstance(value, dict):
        if len(value) < schema.get("minProperties", 0):
            found.append(f"{at} has too few properties")
        found += [f"{at}.{key} is missing" for key in schema.get("required", []) if key not in value]
        for key, item in value.items():
            inner = schema.get("properties", {}).get(key, schema.get("additionalProperties", {}))
            found += [f"{at}.{key} is not declared"] if inner is False else problems(inner, item, f"{at}.{key}")
    return found


def _is(name, value):
    if isinstance(value, bool):
        return name == "boolean"
    return {
        "null": value is None,
        "string": isinstance(value, str),
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
        "number": isinstance(value, (int, float)),
        "integer": isinstance(value, int) or isinstance(value, float) and value.is_integer(),
        "boolean": False,
    }[name]
