import json
import sys

name = json.load(sys.stdin)["input"]["name"]
print(json.dumps({"greeting": f"hello, {name}"}))
