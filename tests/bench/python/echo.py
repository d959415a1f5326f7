import json
import sys

call = json.load(sys.stdin)
print(json.dumps({"echoed": call["input"]["text"]}))
