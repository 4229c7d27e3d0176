"""Stand-ins for what the adapters use of freqtrade and Lean, after their documentation: neither is installed here. A
dataframe is a dictionary of columns: the strategy only reads a column as a list and sets columns to lists.
"""

import sys
import types

sys.path[:0] = [sys.argv[1] + "/" + name for name in ("python", "freqtrade", "lean")]


def module(name, **members):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(members)


class DataProvider:
    def __init__(self, runmode):
        self.runmode = types.SimpleNamespace(value=runmode)
        self.sent = []

    def send_msg(self, message, *, always_send=False):
        self.sent.append(message)


class IStrategy:
    def __init__(self, config):
        self.config = config
        self.dp = None


def timeframe_to_minutes(timeframe):
    return {"1ms": 1 / 60_000, "1m": 1}[timeframe]  # 1ms for tests: a signal may end within the second


def stoploss_from_absolute(stop_rate, current_rate, is_short=False, leverage=1.0):
    distance = 1 - stop_rate / current_rate
    return max(-distance if is_short else distance, 0.0) * leverage


module("freqtrade")
module("freqtrade.exchange", timeframe_to_minutes=timeframe_to_minutes)
module("freqtrade.strategy", IStrategy=IStrategy, stoploss_from_absolute=stoploss_from_absolute)


class PythonData:
    """Members that its C# class does not have are set by index."""

    __slots__ = ("Symbol", "Time", "EndTime", "Value", "extra")

    def __init__(self):
        self.extra = {}

    def __setitem__(self, name, value):
        self.extra[name] = value

    def __getitem__(self, name):
        return self.extra[name]


class SubscriptionDataSource:
    def __init__(self, source, transport, format):
        self.Source, self.TransportMedium, self.Format = source, transport, format


module("AlgorithmImports", PythonData=PythonData, SubscriptionDataSource=SubscriptionDataSource,
       SubscriptionTransportMedium=types.SimpleNamespace(LocalFile="LocalFile"),
       FileFormat=types.SimpleNamespace(Csv="Csv"))
