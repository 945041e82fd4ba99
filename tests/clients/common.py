"""What the checks of both versions of the official client share."""

import inspect
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue
from urllib.request import Request, urlopen

from openwop_client import WopError

WORKS = "works"


class Recorded:
    """A client that remembers the outcome of every method.

    While `absent` is true, a method is expected to find no such capability. A method that works once counts as working.
    """

    def __init__(self, inner):
        self.inner = inner
        self.outcomes = {}
        self.absent = False

    def __getattr__(self, name):
        method = getattr(self.inner, name)

        def call(*arguments, **options):
            try:
                reply = method(*arguments, **options)
            except WopError as error:
                self.note(name, error_of(error))
                raise
            # A generator has not asked the server for anything yet.
            if not (self.absent and inspect.isgenerator(reply)):
                self.note(name, f"`{reply}`" if self.absent else WORKS)
            return reply

        return call

    def note(self, name, outcome):
        if self.outcomes.get(name) != WORKS:
            self.outcomes[name] = outcome

    def methods(self):
        found = inspect.getmembers(type(self.inner), inspect.isfunction)
        return {name for name, _ in found if not name.startswith("_")}


def error_of(error):
    """An error of the client, as it is shown in the table."""
    return f"{error.status} `{error.envelope.error}`" if error.envelope else str(error.status)


def check(what, actual, expected):
    """Fails with both values, unless they are equal."""
    if actual != expected:
        raise AssertionError(f"{what}: expected {expected!r}, got {actual!r}")
    print(f"ok  {what}")


def refused(what, status, code, call):
    """Fails unless the call raises the client's error with this status and code."""
    try:
        reply = call()
    except WopError as error:
        check(what, (error.status, error.envelope and error.envelope.error), (status, code))
    else:
        raise AssertionError(f"{what}: expected {code}, got {reply!r}")


def post(url, key, body):
    """Sends a request that the client has no method for."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    with urlopen(Request(url, json.dumps(body).encode(), headers)) as reply:
        return json.load(reply)


def receiver():
    """A server on this machine that puts every request into a queue, and repeats a challenge."""
    received = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.put((self.headers, body))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/hook", received


def save(path, version, clients):
    """Writes the outcome of every method, for the table in docs/conformance.md."""
    found = {name: outcome for client in clients for name, outcome in client.outcomes.items()}
    outcomes = {name: outcome for name, outcome in found.items() if not name.startswith("_")}
    with open(path, "w") as file:
        json.dump({"version": version, "outcomes": outcomes}, file)
