"""Receives the webhooks of agentsignal: verifies each delivery, handles each event
once and refuses all else. It needs the standard library only (Python 3.8 or later),
and is meant to be copied. deploy/WEBHOOKS.md explains it.

It listens on the loopback address; a proxy that ends TLS stands in front of it.
WEBHOOK_SECRET holds the secret of the webhook, WEBHOOK_SECRET_2 a second one during
a rotation, PORT the port (default 8090; 0: any that is free), WEBHOOK_TOLERANCE by
how many seconds the clocks may differ (default 300). With WEBHOOK_TOLERANCE=0 the
time is not looked at and X-Service-Signature alone decides.
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_BODY = 1 << 20  # bytes; deliveries have about 1,000
MAX_SEEN = 10_000  # events that are remembered


def service_signature(secret, body):
    """X-Service-Signature: it signs the body. The key is the whole secret."""
    return "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()


def standard_signature(secret, event_id, timestamp, body):
    """One entry of webhook-signature: it signs id, time and body. The key is the decoded
    base64 after whsec_, or the bytes of a secret in another form."""
    key = secret
    if secret.startswith(b"whsec_"):
        try:
            key = base64.b64decode(secret[len(b"whsec_"):], validate=True) or secret
        except ValueError:
            pass
    text = f"{event_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()


def verify(secrets, headers, body, tolerance, now):
    """Returns None if the raw body was signed with one of the secrets (bytes) and,
    unless tolerance is 0, sent within tolerance seconds of now; else why not."""
    event_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    given = headers.get("webhook-signature", "").split()  # two during a rotation
    if tolerance == 0:
        given = [headers.get("X-Service-Signature", "")]
    fits = False
    for secret in secrets:
        want = standard_signature(secret, event_id, timestamp, body)
        if tolerance == 0:
            want = service_signature(secret, body)
        for one in given:
            fits |= hmac.compare_digest(one.encode(), want.encode())  # in constant time
    if not fits:
        return "no signature fits"
    if tolerance > 0:
        digits = timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 16
        if not digits or abs(now - int(timestamp)) > tolerance:
            return "sent too long ago, or a clock is wrong"
    return None


def handle(event):
    """Where your work begins. An exception makes the service send the event again.
    What takes longer than a few seconds belongs into a queue of yours that survives
    a crash: the service waits 15 s for the answer."""
    print("event", json.dumps(event["id"]), "of type", json.dumps(event.get("type")), flush=True)


# The events that were handled, from the oldest. Keep the ids in your database, in the
# transaction that stores what the event does.
seen = {}
one_at_a_time = threading.Lock()


def once(event):
    """Handles an event unless that was done before."""
    with one_at_a_time:
        if event["id"] in seen:
            return
        handle(event)
        seen[event["id"]] = True
        if len(seen) > MAX_SEEN:
            del seen[next(iter(seen))]


class Receiver(BaseHTTPRequestHandler):
    """Answers deliveries. 2xx ends one; after anything else it comes again."""

    protocol_version = "HTTP/1.1"  # connections are used again
    timeout = 10  # seconds without a byte

    def do_POST(self):
        lengths = self.headers.get_all("Content-Length", [])
        # The service always sends the length. Chunks are not read here.
        if "Transfer-Encoding" in self.headers or len(lengths) != 1:
            return self.refuse(411, "give one Content-Length")
        if not (lengths[0].isascii() and lengths[0].isdigit()):
            return self.refuse(400, "Content-Length is not a number")
        if len(lengths[0]) > 10 or int(lengths[0]) > MAX_BODY:
            return self.refuse(413, "the body is too large")
        # The bytes as they came: JSON that was decoded and encoded again has others.
        body = self.rfile.read(int(lengths[0]))
        if len(body) < int(lengths[0]):
            return self.refuse(400, "the body is cut off")
        why = verify(self.server.secrets, self.headers, body, self.server.tolerance, time.time())
        if why:
            print("refused:", why, file=sys.stderr)
            return self.answer(401, "the delivery is not genuine")
        try:
            event = json.loads(body)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict) or not isinstance(event.get("id"), str) or not event["id"]:
            return self.answer(400, "the body is not an event")
        try:
            # The registration of this URL needs a proof: a text that only its receiver gets.
            if event.get("type") == "webhook.challenge":
                return self.answer(200, event["data"]["challenge"])
            once(event)
        except Exception as e:
            print("handle event:", repr(e), file=sys.stderr)
            return self.answer(500, "try again later")
        return self.answer(200, "")

    def refuse(self, status, text):
        """Answers a request whose body was not read: the connection ends with it."""
        self.close_connection = True
        self.answer(status, text)

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


def main():
    secrets = [os.environ.get(name, "") for name in ("WEBHOOK_SECRET", "WEBHOOK_SECRET_2")]
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT") or 8090)), Receiver)
    server.secrets = [s.encode("utf-8", "surrogateescape") for s in secrets if s]
    if not server.secrets:
        sys.exit("set WEBHOOK_SECRET to the secret of the webhook")
    server.tolerance = int(os.environ.get("WEBHOOK_TOLERANCE") or 300)
    if server.tolerance < 0:
        sys.exit("WEBHOOK_TOLERANCE is negative")
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
