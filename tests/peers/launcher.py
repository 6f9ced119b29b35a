"""Runs a Python program through a fork server (forkserver.py) as if it ran here, and exits with its exit code.

python -I -S launcher.py SOCKET SCRIPT|-m MODULE [ARGUMENTS]
"""

import json
import os
import socket
import sys

with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    request = json.dumps([sys.argv[2:], dict(os.environ), os.getcwd()]).encode() + b"\n"
    sent = socket.send_fds(server, [request], [0, 1, 2])
    server.sendall(request[sent:])
    code = server.recv(16)
# A program that was killed has a negative code, a server that ended says nothing.
sys.exit(int(code or b"1") % 256)
