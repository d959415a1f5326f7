"""Converts a text to upper case."""

import json
import sys


def handle(input):
    text = input.get("text")
    if not isinstance(text, str) or not text:
        return failure("INVALID_ARGUMENT", "text: must not be empty")
    return {"success": True, "data": {"shouted": text.upper()}, "error": None}


def failure(code, message):
    return {"success": False, "data": None, "error": {"code": code, "message": message}}


if __name__ == "__main__":
    answer = handle(json.load(sys.stdin)["input"])
    print(json.dumps(answer))
    sys.exit(0 if answer["success"] else 1)
