"""A server that takes its time to start: `slow_child.py LOG NAME UNTIL`; standard library only.

UNTIL is a number of seconds, or a file: the server answers its first request after so long, or once the file exists.
It appends `start NAME` to LOG when its process begins, and `ready NAME` when it begins to answer. Reading the resource
`x://die` ends it.
"""

import json
import os
import sys
import time

log, name, until = sys.argv[1:]


def note(what):
    with open(log, "a", encoding="utf-8") as lines:
        lines.write(f"{what} {name}\n")


note("start")
if until.replace(".", "").isdigit():
    time.sleep(float(until))
else:
    while not os.path.exists(until):
        time.sleep(0.005)
note("ready")
RESULTS = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}, "resources": {}},
        "serverInfo": {"name": name, "version": "1"},
    },
    "ping": {},
    "tools/list": {"tools": [{"name": "who", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": name}]},
    "resources/list": {"resources": []},
    "resources/templates/list": {"resourceTemplates": []},
    "resources/read": {"contents": [{"uri": "x://y", "text": name}]},
}
for line in sys.stdin:
    message = json.loads(line)
    if message.get("params", {}).get("uri") == "x://die":
        sys.exit(1)
    if "id" in message:
        result = RESULTS.get(message.get("method"))
        answer = {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
