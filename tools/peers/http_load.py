"""Clients of an HTTP server: each sends a prepared request on a kept connection as soon as it has the last answer.

All clients are one thread that waits for all sockets, so that the load costs little and the clients do not wait for each other.
"""

from __future__ import annotations

import selectors
import socket
import time


class Client:
    """A connection, and where it is in its request and response."""

    def __init__(self, port: int, message: bytes):
        self.connection = socket.create_connection(("127.0.0.1", port))
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection.setblocking(False)
        self.message = memoryview(message)
        self.latencies: list[float] = []
        self.begin()

    def begin(self) -> None:
        self.start, self.n_sent = time.perf_counter(), 0
        self.received = bytearray()
        self.send()

    def send(self) -> None:
        try:
            self.n_sent += self.connection.send(self.message[self.n_sent :])
        except BlockingIOError:
            pass

    @property
    def events(self) -> int:
        is_sent = self.n_sent == len(self.message)
        return selectors.EVENT_READ if is_sent else selectors.EVENT_READ | selectors.EVENT_WRITE

    def receive(self) -> bytes | None:
        """The body of the response, when it is complete."""
        part = self.connection.recv(1 << 20)
        if not part:
            raise ConnectionError("the server closed the connection")
        self.received += part
        body = body_of(self.received)
        if body is not None:
            self.latencies.append(time.perf_counter() - self.start)
        return body


def body_of(response: bytearray) -> bytes | None:
    """The body of a response, None until it is complete."""
    end = response.find(b"\r\n\r\n") + 4
    if end < 4:
        return None
    head = bytes(response[:end]).lower()
    if not head.startswith(b"http/1.1 200"):
        raise ConnectionError(response.decode(errors="replace"))
    if b"\r\ntransfer-encoding: chunked" in head:
        return chunks(response, end)
    start = head.index(b"\r\ncontent-length:") + 17
    length = int(head[start : head.index(b"\r\n", start)])
    return bytes(response[end : end + length]) if len(response) >= end + length else None


def chunks(response: bytearray, start: int) -> bytes | None:
    body = b""
    while (end := response.find(b"\r\n", start)) >= 0:
        size = int(response[start:end], 16)
        start = end + 2 + size + 2
        if len(response) < start:
            return None
        if size == 0:
            return body
        body += response[end + 2 : end + 2 + size]
    return None


def post(path: str, headers: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


def exchange(port: int, message: bytes) -> bytes:
    """The body of the response to one request."""
    client = Client(port, message)
    with client.connection, selectors.DefaultSelector() as selector:
        selector.register(client.connection, client.events)
        while True:
            for _, events in selector.select():
                if events & selectors.EVENT_WRITE:
                    client.send()
                    selector.modify(client.connection, client.events)
                elif (body := client.receive()) is not None:
                    return body


def load(port: int, message: bytes, n_clients: int, seconds: float) -> list[float]:
    """The latencies of all requests that the clients complete in this time."""
    end = time.perf_counter() + seconds
    clients = [Client(port, message) for _ in range(n_clients)]
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.connection, client.events, client)
        while (rest := end - time.perf_counter()) > 0:
            for key, events in selector.select(rest):
                client, before = key.data, key.events
                if events & selectors.EVENT_WRITE:
                    client.send()
                elif client.receive() is not None:
                    client.begin()
                if client.events != before:
                    selector.modify(client.connection, client.events, client)
    for client in clients:
        client.connection.close()
    return [latency for client in clients for latency in client.latencies]
