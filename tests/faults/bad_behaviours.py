"""Faults of bad_server.py, as three tables: STARTS before it serves, WIRES when it sends, TOOLS during a call.

The first line of a docstring describes the fault and its arguments. Separate from the server also because
an imported module is compiled once, the main script at every start.
"""

import json
import os
import signal
import time

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"

STARTS, WIRES, TOOLS = {}, {}, {}


def entry(table, name=None):
    def put(function):
        table[name or function.__name__] = function
        return function

    return put


# --- STARTS: before serving


@entry(STARTS, "exit")
def exit_at_once(server, how):
    """exit at once: {"code": N, "stderr": text}"""
    server.write_bytes(how.get("stderr", "").encode(), fd=2)
    os._exit(how["code"])


@entry(STARTS, "banner")
def print_banner(server, text):
    """print this text to stdout first"""
    server.write_bytes(text.encode() + b"\n")


@entry(STARTS, "delay")
def start_slowly(server, seconds):
    """do nothing for this many seconds"""
    time.sleep(seconds)


@entry(STARTS, "stderr")
def flood_stderr(server, size):
    """write this many bytes to stderr"""
    block = (b"x" * 1023 + b"\n") * 64
    for _ in range(size // len(block)):
        server.write_bytes(block, fd=2)
    server.write_bytes(b"end of the flood\n", fd=2)


@entry(STARTS, "stubborn")
def ignore_the_end(server, _):
    """ignore SIGTERM and the end of stdin"""
    signal.signal(signal.SIGTERM, lambda *_: server.record("term"))
    server.stubborn = True


@entry(STARTS, "grandchild")
def leave_a_child(server, how):
    """leave a child that ignores SIGTERM: "quiet" (pipes closed) or "holding" (it keeps stdout open)"""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    pid = os.fork()
    if pid:
        return server.record("child", pid)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0,) if how == "holding" else (0, 1, 2):
        os.dup2(null, fd)
    while True:
        time.sleep(60)


@entry(STARTS, "close_stdout")
def close_stdout(server, _):
    """close stdout and keep running"""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)


@entry(STARTS, "hold")
def stop_reading(server, until):
    """do not read stdin until this file exists (never: a file that is never created), or for this many seconds"""
    end = time.monotonic() + until if isinstance(until, (int, float)) else None
    while time.monotonic() < end if end else not os.path.exists(until):
        time.sleep(0.005)


# --- WIRES: each takes the next sender and gives one that is worse


@entry(WIRES)
def string_id(send):
    """answers carry the id as a string"""
    return lambda message: send({**message, "id": str(message["id"])} if "id" in message else message)


@entry(WIRES)
def twice(send):
    """send every message twice"""
    return lambda message: (send(message), send(message))


@entry(WIRES)
def unknown_id(send):
    """before each message, answers to unknown ids"""
    strangers = (10**9, "nobody", None, True, 1.5, -1)
    return lambda message: ([send({"jsonrpc": "2.0", "id": x, "result": {}}) for x in strangers], send(message))


@entry(WIRES)
def odd_result(send):
    """the result is a number, not an object"""
    return lambda message: send({**message, "result": 7} if "result" in message else message)


@entry(WIRES)
def no_result(send):
    """the answer has neither result nor error"""
    return lambda message: send({key: value for key, value in message.items() if key not in ("result", "error")})


@entry(WIRES)
def crlf(send):
    """lines end with CRLF and blank lines come between"""
    return lambda message: os.write(1, b"\r\n\n" + json.dumps(message).encode() + b"\r\n")


@entry(WIRES)
def garbage(send):
    """text, bad UTF-8, truncated JSON and JSON that is not a message, before and after each message"""
    junk = b'hello\n\xff\xfe\x80\n{"jsonrpc": "2.0", "id"\n\x00\n[]\n42\nnull\n{}\n"x"\n'
    return lambda message: (os.write(1, junk), send(message), os.write(1, junk))


@entry(WIRES)
def drip(send):
    """one byte every 200 ms"""

    def slowly(message):
        for byte in json.dumps(message).encode() + b"\n":
            os.write(1, bytes([byte]))
            time.sleep(0.2)

    return slowly


# --- TOOLS: in mid-call


@entry(TOOLS)
def echo(server, request, arguments):
    """answers the nonce: the tool without a fault"""
    request.text(str(arguments.get("nonce")))


@entry(TOOLS)
def fail(server, request, arguments):
    """a tool's own error"""
    request.text(str(arguments.get("nonce")), isError=True)


@entry(TOOLS)
def refuse(server, request, arguments):
    """a JSON-RPC error: {"code": N}"""
    request.error(arguments.get("code", -32603), "refused", {"nonce": arguments.get("nonce")})


@entry(TOOLS)
def slow(server, request, arguments):
    """answers after N seconds (a cancellation does not stop it): {"seconds": N}"""
    server.later(arguments["seconds"], lambda: request.text(str(arguments.get("nonce"))))


