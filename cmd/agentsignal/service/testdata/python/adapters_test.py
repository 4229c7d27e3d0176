"""Tests of the adapters for freqtrade and Lean on messages that are made up. The argument is deploy/clients."""

import json
import os
import sys
import tempfile
import types
import unittest
from datetime import datetime, timedelta, timezone

import standins
import agentsignal
import agentsignal_data
import agentsignal_strategy as freqtrade

START = datetime(2026, 11, 21, 9, 0, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)


def at(minutes):
    return START + minutes * MINUTE


def text(minutes):
    return at(minutes).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new(signal_id, minutes, direction="long", asset="BTC", stop=90.0, target=120.0):
    if direction == "short":
        stop, target = target, stop
    return {"type": "signal.new", "timestamp": text(minutes), "data": {
        "signal_id": signal_id, "agent_id": "trading", "asset": asset, "direction": direction, "strategy": "momentum",
        "confidence": 0.4, "entry_price": 100.0, "stop_loss": stop, "take_profit": target, "created_at": text(minutes)}}


def closed(signal_id, minutes, asset="BTC"):
    return {"type": "signal.closed", "timestamp": text(minutes), "data": {
        "signal_id": signal_id, "asset": asset, "close_reason": "take_profit", "exit_price": 120.0}}


def state(message, end=None):
    return dict(message["data"], initial_confidence=0.4, confidence=0.9, status="closed" if end else "open",
                closed_at=end and end["timestamp"], **(dict(close_reason="take_profit", exit_price=120.0) if end else {}))


NAMES = {None: None, "btc": "BTC", "bitcoin": "BTC", "eth": "ETH"}  # by which the service knows assets


class Recorded(agentsignal.Client):
    """A client whose stream and lists are given."""

    def __init__(self, messages, lists=(), error=None):
        super().__init__("http://nowhere", "key")
        self.messages, self.lists, self.error = messages, list(lists), error
        self.asked = []

    def stream(self, channels=None, last_event_id=None, **filters):
        recorded = self

        class Stream(agentsignal.Stream):
            def __iter__(self):
                yield from recorded.messages
                if recorded.error:
                    raise recorded.error

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


def subscribed(gap=False):
    return {"type": "subscribed", "gap": gap, "data": {}}


def rows(messages, opens=None):
    """Returns the rows of the strategy's columns that are not empty, at candles of a minute."""
    strategy = started([])
    for message in messages:
        strategy.book.add(message)
    frame = {"date": [at(i) for i in range(10)] if opens is None else opens}
    strategy.populate_indicators(frame, {"pair": "BTC/USDT:USDT"})
    strategy.populate_entry_trend(frame, {"pair": "BTC/USDT:USDT"})
    strategy.populate_exit_trend(frame, {"pair": "BTC/USDT:USDT"})
    return [(i, name, frame[name][i]) for i in range(len(frame["date"])) for name in freqtrade.COLUMNS if frame[name][i]]


def started(signals):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as export:
        export.writelines(json.dumps(s) + "\n" for s in signals)
        export.flush()
        os.environ["AGENTSIGNAL_EXPORT"] = export.name
        strategy = freqtrade.AgentSignalStrategy({})
        strategy.timeframe = "1m"
        strategy.dp = standins.DataProvider("backtest")
        strategy.bot_start()
        return strategy


def entry(row, direction, signal_id):
    return [(row, "enter_" + direction, 1), (row, "enter_tag", signal_id)]


