"""Follows a stream and prints each message as a line of JSON. Each line of the input is a command."""

import json
import sys
import threading

sys.path.insert(0, sys.argv[1] + "/python")
from agentsignal import Client, Closed, Problem  # noqa: E402

client = Client(sys.argv[2], sys.argv[3])
out = threading.Lock()


def show(kind, value):
    with out:
        print(json.dumps({"kind": kind, "value": value}), flush=True)


def follow():
    stream = client.stream(["signal.new"], assets=["BTC"])
    stream.min_pause = 0.01
    stream.max_pause = 0.1
    try:
        for message in stream:
            show("message", message)
    except Closed as error:
        show("closed", error.code)


threading.Thread(target=follow, daemon=True).start()
for line in sys.stdin:
    command, *rest = line.split()
    try:
        if command == "run":
            show("run", client.run("trading", *rest))
        elif command == "run-with-key":
            show("run", client.run("trading", "BTC", "momentum", idempotency_key=rest[0]))
        elif command == "signals":
            show("signals", [s["signal_id"] for s in client.signals(asset="BTC")])
        elif command == "follow":  # until a signal comes
            followed = (m["data"].get("signal_id") for m in client.follow(assets=[rest[0]]))
            show("follow", next(i for i in followed if i == rest[1]))
    except Problem as problem:
        show("problem", problem.document)
