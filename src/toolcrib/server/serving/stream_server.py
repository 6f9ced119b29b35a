"""Serving one client over a `MessageStream`: whole messages as dicts, for example within one process."""

from __future__ import annotations

import asyncio
import logging

from ..._util.tasks import TaskSet
from ...errors import ConnectionLost
from ...protocol import jsonrpc
from ...protocol.jsonrpc import Message
from ...transports.message_stream import MessageStream
from ..handler import RequestHandler
from .stream_session import StreamSession

log = logging.getLogger("toolcrib.server")


async def serve_stream(handler: RequestHandler, stream: MessageStream) -> None:
    """Answer the messages of a client until the stream ends. Does not close the stream.

    A further `initialize` begins a new session on the same stream; requests of the session before it are still
    answered. Messages that cannot be sent are logged, and do not end the serving.
    """
    output: asyncio.Queue[Message] = asyncio.Queue()

    def send(message: Message | list[Message]) -> None:
        jsonrpc.encode(message)  # an answer that has no JSON form must fail its own request
        for each in message if isinstance(message, list) else (message,):
            output.put_nowait(each)

    sessions = [StreamSession(handler, send)]
    initialized = False
    writer = asyncio.create_task(_write(output, stream))
    try:
        while True:
            message = await stream.receive()
            method = message.get("method")
            if method == "initialize":
                if initialized:
                    sessions.append(StreamSession(handler, send))
                initialized = True
            for session in sessions if method == "notifications/cancelled" else sessions[-1:]:
                session.feed(message)
    except (EOFError, ConnectionLost):
        pass
    finally:
        # The program that runs this may cancel it again and again, but the requests must be cancelled anyway.
        await asyncio.shield(_ending.create(_end(sessions, writer)))


_ending = TaskSet()


async def _end(sessions: list[StreamSession], writer: asyncio.Task[None]) -> None:
    for session in sessions:
        await session.close()
    writer.cancel()
    await asyncio.wait([writer])


async def _write(output: asyncio.Queue[Message], stream: MessageStream) -> None:
    while True:
        message = await output.get()
        try:
            await stream.send(message)
        except Exception as exc:  # noqa: BLE001  # the stream is not ours, and may raise anything
            log.warning("a message to the client was lost: %s: %s", type(exc).__name__, exc)
