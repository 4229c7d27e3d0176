"""Runs the adapters for freqtrade and Lean on a service. Each line of the input is a command."""

import json
import os
import sys
import types
from datetime import datetime, timedelta, timezone

import standins
import agentsignal_data
import agentsignal_strategy

os.environ["AGENTSIGNAL_URL"], os.environ["AGENTSIGNAL_API_KEY"] = sys.argv[2:]
PAIR = "ACME/USD"


def strategy(runmode):
    made = agentsignal_strategy.AgentSignalStrategy({})
    made.timeframe = "1ms"
    made.dp = standins.DataProvider(runmode)
    made.bot_start()
    return made


def columns(strategy, first, count):
    """Returns what is set in candles of a millisecond, of which the first opens at a time in ms."""
    start = datetime.fromtimestamp(first / 1000, timezone.utc)
    frame = {"date": [start + timedelta(milliseconds=i) for i in range(count)]}
    strategy.populate_entry_trend(strategy.populate_indicators(frame, {"pair": PAIR}), {"pair": PAIR})
    strategy.populate_exit_trend(frame, {"pair": PAIR})
    return ["%d %s %s" % (i, name, frame[name][i]) for i in range(count) for name in agentsignal_strategy.COLUMNS
            if frame[name][i]]


def data(live, asset):
    """Returns what Lean would read."""
    config = types.SimpleNamespace(Symbol=types.SimpleNamespace(Value=asset))
    reader = agentsignal_data.AgentSignal()
    source = reader.GetSource(config, None, live)
    assert (source.TransportMedium, source.Format) == ("LocalFile", "Csv")
    with open(source.Source) as lines:
        read = [reader.Reader(config, line, None, live) for line in lines]
    return [dict(r.extra, Value=r.Value, EndTime=r.EndTime.isoformat(timespec="milliseconds") + "Z") for r in read if r]


live = strategy("dry_run")
for line in sys.stdin:
    command, *rest = line.split()
    if command == "columns":
        value = columns(live, int(rest[0]), int(rest[1]))
    elif command == "trade":  # of a signal, now and at a price
        trade = types.SimpleNamespace(enter_tag=rest[0], is_short=rest[1] == "short", leverage=1.0)
        now, rate = datetime.now(timezone.utc), float(rest[2])
        value = {"stop": live.custom_stoploss(PAIR, trade, now, rate, 0.0, False),
                 "exit": live.custom_exit(PAIR, trade, now, rate, 0.0)}
    elif command == "data":
        value = data(True, rest[0])
    elif command == "backtest":
        os.environ["AGENTSIGNAL_EXPORT"] = rest[0]
        value = {"columns": columns(strategy("backtest"), int(rest[1]), int(rest[2])),
                 "data": data(False, "ACME"), "others": data(False, "BTC")}
    print(json.dumps({"kind": command, "value": value}), flush=True)
