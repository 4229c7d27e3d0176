"""A strategy for freqtrade that trades the signals of the Agent Signal Service.

Copy this file and ../python/agentsignal.py to user_data/strategies, and set in the environment

    AGENTSIGNAL_URL      live and dry run: address of the service, such as http://localhost:8080
    AGENTSIGNAL_API_KEY  live and dry run: a key with the scope signals:read
    AGENTSIGNAL_EXPORT   backtesting: a file that agentsignal export -o json --file wrote

A signal of BTC is traded in BTC/USDT, BTC/USD and so on. freqtrade acts when a candle has closed, so a signal is entered
at the candle after the one in which it was made: a short timeframe delays it less. freqtrade has one trade a pair: what
is signalled meanwhile is not entered. In backtesting it calls custom_exit once a candle, with its opening price, and so
notices a target late.
"""

import bisect
import logging
import os
import threading
from datetime import timedelta

from freqtrade.exchange import timeframe_to_minutes
from freqtrade.strategy import IStrategy, stoploss_from_absolute

from agentsignal import Client, Problem, messages_of, replay, time_of

logger = logging.getLogger(__name__)

COLUMNS = ("enter_long", "enter_short", "enter_tag", "exit_long", "exit_short")


class Signal:
    """A signal with a stop and a target. closed is None while it is open."""

    def __init__(self, data):
        self.signal_id = data["signal_id"]
        self.asset = data["asset"]
        self.direction = data["direction"]
        self.stop = data["stop_loss"]
        self.target = data["take_profit"]
        self.created = time_of(data["created_at"])
        self.closed = None

    def reason_to_exit(self, time, price):
        """Returns why a trade should end, or None."""
        if self.closed is not None and self.closed <= time:
            return "signal_closed"
        sign = 1 if self.direction == "long" else -1
        if (price - self.stop) * sign <= 0:
            return "stop_loss_passed"
        if (price - self.target) * sign >= 0:
            return "take_profit"
        return None


class Book:
    """The signals of the messages so far. It may be used by several threads."""

    def __init__(self):
        self._lock = threading.Lock()
        self._signals = {}

    def add(self, message):
        data = message["data"]
        with self._lock:
            if message["type"] == "signal.new" and data["stop_loss"] is not None and data["take_profit"] is not None:
                self._signals.setdefault(data["signal_id"], Signal(data))
            elif message["type"] == "signal.closed" and data["signal_id"] in self._signals:
                self._signals[data["signal_id"]].closed = time_of(message["timestamp"])

    def get(self, signal_id):
        with self._lock:
            return self._signals.get(signal_id)

    def of(self, asset):
        with self._lock:
            return [signal for signal in self._signals.values() if signal.asset.upper() == asset.upper()]


def columns(opens, period, signals):
    """Returns the columns that signals give to candles, which open at the times opens and last a period.

    A row says what is known when its candle has closed. It enters the newest signal of the candle that is still open at
    its end, and exits a direction when the last open signal of it has ended.
    """
    count = len(opens)
    table = {name: [None if name == "enter_tag" else 0] * count for name in COLUMNS}
    if count == 0:
        return table
    ends = [opened + period for opened in opens]
    change = {"long": [0] * (count + 1), "short": [0] * (count + 1)}  # of the number of open signals
    for signal in sorted(signals, key=lambda s: s.created):
        first = bisect.bisect_right(ends, signal.created)  # the candle at whose end it is known
        last = count if signal.closed is None else bisect.bisect_right(ends, signal.closed)
        if first == count or signal.closed is not None and signal.closed < opens[0]:
            continue
        old = signal.created < opens[0]
        if last == first and not old:
            continue
        change[signal.direction][first] += 1
        change[signal.direction][last] -= 1
        if last < count:
            table["exit_" + signal.direction][last] = 1
        if not old:
            for direction in ("long", "short"):
                table["enter_" + direction][first] = int(direction == signal.direction)
            table["enter_tag"][first] = signal.signal_id
    for direction in ("long", "short"):
        still_open = 0
        for row in range(count):
            still_open += change[direction][row]
            if still_open > 0:
                table["exit_" + direction][row] = 0
    return table


