"""A client of the Agent Signal Service. It needs Python 3.9 or later and nothing else: copy this file.

    from agentsignal import Client

    client = Client("http://localhost:8080", "ask_...")
    made = client.run("trading", "BTC", "momentum")
    for signal in client.signals(asset="BTC", limit=50):
        print(signal["signal_id"], signal["confidence"])
    for message in client.stream(["signal.new", "signal.closed"], assets=["BTC"]):
        if message["type"] == "subscribed" and message["gap"]:
            print("events may be missing: read the list again")
        elif message["type"] == "signal.new":
            print(message["data"])

Proxies are not supported for the stream. Objects are those of the API, as dictionaries.
"""

import base64
import hashlib
import http.client
import json
import os
import random
import socket
import ssl
import struct
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

__all__ = ["Client", "Closed", "Problem", "Stream", "messages_of"]

MAX_MESSAGE = 16 << 20  # bytes
SILENCE = 90.0  # seconds without a message; the service sends a heartbeat every 30 s

# Close codes of which a new connection makes no difference.
LASTING = {1002, 1003, 1007, 1009, 4400, 4401, 4403}


class Problem(Exception):
    """An answer that is an error. code is its stable name, document the whole of it (RFC 9457)."""

    def __init__(self, status, document, retry_after=0.0):
        self.status = status
        self.document = document
        self.code = document.get("code", "")
        self.retry_after = retry_after  # seconds
        text = document.get("detail") or document.get("title") or "no reason is given"
        for fault in document.get("errors", []):
            place = fault.get("pointer") or fault.get("parameter") or fault.get("header") or "body"
            text += "; %s: %s" % (place, fault.get("detail"))
        super().__init__("%d %s: %s" % (status, self.code, text))


