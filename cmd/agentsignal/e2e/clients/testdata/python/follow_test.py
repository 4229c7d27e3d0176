"""Tests follow on messages that are made up. The argument is deploy/clients."""

import sys
import unittest
from unittest import mock

sys.path.insert(0, sys.argv[1] + "/python")
import agentsignal  # noqa: E402


def new(signal_id, minute, asset="BTC"):
    at = f"2026-11-21T09:{minute:02}:00.000Z"
    return {"type": "signal.new", "timestamp": at, "data": {"signal_id": signal_id, "asset": asset, "created_at": at}}


def closed(signal_id, minute):
    return {"type": "signal.closed", "timestamp": f"2026-11-21T09:{minute:02}:00.000Z", "data": {"signal_id": signal_id}}


def state(message, end=None):
    return dict(message["data"], initial_confidence=0.4, confidence=0.9, status="closed" if end else "open",
                closed_at=end and end["timestamp"])


def subscribed(gap=False):
    return {"type": "subscribed", "gap": gap, "data": {}}


NAMES = {None: None, "btc": "BTC", "bitcoin": "BTC", "eth": "ETH"}  # by which the service knows assets


class Recorded(agentsignal.Client):
    """A client whose stream and lists are given."""

    def __init__(self, messages, lists):
        super().__init__("http://nowhere", "key")
        self.messages, self.lists, self.asked = messages, list(lists), []

    def stream(self, channels=None, last_event_id=None, **filters):
        messages = self.messages

        class Stream(agentsignal.Stream):
            def __iter__(self):
                yield from messages

        return Stream(self, channels, filters=filters)

    def signals(self, limit=None, **filters):
        assert filters.pop("status") == "open"
        asset = NAMES.get(filters.pop("asset", None))
        assert not filters
        found = self.lists.pop(0)
        if isinstance(found, Exception):
            raise found
        return [s for s in found if asset in (None, s["asset"])]

    def signal(self, signal_id):
        self.asked.append(signal_id)
        return state(new(signal_id, 1), closed(signal_id, 7))


class Follow(unittest.TestCase):
    def test_gap(self):
        a, b, c, d = new("a", 1), new("b", 2), new("c", 6), new("d", 6, asset="ETH")
        client = Recorded(
            [subscribed(), a, b, closed("unknown", 3), subscribed(), subscribed(True), c, closed("a", 7), closed("b", 8)],
            [[], OSError("no"), [state(b), state(d), state(c)]])
        with mock.patch.object(agentsignal.time, "sleep"):
            got = [(m["type"], m["data"].get("signal_id"), m.get("gap")) for m in client.follow(assets=["btc"])]
        self.assertEqual(got, [("subscribed", None, False), ("signal.new", "a", None), ("signal.new", "b", None),
                               ("subscribed", None, False), ("subscribed", None, True), ("signal.closed", "a", None),
                               ("signal.new", "c", None), ("signal.closed", "b", None)])
        self.assertEqual(client.asked, ["a"])

    def test_names_of_assets(self):  # each signal comes once
        btc, eth = [state(new("c", 3)), state(new("a", 1))], [state(new("b", 2, asset="ETH"))]
        for names, lists, begun in [(["bitcoin"], [btc], ["a", "c"]),
                                    (["bitcoin", "btc", "eth"], [btc, btc, eth], ["a", "b", "c"])]:
            named = Recorded([subscribed(), closed("a", 4)], lists).follow(assets=names)
            self.assertEqual([m["data"].get("signal_id") for m in named], [None, *begun, "a"])

    def test_start(self):  # what is open comes first, with the confidence of its creation
        first = list(Recorded([subscribed(), closed("b", 3)], [[state(new("b", 2)), state(new("a", 1))]]).follow())
        self.assertEqual([m["data"].get("signal_id") for m in first], [None, "a", "b", "b"])
        self.assertEqual(first[1]["data"]["confidence"], 0.4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
