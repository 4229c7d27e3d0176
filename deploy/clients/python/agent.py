"""An agent of your own: it is asked by agentsignal for a signal, verifies that, and trades the cross of two moving
averages. AGENT_SECRET is the secret of its endpoint, PORT its port on the loopback address (default: a free one), behind a
proxy that ends TLS. It needs the standard library only (Python 3.9 or later), and is meant to be copied."""

import base64
import hashlib
import hmac
import json
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FAST, SLOW, MAX_BODY, TOLERANCE = 10, 30, 1 << 20, 300  # bars, bars, bytes, seconds
KEY = base64.b64decode(os.environ["AGENT_SECRET"].removeprefix("whsec_"))


def genuine(headers, body):
    """Reports whether the service has sent body lately: standard-webhooks signs its id, time and bytes."""
    run, sent = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not sent.isdecimal() or abs(time.time() - int(sent)) > TOLERANCE:
        return False
    digest = hmac.new(KEY, f"{run}.{sent}.".encode() + body, hashlib.sha256).digest()
    want = b"v1," + base64.b64encode(digest)
    return any(hmac.compare_digest(want, one.encode()) for one in headers.get("webhook-signature", "").split())


def decide(question):
    """Returns the reply, by the question alone: a question that is repeated has the same one."""
    closes = [bar["close"] for bar in question["bars"]]
    if len(closes) <= SLOW:
        return {"signal": None, "reason": f"{len(closes)} bars are too few"}
    mean = lambda n, end: sum(closes[end - n:end]) / n
    end = len(closes)
    now, before = mean(FAST, end) > mean(SLOW, end), mean(FAST, end - 1) > mean(SLOW, end - 1)
    if now == before:
        return {"signal": None, "reason": "the averages have not crossed at the newest bar"}
    return {"direction": "long" if now else "short", "stop": {"atr": 2}, "target": {"r": 1.5},
            "indicators": ["sma_10", "sma_30"], "reasoning": f"The mean of {FAST} closes has crossed that of {SLOW}."}


class Agent(BaseHTTPRequestHandler):
    protocol_version, timeout, wbufsize = "HTTP/1.1", 60, -1  # an answer is one packet

    def do_POST(self):
        body = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), MAX_BODY))
        status = 200 if genuine(self.headers, body) else 401
        reply = json.dumps(decide(json.loads(body)) if status == 200 else {"error": "the question is not genuine"}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)


server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT") or 0)), Agent)
print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