class AgentSignalStrategy(IStrategy):
    INTERFACE_VERSION = 3

    timeframe = "5m"
    can_short = False  # True for futures and margin
    minimal_roi = {"0": 100}  # none: the signal's target counts
    stoploss = -0.99  # until custom_stoploss has set the signal's
    use_custom_stoploss = True
    use_exit_signal = True
    process_only_new_candles = True
    startup_candle_count = 0

    # Of the stream: assets, agents, strategies, directions, min_confidence, min_expected_r_net.
    signal_filters = {"agents": ["trading"]}

    def bot_start(self, **kwargs):
        self.book = Book()
        self.failure = None
        self.client = None
        if self.dp.runmode.value in ("live", "dry_run"):
            url, key = os.environ["AGENTSIGNAL_URL"], os.environ["AGENTSIGNAL_API_KEY"]
            # The bot waits for its answers.
            self.client = Client(url, key, timeout=5.0, attempts=1)
            threading.Thread(target=self.follow, args=(Client(url, key),), daemon=True).start()
        else:
            for message in replay(os.environ["AGENTSIGNAL_EXPORT"], **self.signal_filters):
                self.book.add(message)

    def follow(self, client):
        """Keeps the book up to date. A gap and the end of the stream are logged and sent to the bot's user."""
        try:
            for message in client.follow(**self.signal_filters):
                self.book.add(message)
                if message["type"] == "subscribed" and message["gap"]:
                    self.warn("The stream of signals had a gap. Ends are known again; what began in it may not be entered.")
        except Exception as error:
            self.failure = error
            self.warn("The stream of signals has ended, nothing is entered any more: %s" % error)

    def warn(self, text):
        logger.warning(text, exc_info=self.failure)
        self.dp.send_msg(text, always_send=True)

    def table(self, dataframe, pair):
        period = timedelta(minutes=timeframe_to_minutes(self.timeframe))
        return columns(list(dataframe["date"]), period, self.book.of(pair.split("/")[0]))

    def populate_indicators(self, dataframe, metadata):
        return dataframe

    def populate_entry_trend(self, dataframe, metadata):
        table = self.table(dataframe, metadata["pair"])
        for name in ("enter_long", "enter_short", "enter_tag"):
            dataframe[name] = table[name]
        return dataframe

    def populate_exit_trend(self, dataframe, metadata):
        table = self.table(dataframe, metadata["pair"])
        for name in ("exit_long", "exit_short"):
            dataframe[name] = table[name]
        return dataframe

    def confirm_trade_entry(self, pair, order_type, amount, rate, time_in_force, current_time, entry_tag, side, **kwargs):
        """Refuses what has ended meanwhile, or whose price is beyond its stop or target."""
        if self.failure is not None:
            logger.error("%s is not entered: the stream of signals has ended: %s", pair, self.failure)
            return False
        signal = self.book.get(entry_tag)
        return signal is None or signal.reason_to_exit(current_time, rate) is None

    def signal_of(self, trade):
        """Returns the signal that a trade was entered for, or None. After a restart the service is asked for it."""
        tag = trade.enter_tag or ""
        signal = self.book.get(tag)
        if signal is None and self.client is not None and tag.startswith("sig_"):
            try:
                for message in messages_of(self.client.signal(tag)):
                    self.book.add(message)
            except (OSError, Problem) as error:
                logger.warning("The stop and target of %s are not known: %s", tag, error)
            signal = self.book.get(tag)
        return signal

    def custom_stoploss(self, pair, trade, current_time, current_rate, current_profit, after_fill=False, **kwargs):
        signal = self.signal_of(trade)
        if signal is None:
            return None
        return stoploss_from_absolute(signal.stop, current_rate, is_short=trade.is_short, leverage=trade.leverage)

    def custom_exit(self, pair, trade, current_time, current_rate, current_profit, **kwargs):
        signal = self.signal_of(trade)
        if signal is None:
            return None
        return signal.reason_to_exit(current_time, current_rate)