@entry(TOOLS)
def silent(server, request, arguments):
    """never answers"""


@entry(TOOLS)
def mute(server, request, arguments):
    """never answers again, but keeps reading"""
    server.mute = True


@entry(TOOLS)
def hold(server, request, arguments):
    """answers, then does not read stdin: {"until": path or seconds}"""
    request.text("holding")
    stop_reading(server, arguments["until"])


@entry(TOOLS)
def stuck(server, request, arguments):
    """does not answer and does not read stdin: {"until": path or seconds}"""
    stop_reading(server, arguments["until"])


@entry(TOOLS)
def die(server, request, arguments):
    """exits during the call: {"code": N, "answer": bool, "part": bool}"""
    if arguments.get("answer"):
        request.text(str(arguments.get("nonce")))
    if arguments.get("part"):
        os.write(1, b'{"jsonrpc": "2.0", "id": %d, "resu' % request.id)
    os._exit(arguments.get("code", 1))


@entry(TOOLS, "close_stdout")
def close_in_call(server, request, arguments):
    """closes stdout during the call and keeps running"""
    close_stdout(server, True)


@entry(TOOLS, "close_stdin")
def close_stdin_in_call(server, request, arguments):
    """closes stdin, answers and keeps running"""
    os.close(0)
    request.text("closed")
    while True:
        time.sleep(60)


@entry(TOOLS)
def spew(server, request, arguments):
    """N garbage lines in a row, then the answer: {"lines": N}"""
    server.write_bytes(b"this is not JSON \xff\n" * arguments["lines"])
    request.text(str(arguments.get("nonce")))


@entry(TOOLS)
def torn(server, request, arguments):
    """truncated JSON in which the id can still be read"""
    os.write(1, b'{"jsonrpc": "2.0", "id": %d, "result": {"content": [\n' % request.id)


@entry(TOOLS)
def huge(server, request, arguments):
    """an answer of N bytes in one line: {"size": N}"""
    head, tail = json.dumps({"jsonrpc": "2.0", "id": request.id, "result": {"content": [], "pad": "@"}}).split("@")
    server.write_bytes(head.encode())
    for start in range(0, arguments["size"], 1 << 20):
        server.write_bytes(b"x" * min(1 << 20, arguments["size"] - start))
    server.write_bytes(tail.encode() + b"\n")


@entry(TOOLS)
def deep(server, request, arguments):
    """an answer with N levels of nesting: {"depth": N}"""
    nested = b'{"a":' * arguments["depth"] + b"1" + b"}" * arguments["depth"]
    server.write_bytes(
        b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":%s}}\n' % (request.id, nested)
    )


@entry(TOOLS)
def flood(server, request, arguments):
    """N notifications, then the answer: {"count": N, "method": name}"""
    token = request.meta.get("progressToken", "nobody's")
    for n in range(arguments["count"]):
        params = {"progressToken": token, "progress": n + 1, "level": "info", "data": n}
        server.send({"method": arguments.get("method", "notifications/message"), "params": params})
    request.text(str(arguments.get("nonce")))


@entry(TOOLS)
def tick(server, request, arguments):
    """progress every S seconds, N times, then the answer: {"every": S, "count": N}"""

    def step(done):
        if done == arguments["count"]:
            return request.text(str(arguments.get("nonce")))
        params = {"progressToken": request.meta.get("progressToken"), "progress": done + 1}
        server.send({"method": "notifications/progress", "params": params})
        server.later(arguments["every"], lambda: step(done + 1))

    step(0)


@entry(TOOLS, "stderr")
def stderr_in_call(server, request, arguments):
    """N bytes to stderr, then the answer: {"size": N}"""
    flood_stderr(server, arguments["size"])
    request.text(str(arguments.get("nonce")))


@entry(TOOLS)
def ask(server, request, arguments):
    """sends a request to the client and answers its reply: {"method", "params", "force": also when modern}"""
    method, params = arguments["method"], arguments.get("params", {})
    if request.modern and not arguments.get("force"):
        if "inputResponses" in request.params:
            return request.text(json.dumps(request.params["inputResponses"]["it"]))
        wanted = {"it": {"method": method, "params": params}}
        return request.answer({"resultType": "input_required", "inputRequests": wanted, "requestState": "state"})
    ident = f"ask-{request.id}"
    server.asked[ident] = lambda answer: request.text(json.dumps(answer.get("result", answer.get("error"))))
    server.send({"id": ident, "method": method, "params": params})


@entry(TOOLS)
def declared(server, request, arguments):
    """the capabilities that the client declared"""
    request.text(json.dumps(request.meta.get(CAPABILITIES) if request.modern else server.client))


@entry(TOOLS)
def environ(server, request, arguments):
    """the server's whole environment"""
    request.text(json.dumps(dict(os.environ)))


@entry(TOOLS)
def grandchild(server, request, arguments):
    """leaves a child behind: {"how": "quiet" | "holding"}"""
    leave_a_child(server, arguments.get("how", "quiet"))
    request.text("left")
