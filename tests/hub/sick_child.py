"""A server that fails until it is cured: `sick_child.py HOW CURE LOG COMMAND...`; standard library only.

HOW is what is wrong with it: it `hangs` (takes everything, answers nothing), `crashes` (shakes hands, and dies when it
is asked for its tools), or sends `garbage` (more bad lines in a row than anybody takes). Once the file CURE is there,
it becomes COMMAND. Every life is a line of the log.
"""

import json
import os
import sys

how, cure, log, *well = sys.argv[1:]
with open(log, "a", encoding="utf-8") as lives:
    lives.write(f"start {os.getpid()}\n")
if os.path.exists(cure):
    os.execv(well[0], well)
if how == "garbage":
    sys.stdout.buffer.write(b"\xff{not json\n" * 1500)
    sys.stdout.buffer.flush()
for line in sys.stdin:
    message = json.loads(line)
    if how != "crashes" or "id" not in message:
        continue
    if message["method"] == "tools/list":
        sys.exit(7)
    answer = {"error": {"code": -32601, "message": "no"}}
    if message["method"] == "initialize":
        info = {"name": "sick", "version": "1"}
        answer = {"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