class Closed(Exception):
    """The end of a WebSocket by the service."""

    def __init__(self, code, reason):
        self.code = code
        self.reason = reason
        super().__init__("the service has closed the connection (%d): %s" % (code, reason))


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: it would send the key to another address."""

    def redirect_request(self, *args):
        return None


class Client:
    """Sends requests with an API key or an access token.

    url is the address of the service without a path, timeout the limit of a request in seconds, attempts how often it
    is sent. A request that changes something is repeated only with an Idempotency-Key, or if it was refused for now.
    """

    def __init__(self, url, key, timeout=60.0, attempts=5, context=None):
        self.url = url.rstrip("/")
        self.key = key
        self.timeout = timeout
        self.attempts = attempts
        self.context = context  # an ssl.SSLContext; None for the default
        self._opener = urllib.request.build_opener(_Redirects(), urllib.request.HTTPSHandler(context=context))

    def request(self, method, path, query=None, body=None, idempotency_key=None, repeatable=False):
        """Returns the answer of the API to a request, or None without a body. Raises Problem or OSError.

        repeatable says of a change that a repetition changes nothing.
        """
        repeatable = repeatable or method == "GET" or idempotency_key is not None
        for attempt in range(1, self.attempts + 1):
            pause = min(15.0, 0.5 * 2 ** (attempt - 1)) * random.uniform(0.5, 1.0)
            try:
                return self._send(method, path, query, body, idempotency_key)
            except Problem as problem:
                if problem.status not in (429, 502, 503, 504) and problem.code != "idempotency_in_progress":
                    raise
                refused = problem.status == 429 or problem.code == "idempotency_in_progress"
                if attempt == self.attempts or not (repeatable or refused):
                    raise
                pause = max(pause, problem.retry_after)
            except (OSError, http.client.HTTPException) as error:
                if attempt == self.attempts or not repeatable:
                    raise OSError("%s %s: %s" % (method, path, error)) from error
            time.sleep(pause)

    def _send(self, method, path, query, body, idempotency_key):
        url = self.url + path
        query = {name: value for name, value in (query or {}).items() if value is not None}
        if query:
            url += "?" + urllib.parse.urlencode(query)
        headers = {"Authorization": "Bearer " + self.key, "User-Agent": "agentsignal-python"}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        if idempotency_key is not None:
            headers["Idempotency-Key"] = idempotency_key
        request = urllib.request.Request(url, data=data, headers=headers, method=method)
        try:
            with self._opener.open(request, timeout=self.timeout) as answer:
                text = answer.read()
        except urllib.error.HTTPError as answer:
            with answer:
                raise _problem(answer.code, answer.read(), answer.headers.get("Retry-After")) from None
        return json.loads(text) if text else None

    def pages(self, path, member, query=None, limit=None, id_of=None):
        """Yields the items of a list, page by page; at most limit of them.

        New items move the others to later pages meanwhile: id_of names the member by which a repeated one is noticed.
        """
        seen, offset, given = set(), 0, 0
        while limit is None or given < limit:
            page = self.request("GET", path, dict(query or {}, limit=100, offset=offset))
            for item in page[member]:
                if id_of and item[id_of] in seen:
                    continue
                if id_of:
                    seen.add(item[id_of])
                yield item
                given += 1
                if given == limit:
                    return
            if not page["has_more"] or not page[member]:
                return
            offset += len(page[member])

    def agents(self):
        """Returns the agents of the service and those of the account."""
        return self.request("GET", "/v1/agents", {"limit": 100})["agents"]

    def create_agent(self, agent, name, category, strategies, **options):
        """Registers an agent of the account and returns it. The key of the client must be an access token.

        options are description, status, defaults (what a signal has that is submitted without timeframe, risk_level, stop,
        target or expires_in) and endpoint, {"url": ...}: where it is asked when it is run. Its secret is in this answer only.
        """
        body = dict(options, id=agent, name=name, category=category, strategies=strategies)
        return self.request("POST", "/v1/agents", body=body)

    def submit(self, agent, asset, strategy, direction=None, idempotency_key=None, **options):
        """Submits a signal of an agent of the account and returns it.

        direction is long or short; options are stop, target, timeframe, risk_level, expires_in, confidence, price,
        indicators, reasoning, parameters and reference. A stop is {"percent": 1.5}, {"atr": 2} or {"price": 65000}, a
        target also {"r": 2}. Agents of category content give content, those of category weather outlook.
        """
        body = dict(options, asset=asset, strategy=strategy)
        if direction is not None:
            body["direction"] = direction
        path = "/v1/agents/%s/signals" % urllib.parse.quote(agent, safe="")
        return self.request("POST", path, body=body, idempotency_key=idempotency_key or str(uuid.uuid4()))

    def close(self, signal_id):
        """Closes a signal of an agent of the account at the next price, and returns it: open if there was none in 2 s."""
        path = "/v1/signals/%s/close" % urllib.parse.quote(signal_id, safe="")
        return self.request("POST", path, repeatable=True)

    def run(self, agent, asset, strategy, idempotency_key=None, **options):
        """Runs an agent once and returns its signal. options are timeframe, risk_level, parameters and async.

        Without an idempotency_key it makes one, so that a repeated request does not run it again.
        """
        body = dict(options, asset=asset, strategy=strategy)
        path = "/v1/agents/%s/run" % urllib.parse.quote(agent, safe="")
        return self.request("POST", path, body=body, idempotency_key=idempotency_key or str(uuid.uuid4()))

    def signals(self, limit=None, **filters):
        """Yields signals with their state, the newest first.

        filters are asset, strategy, direction, min_confidence, since, status and agent_id.
        """
        return self.pages("/v1/signals", "signals", dict(filters, view="full"), limit, "signal_id")

    def signal(self, signal_id):
        """Returns a signal with its state."""
        return self.request("GET", "/v1/signals/" + urllib.parse.quote(signal_id, safe=""))

    def scorecard(self, **filters):
        """Returns how closed signals did. filters are agent_id, strategy, asset, timeframe and since.

        committed counts those that were in a checkpoint of the service before they ended.
        """
        return self.request("GET", "/v1/scorecard", filters)

    def stream(self, channels=None, last_event_id=None, **filters):
        """Returns a Stream. filters are assets, agents, strategies, directions, min_confidence, min_expected_r_net."""
        return Stream(self, channels, last_event_id, filters)

    def follow(self, **filters):
        """Yields the messages subscribed, signal.new and signal.closed: first of the signals that are open, then the
        stream's, each once. filters are those of stream.

        After a gap (a message subscribed whose member gap is true) it asks for what the stream has not sent: signals that
        are open now, and the ends of those that were. A signal that began and ended within the gap is left out.
        """
        stream, begun, known = self.stream(["signal.new", "signal.closed"], **filters), False, set()
        for message in stream:
            found = [message]
            if message["type"] == "subscribed":
                if message["gap"] or not begun:
                    found += self._missed(stream, known)
                begun = True
            for m in found:
                if m["type"] == "signal.new":
                    if m["data"]["signal_id"] in known:
                        continue
                    known.add(m["data"]["signal_id"])
                elif m["type"] == "signal.closed":
                    if m["data"]["signal_id"] not in known:
                        continue
                    known.remove(m["data"]["signal_id"])
                elif m["type"] != "subscribed":
                    continue
                yield m

    def _missed(self, stream, known):
        """Returns messages about signals that have begun or, if they are known, ended."""
        filters = dict(stream.filters)
        assets = filters.pop("assets", None) or [None]  # the service knows all names of an asset
        while True:
            try:
                now = {s["signal_id"]: s for asset in assets for s in self.signals(status="open", asset=asset)}
                ended = [self.signal(signal_id) for signal_id in known - set(now)]
                break
            except Problem as problem:
                if problem.status not in (429, 502, 503, 504):
                    raise
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(stream.max_pause)
        begun = [messages_of(s)[0] for s in now.values() if _passes(s, filters)]
        return [messages_of(s)[-1] for s in ended] + sorted(begun, key=lambda m: m["timestamp"])


def messages_of(signal):
    """Returns the messages that the stream has of a signal with its state: signal.new, and signal.closed if it has ended.

    The confidence is that of its creation: the one it has now was not known then.
    """
    data = dict(signal, confidence=signal["initial_confidence"])
    messages = [{"type": "signal.new", "data": data, "timestamp": signal["created_at"]}]
    if signal["status"] == "closed":
        messages.append({"type": "signal.closed", "data": data, "timestamp": signal["closed_at"]})
    return messages


def _passes(signal, f):
    """Reports whether a signal passes the filters of a stream, by its values at its creation."""
    tests = {
        "assets": lambda: signal["asset"].upper() in [a.upper() for a in f["assets"]],
        "agents": lambda: signal["agent_id"] in f["agents"],
        "strategies": lambda: signal["strategy"] in f["strategies"],
        "directions": lambda: signal["direction"] in f["directions"],
        "min_confidence": lambda: signal["initial_confidence"] >= f["min_confidence"],
        "min_expected_r_net": lambda: (signal.get("metadata") or {}).get("expected_r_net") is not None
        and signal["metadata"]["expected_r_net"] >= f["min_expected_r_net"],
    }
    return all(tests[name]() for name, value in f.items() if value not in (None, []))


def _problem(status, text, retry_after=None):
    try:
        document = json.loads(text)
    except ValueError:
        document = {}
    if not isinstance(document, dict):
        document = {}
    try:
        pause = float(retry_after or 0)
    except ValueError:  # a date
        pause = 0.0
    return Problem(status, document, pause)


class Stream:
    """Follows the dashboard stream: iterate over it to get its messages, as dictionaries, each event once.

    It connects again after each interruption and resumes after the last event. Each connection begins with a message of
    the type subscribed; its member gap is true if events before it may be missing: read GET /v1/signals then.
    last_event_id is the position up to which the caller has handled events; it may keep it for the next time. Raises
    Closed and Problem where a new connection would not help.
    """

    def __init__(self, client, channels=None, last_event_id=None, filters=None):
        self.client = client
        self.channels = channels
        self.last_event_id = last_event_id
        self.filters = filters or {}
        self.min_pause, self.max_pause = 0.5, 15.0  # seconds before a new connection
        self.interruptions = 0
        self._live = False  # a connection was subscribed before
        self._socket = None

    def close(self):
        """Ends the connection."""
        if self._socket:
            self._socket.close()
            self._socket = None

    def __iter__(self):
        pause = self.min_pause
        try:
            while True:
                began, floor = time.monotonic(), 0.0
                try:
                    yield from self._connection()
                except Closed as error:
                    if error.code in LASTING:
                        raise
                    if error.code == 1001:  # all clients of a process that stops come back
                        floor = random.uniform(0, min(5.0, self.max_pause))
                except Problem as problem:
                    if problem.status not in (429, 502, 503, 504):
                        raise
                    floor = problem.retry_after
                except (OSError, ValueError):
                    pass  # cut off, or half a message
                self.close()
                self.interruptions += 1
                if time.monotonic() - began > self.max_pause:
                    pause = self.min_pause
                time.sleep(max(floor, pause * random.uniform(0.5, 1.0)))
                pause = min(self.max_pause, 2 * pause)
        finally:
            self.close()

    def _connection(self):
        wanted = {name: value for name, value in self.filters.items() if value is not None}
        if self.channels is not None:
            wanted["channels"] = self.channels
        for name, value in wanted.items():
            if isinstance(value, (list, tuple)):
                if any("," in item for item in value):
                    raise TypeError("%s: an item has a comma, which separates items" % name)
                wanted[name] = ",".join(value)
        # Without a position, too: any parameter makes it a subscription.
        wanted["last_event_id"] = self.last_event_id or ""
        self._socket = _WebSocket(self.client.url + "/v1/ws/dashboard?" + urllib.parse.urlencode(wanted), self.client.key,
                                  self.client.timeout, self.client.context)
        while True:
            message = json.loads(self._socket.receive())
            if message.get("type") == "subscribed":
                # Without a position before the interruption, events after it may have been missed.
                resumed = message["data"]["resumed"]
                message["gap"] = self._live and resumed is None or resumed is not None and not resumed["complete"]
                self._live = True
            yield message
            if message.get("id"):  # the caller has handled it
                self.last_event_id = message["id"]


class _WebSocket:
    """A client of RFC 6455 for text messages."""

    GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

    def __init__(self, url, key, timeout, context=None):
        parts = urllib.parse.urlsplit(url)
        secure = parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        self._buffer = b""
        self._socket = socket.create_connection((parts.hostname, port), timeout)
        try:
            if secure:
                context = context or ssl.create_default_context()
                self._socket = context.wrap_socket(self._socket, server_hostname=parts.hostname)
            self._handshake(parts, key)
            self._socket.settimeout(SILENCE)
        except BaseException:
            self._socket.close()
            raise

    def _handshake(self, parts, key):
        nonce = base64.b64encode(os.urandom(16)).decode()
        self._socket.sendall((
            "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: %s\r\n"
            "Sec-WebSocket-Version: 13\r\nAuthorization: Bearer %s\r\nUser-Agent: agentsignal-python\r\n\r\n"
            % (parts.path + "?" + parts.query, parts.netloc.rpartition("@")[2], nonce, key)).encode("ascii"))
        while b"\r\n\r\n" not in self._buffer:
            if len(self._buffer) > 1 << 16:
                raise ValueError("the answer to the handshake is too long")
            self._fill()
        head, self._buffer = self._buffer.split(b"\r\n\r\n", 1)
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        status = int(first.split(" ")[1])
        if status != 101:
            length = min(int(headers.get("content-length", 0)), 1 << 16)
            raise _problem(status, self._read(length), headers.get("retry-after"))
        accept = base64.b64encode(hashlib.sha1((nonce + self.GUID).encode()).digest()).decode()
        if headers.get("sec-websocket-accept") != accept or headers.get("upgrade", "").lower() != "websocket":
            raise ValueError("the answer to the handshake is not that of a WebSocket")

    def _fill(self):
        more = self._socket.recv(1 << 16)
        if not more:
            raise ConnectionError("the connection has ended")
        self._buffer += more

    def _read(self, n):
        while len(self._buffer) < n:
            self._fill()
        data, self._buffer = self._buffer[:n], self._buffer[n:]
        return data

    def _write(self, opcode, payload):
        length = len(payload)
        if length < 126:
            head = struct.pack("!BB", 0x80 | opcode, 0x80 | length)
        elif length < 1 << 16:
            head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, length)
        else:
            head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, length)
        mask = os.urandom(4)
        masked = bytes(b ^ mask[i & 3] for i, b in enumerate(payload))
        self._socket.sendall(head + mask + masked)

    def receive(self):
        """Returns the next message. It answers pings. Raises Closed, or ValueError for a frame that is not valid."""
        message, begun = bytearray(), False
        while True:
            first, second = self._read(2)
            final, opcode, length = first & 0x80, first & 0x0F, second & 0x7F
            if first & 0x70 or second & 0x80:
                raise ValueError("a frame has reserved bits or a mask")
            if opcode >= 0x8 and (not final or length > 125):
                raise ValueError("a control frame is too long or in parts")
            if length == 126:
                (length,) = struct.unpack("!H", self._read(2))
            elif length == 127:
                (length,) = struct.unpack("!Q", self._read(8))
            if len(message) + length > MAX_MESSAGE:
                raise ValueError("a message is too long")
            payload = self._read(length)
            if opcode == 0x9:
                self._write(0xA, payload)
            elif opcode == 0xA:
                pass
            elif opcode == 0x8:
                code = struct.unpack("!H", payload[:2])[0] if length >= 2 else 1005
                try:
                    self._write(0x8, payload[:2])
                except OSError:
                    pass
                raise Closed(code, payload[2:].decode("utf-8", "replace"))
            elif opcode == (0x0 if begun else 0x1):
                message += payload
                begun = True
                if final:
                    return message.decode("utf-8")
            else:
                raise ValueError("a frame has the opcode %d" % opcode)

    def close(self):
        try:
            self._write(0x8, struct.pack("!H", 1000))
        except OSError:
            pass
        self._socket.close()