class Columns(unittest.TestCase):
    def test_entry_and_exit(self):
        self.assertEqual(rows([new("a", 2.5), closed("a", 5.99)]), entry(2, "long", "a") + [(5, "exit_long", 1)])
        self.assertEqual(rows([new("a", 2.5, "short"), closed("a", 5)]), entry(2, "short", "a") + [(5, "exit_short", 1)])
        self.assertEqual(rows([new("a", 2)]), entry(2, "long", "a"))  # the first moment of candle 2

    def test_nothing_is_known_early(self):
        everything = [new("a", 2.5), new("b", 4, "short"), closed("a", 5.5), new("c", 7.2), closed("b", 8), closed("c", 9.1)]
        whole = rows(everything)
        for count in range(1, 11):
            past = [m for m in everything if agentsignal.time_of(m["timestamp"]) < at(count)]
            self.assertEqual(rows(past, [at(i) for i in range(count)]), [r for r in whole if r[0] < count])
            self.assertEqual(rows(everything, [at(i) for i in range(count)]), [r for r in whole if r[0] < count])

    def test_overlapping(self):
        self.assertEqual(rows([new("a", 1), new("b", 3), closed("a", 5), closed("b", 7)]),
                         entry(1, "long", "a") + entry(3, "long", "b") + [(7, "exit_long", 1)])
        self.assertEqual(rows([new("a", 1.1), new("b", 1.2, "short")]), entry(1, "short", "b"))  # the newest
        self.assertEqual(rows([new("a", 1.1), closed("a", 1.9)]), [])
        self.assertEqual(rows([new("a", 1), closed("a", 4.1), new("b", 4.5)]),
                         entry(1, "long", "a") + entry(4, "long", "b"))

    def test_edges(self):
        self.assertEqual(rows([new("a", -1), closed("a", 3)]), [(3, "exit_long", 1)])
        self.assertEqual(rows([new("a", -1), closed("a", 0.5)]), [(0, "exit_long", 1)])
        self.assertEqual(rows([new("a", -2), closed("a", -1), new("b", 10)]), [])
        self.assertEqual(rows([new("a", 1, asset="ETH"), new("b", 1, stop=None, target=None)]), [])
        # Two candles are missing: the next one knows.
        self.assertEqual(rows([new("a", 1.5)], [at(0), at(3), at(4)]), entry(1, "long", "a"))
        self.assertEqual(rows([new("a", 1.5)], []), [])


class Trades(unittest.TestCase):
    def test_stop_target_and_end(self):
        long, short = new("a", 1), new("b", 1, "short")
        strategy = started([state(long, closed("a", 5)), state(short)])
        trade = types.SimpleNamespace(enter_tag="a", is_short=False, leverage=2.0)

        def stop(rate):
            return strategy.custom_stoploss("BTC/USDT", trade, at(2), rate, 0.0, False)

        def ends(minute, rate):
            return strategy.custom_exit("BTC/USDT", trade, at(minute), rate, 0.0)

        def enters(minute, rate):
            return strategy.confirm_trade_entry("BTC/USDT", "limit", 1, rate, "GTC", at(minute), trade.enter_tag, "long")

        self.assertAlmostEqual(stop(100.0), 0.2)
        self.assertEqual([ends(2, 100.0), ends(2, 120.0), ends(2, 90.0), ends(4.9, 100.0), ends(5, 100.0)],
                         [None, "take_profit", "stop_loss_passed", None, "signal_closed"])
        self.assertEqual([enters(2, 100.0), enters(2, 89.0), enters(2, 121.0), enters(6, 100.0)], [True, False, False, False])
        trade = types.SimpleNamespace(enter_tag="b", is_short=True, leverage=1.0)
        self.assertAlmostEqual(stop(100.0), 0.2)
        self.assertEqual([ends(9, 100.0), ends(2, 90.0), ends(2, 120.0)], [None, "take_profit", "stop_loss_passed"])
        trade = types.SimpleNamespace(enter_tag="force_entry", is_short=False, leverage=1.0)
        self.assertEqual([stop(100.0), ends(2, 1.0)], [None, None])
        # It was entered before a restart, and has ended since.
        trade = types.SimpleNamespace(enter_tag="sig_old", is_short=False, leverage=1.0)
        strategy.client = Recorded([])
        self.assertEqual([ends(6, 100.0), ends(7, 100.0)], [None, "signal_closed"])
        self.assertEqual(strategy.client.asked, ["sig_old"])


