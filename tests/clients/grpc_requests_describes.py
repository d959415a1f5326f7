"""Connects with grpc-requests, which describes every service that reflection lists, and calls a skill."""
import json
import sys

from grpc_requests import Client

client = Client.get_by_endpoint(sys.argv[1])
result = client.request(
    "openskill.v1.SkillService", "Invoke", {"skill_id": "in_echo", "input_json": json.dumps({"n": 1})}
)
print(json.dumps({"services": sorted(client.service_names), "data": json.loads(result["data_json"])}))
