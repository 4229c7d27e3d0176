"""Registers an agent, submits a signal twice and closes it. Arguments: the directory of the client, the address of the
service, an access token, an API key."""

import json
import sys

sys.path.insert(0, sys.argv[1] + "/python")
from agentsignal import Client, Problem  # noqa: E402

person, program = (Client(sys.argv[2], key) for key in sys.argv[3:5])
created = person.create_agent("my_python", "Mine", "trading", ["cross"], defaults={"stop": {"percent": 2}})
assert created["owner"] == "account" and created["defaults"] == {"stop": {"percent": 2}}, created
assert "my_python" in [a["id"] for a in program.agents()]
made = program.submit("my_python", "BTC", "cross", "short", idempotency_key="once", target={"r": 2}, confidence=0.6)
again = program.submit("my_python", "BTC", "cross", "short", idempotency_key="once", target={"r": 2}, confidence=0.6)
assert made == again and made["direction"] == "short" and made["metadata"]["claimed_confidence"] == 0.6, made
closed = program.close(made["signal_id"])
assert closed["signal_id"] == made["signal_id"] and closed["exit_requested_at"], closed
try:
    program.submit("my_python", "BTC", "cross", "up")
    raise AssertionError("a wrong direction is accepted")
except Problem as problem:
    assert problem.code == "invalid_request" and "/direction" in str(problem), problem
try:
    program.create_agent("my_second", "Mine", "trading", ["cross"])
    raise AssertionError("an API key registers agents")
except Problem as problem:
    assert problem.code == "jwt_required", problem
print(json.dumps(made["signal_id"]))