class Gaps(unittest.TestCase):
    def client(self, error=None):
        a, b, c, d = new("a", 1), new("b", 2), new("c", 6), new("d", 6.5, asset="ETH")
        return Recorded(
            [subscribed(), a, b, closed("unknown", 3), subscribed(), subscribed(True), c, closed("a", 7), closed("b", 8)],
            [[], OSError("no"), [state(b), state(d), state(c)]], error)

    def test_follow(self):
        client = self.client()
        real, agentsignal.time.sleep = agentsignal.time.sleep, lambda seconds: None
        self.addCleanup(setattr, agentsignal.time, "sleep", real)
        got = [(m["type"], m["data"].get("signal_id"), m.get("gap")) for m in client.follow(assets=["btc"])]
        self.assertEqual(got, [("subscribed", None, False), ("signal.new", "a", None), ("signal.new", "b", None),
                               ("subscribed", None, False), ("subscribed", None, True), ("signal.closed", "a", None),
                               ("signal.new", "c", None), ("signal.closed", "b", None)])
        self.assertEqual(client.asked, ["a"])
        # The service knows an asset by many names; each of its signals comes once.
        btc, eth = [state(new("c", 3)), state(new("a", 1))], [state(new("b", 2, asset="ETH"))]
        for names, lists, begun in [(["bitcoin"], [btc], ["a", "c"]),
                                    (["bitcoin", "btc", "eth"], [btc, btc, eth], ["a", "b", "c"])]:
            named = Recorded([subscribed(), closed("a", 4)], lists).follow(assets=names)
            self.assertEqual([m["data"].get("signal_id") for m in named], [None, *begun, "a"])
        # What is open at the start comes first, with the confidence of its creation.
        first = list(Recorded([subscribed(), closed("b", 3)], [[state(new("b", 2)), state(new("a", 1))]]).follow())
        self.assertEqual([m["data"].get("signal_id") for m in first], [None, "a", "b", "b"])
        self.assertEqual(first[1]["data"]["confidence"], 0.4)

    def followed(self):
        real, agentsignal.time.sleep = agentsignal.time.sleep, lambda seconds: None
        self.addCleanup(setattr, agentsignal.time, "sleep", real)
        return self.client(agentsignal.Closed(4401, "revoked"))

    def test_freqtrade(self):
        strategy = started([])
        with self.assertLogs("agentsignal_strategy", "WARNING") as logged:
            strategy.follow(self.followed())
            self.assertFalse(strategy.confirm_trade_entry("BTC/USDT", "limit", 1, 100.0, "GTC", at(2), "c", "long"))
        self.assertEqual(len(logged.output), 3)
        self.assertEqual([("gap" in m, "revoked" in m) for m in strategy.dp.sent], [(True, False), (False, True)])
        self.assertEqual(strategy.book.get("a").closed, at(7))
        self.assertIsNone(strategy.book.get("c").closed)

    def test_lean(self):
        with tempfile.NamedTemporaryFile("w+") as out:
            agentsignal_data._follow(self.followed(), out)
            out.seek(0)
            lines = out.readlines()
        config = types.SimpleNamespace(Symbol=types.SimpleNamespace(Value="BTC"))
        data = [d for d in (agentsignal_data.AgentSignal().Reader(config, line, START, True) for line in lines) if d]
        self.assertEqual([(d["Event"], d.extra.get("SignalId")) for d in data], [
            ("new", "a"), ("new", "b"), ("gap", None), ("closed", "a"), ("new", "c"), ("closed", "b"), ("failed", None)])
        self.assertIn("revoked", data[-1]["Reason"])
        times = [d.EndTime for d in data]
        self.assertEqual(times, sorted(set(times)))
        self.assertIsNone(agentsignal_data.AgentSignal().Reader(config, lines[0][:20], START, True))
        with self.assertRaises(ValueError):
            agentsignal_data.AgentSignal().Reader(config, lines[0][:20], START, False)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
