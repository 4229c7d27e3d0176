"""Custom data for Lean: the signals of the Agent Signal Service.

Copy this file and ../python/agentsignal.py beside the algorithm, and set in the environment

    AGENTSIGNAL_URL      live: address of the service, such as http://localhost:8080
    AGENTSIGNAL_API_KEY  live: a key with the scope signals:read
    AGENTSIGNAL_EXPORT   backtests: a file that agentsignal export -o json --file wrote

    from agentsignal_data import AgentSignal

    class Follow(QCAlgorithm):
        def Initialize(self):
            self.btc = self.AddCrypto("BTCUSD", Resolution.Minute).Symbol
            self.signals = self.AddData(AgentSignal, "BTC", Resolution.Second, TimeZones.Utc).Symbol

        def OnData(self, slice):
            if slice.ContainsKey(self.signals):
                s = slice[self.signals]
                if s["Event"] == "new" and s["Direction"] == "long":
                    self.SetHoldings(self.btc, 0.1)

Times are in UTC: AddData needs TimeZones.Utc. In a backtest a signal arrives at the time at which it was made, its end
at the time at which it ended. Live, both arrive when they are received, and CreatedAt says how old a signal is: those
that are open at the start come first.

Event is new, closed, gap (events may be missing; what is open and what has ended is read again and follows) or failed
(nothing follows any more; Reason says why). gap and failed come for every asset.
"""

from AlgorithmImports import *

import atexit
import json
import os
import shutil
import tempfile
import threading
from datetime import datetime, timedelta, timezone

from agentsignal import Client, replay, time_of

# Of the stream: assets, agents, strategies, directions, min_confidence, min_expected_r_net.
FILTERS = {}

# What an event has, by the names of the API.
MEMBERS = {
    "new": {"SignalId": "signal_id", "Direction": "direction", "Confidence": "confidence", "Stop": "stop_loss",
            "Target": "take_profit", "CreatedAt": "created_at"},
    "closed": {"SignalId": "signal_id", "Reason": "close_reason"},
    "gap": {},
    "failed": {"Reason": "reason"},
}

_lock = threading.Lock()
_files = {}  # by whether it is live


def _file(live):
    """Returns the name of a file with a message a line, in the order of their times. It is made at the first call, and
    removed when the process ends."""
    with _lock:
        if live not in _files:
            directory = tempfile.mkdtemp(prefix="agentsignal")
            atexit.register(shutil.rmtree, directory, ignore_errors=True)
            path = os.path.join(directory, "messages.jsonl")
            out = open(path, "w", encoding="utf-8")
            if live:
                client = Client(os.environ["AGENTSIGNAL_URL"], os.environ["AGENTSIGNAL_API_KEY"])
                threading.Thread(target=_follow, args=(client, out), daemon=True).start()
            else:
                with out:
                    for message in replay(os.environ["AGENTSIGNAL_EXPORT"], **FILTERS):
                        _write(out, message, time_of(message["timestamp"]))
            _files[live] = path
        return _files[live]


def _write(out, message, time):
    out.write(json.dumps({"time": time.isoformat(), "message": message}) + "\n")
    out.flush()


def _follow(client, out):
    last = datetime.min.replace(tzinfo=timezone.utc)

    def write(message):
        # Lean reads the file again and again, and skips times that it has passed.
        nonlocal last
        last = max(datetime.now(timezone.utc), last + timedelta(microseconds=1))
        _write(out, message, last)

    try:
        for message in client.follow(**FILTERS):
            if message["type"] != "subscribed":
                write(message)
            elif message["gap"]:
                write({"type": "gap", "data": {}})
    except Exception as error:
        write({"type": "failed", "data": {"reason": str(error)}})


class AgentSignal(PythonData):
    """A signal, or its end. Value is the price of its entry or exit."""

    def GetSource(self, config, date, isLiveMode):
        return SubscriptionDataSource(_file(isLiveMode), SubscriptionTransportMedium.LocalFile, FileFormat.Csv)

    def Reader(self, config, line, date, isLiveMode):
        try:
            entry = json.loads(line)
        except ValueError:
            if isLiveMode:  # half a line: it is read again
                return None
            raise
        message = entry["message"]
        event, data = message["type"].replace("signal.", ""), message["data"]
        if event in ("new", "closed") and data["asset"].upper() != config.Symbol.Value.upper():
            return None
        result = AgentSignal()
        result.Symbol = config.Symbol
        result.Time = result.EndTime = time_of(entry["time"]).replace(tzinfo=None)
        result.Value = data.get("exit_price" if event == "closed" else "entry_price") or 0.0
        result["Event"] = event
        for name, member in MEMBERS[event].items():
            if data[member] is not None:
                result[name] = data[member]
        return result
