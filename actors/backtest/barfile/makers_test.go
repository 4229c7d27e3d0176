package barfile

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// walked has the prices and the volumes that all files of testdata have, in the shapes of their makers.
var walked = [12][5]float64{
	{185.60, 187.21, 185.60, 187.21, 323370},
	{187.21, 187.21, 185.56, 185.84, 748100},
	{185.72, 187.37, 185.72, 187.37, 492600},
	{187.48, 188.16, 186.73, 187.64, 261050},
	{187.75, 188.08, 187.69, 188.08, 604330},
	{188.19, 188.33, 186.94, 186.94, 688100},
	{186.82, 187.06, 186.57, 187.06, 896930},
	{187.10, 187.20, 186.59, 186.81, 525610},
	{186.76, 186.76, 185.34, 185.34, 650200},
	{185.38, 187.33, 185.02, 187.33, 648330},
	{187.28, 187.81, 187.28, 187.74, 611230},
	{187.74, 187.74, 185.97, 185.97, 322670},
}

// The series of testdata.
const (
	daily   = "days of January 2024"
	index   = "the same of an index, of thousands of points"
	hourly  = "hours from 2024-01-15 09:00"
	minutes = "minutes from 2024-01-15 14:30"
)

// seriesOf returns the bars of a series.
func seriesOf(name string) (bars []marketdata.Bar) {
	start, step, factor := time.Date(2024, 1, 15, 9, 0, 0, 0, time.UTC), time.Hour, 1.0
	switch name {
	case minutes:
		start, step = start.Add(5*time.Hour+30*time.Minute), time.Minute
	case index:
		factor = 89.97
		fallthrough
	case daily:
		start, step = time.Date(2024, 1, 8, 0, 0, 0, 0, time.UTC), 24*time.Hour
	}
	at := start
	for _, w := range walked {
		for at.Weekday() == time.Saturday || at.Weekday() == time.Sunday {
			at = at.Add(24 * time.Hour)
		}
		bars = append(bars, marketdata.Bar{OpenTime: at.UnixMilli(), CloseTime: at.Add(step).UnixMilli(),
			Open: factor * w[0], High: factor * w[1], Low: factor * w[2], Close: factor * w[3], Volume: w[4]})
		at = at.Add(step)
	}
	return bars
}

// near reports whether two prices are equal up to half a cent, or two volumes up to 2 %.
func near(a, b marketdata.Bar, volume bool) bool {
	for _, p := range [][2]float64{{a.Open, b.Open}, {a.High, b.High}, {a.Low, b.Low}, {a.Close, b.Close}} {
		if math.Abs(p[0]-p[1]) > .0051 {
			return false
		}
	}
	return a.OpenTime == b.OpenTime && a.CloseTime == b.CloseTime &&
		(!volume && a.Volume == 0 || volume && math.Abs(a.Volume-b.Volume) <= .02*b.Volume)
}

// TestFilesOfMakers checks that a file of each maker is read as its bars, without a word about its form.
func TestFilesOfMakers(t *testing.T) {
	t.Parallel()
	const noVolume = "no volume"
	for _, c := range []struct {
		file, maker, series string
		has                 string // what else the report has, separated by |
	}{
		{"alpha-vantage-frame.csv", "Alpha Vantage", daily, `newest first|open "1. open"`},
		{"alpha-vantage.csv", "Alpha Vantage or Bitstamp", daily, "newest first"},
		{"amibroker.csv", "AmiBroker", daily, `month-first|asset "Ticker"`},
		{"backtrader-short-header.csv", "pandas", minutes, `time column 1 and "Date"`},
		{"binance-header.csv", "Binance", hourly, `time "open_time"|volume "volume"|milliseconds`},
		{"binance-joined.csv", "Binance", hourly, "milliseconds"}, // from the seventh row on microseconds
		{"binance-ms.csv", "Binance", hourly, "milliseconds, UTC|no header"},
		{"binance-us.csv", "Binance", hourly, "microseconds, UTC|no header"},
		{"bitfinex.csv", "", hourly, "open column 2|close column 3|newest first"},
		{"bitstamp.csv", "Alpha Vantage or Bitstamp", hourly, "seconds, UTC"},
		{"coinbase-no-header.csv", "", hourly, "low column 2|high column 3|open column 4|close column 5|newest first"},
		{"coinbase.csv", "Coinbase", hourly, "newest first"},
		{"coinmarketcap.csv", "CoinMarketCap", daily, `semicolons|time "timeOpen"`},
		{"cryptodatadownload-clock.csv", "CryptoDataDownload", hourly, "header in line 2|note, line 1"},
		{"cryptodatadownload.csv", "CryptoDataDownload", hourly, `volume "Volume BTC"|newest first`},
		{"databento.csv", "Databento", hourly, `time "ts_event"`},
		{"dukascopy-local.csv", "Dukascopy", hourly, "first +01:00"},
		{"dukascopy.csv", "Dukascopy", hourly, "day-first"},
		{"excel-german.csv", "", index, "decimal comma|semicolons|day-first"},
		{"firstrate.txt.gz", "", minutes, "gzip|no header|UTC, since none is written"},
		{"histdata.csv", "NinjaTrader or HistData", minutes, "semicolons"},
		{"interactive-brokers-zone.csv", "", minutes, "first -05:00"},
		{"interactive-brokers.csv", "Interactive Brokers", minutes, `ignored: column 1, "average", "barCount"`},
		{"investing-de.csv", "Investing.com", index, `decimal comma|day-first|close "Zuletzt"`},
		{"investing-en.csv", "Investing.com", index, `close "Price"|newest first`},
		{"investing-es.csv", "Investing.com", index, "decimal comma|day-first"},
		{"investing-fr.csv", "Investing.com", index, "decimal comma|day-first"},
		{"investing-it.csv", "Investing.com", index, "decimal comma"},
		{"investing-ja.csv", "Investing.com", index, `close "終値"`},
		{"investing-ko.csv", "Investing.com", index, `close "종가"`},
		{"investing-nl.csv", "", index, "decimal comma"},
		{"investing-pl.csv", "Investing.com", index, "decimal comma"},
		{"investing-pt.csv", "Investing.com", index, "decimal comma"},
		{"investing-ru.csv", "Investing.com", index, "decimal comma"},
		{"investing-sv.csv", "Investing.com", index, "decimal comma"},
		{"investing-tr.csv", "Investing.com", index, "decimal comma"},
		{"investing-us.csv", "Investing.com", index, "month-first"},
		{"investing-vi.csv", "Investing.com", index, "day-first"}, // a language that is not known: by the values
		{"investing-zh.csv", "", index, "newest first"},
		{"kraken-vwap.csv", "Kraken", hourly, "volume column 7"},
		{"kraken.csv", "Kraken", hourly, "seconds, UTC|volume column 6"},
		{"lean-crypto.csv", "", hourly, "no header"},
		{"lean-daily.zip", "Lean", daily, "zip: spy.csv|prices divided by 10000"},
		{"metastock.txt", "MetaStock", daily, `time "<DTYYYYMMDD>" and "<TIME>"`},
		{"metatrader4.csv", "MetaTrader 4", hourly, "time column 1 and column 2"},
		{"metatrader5-daily.csv", "MetaTrader 5", daily, `tabs|volume "<VOL>"`},
		{"metatrader5.csv", "MetaTrader 5", hourly, `volume "<TICKVOL>"`}, // in UTF-16
		{"nasdaq-index.csv", "Nasdaq", index, "month-first|" + noVolume},
		{"nasdaq.csv", "Nasdaq", daily, `close "Close/Last"|month-first`},
		{"ninjatrader.txt", "NinjaTrader or HistData", minutes, "semicolons"},
		{"norgate.csv", "Norgate", daily, `close "Close"|ignored: "Turnover", "Unadjusted Close", "Dividend"`},
		{"pandas.csv", "pandas", daily, "time column 1"},
		{"polygon.csv", "Polygon", minutes, `nanoseconds|time "window_start"`},
		{"sierra.txt", "Sierra Chart", minutes, `close "Last"|volume "Volume"`},
		{"spaces.txt", "", hourly, "spaces"},
		{"stooq-world.txt", "Stooq", hourly, `time "<DATE>" and "<TIME>"`},
		{"stooq.csv", "Stooq", daily, `close "Zamkniecie"`},
		{"tiingo.csv", "Tiingo", daily, `close "close"`},
		{"tradingview-unix.csv", "TradingView", daily, "seconds, UTC|" + noVolume},
		{"tradingview.csv", "TradingView", hourly, `ignored: "Plot", "Plot"|first +09:00`},
		{"wsj.csv", "", index, "month-first|" + noVolume},
		{"yahoo.csv", "Yahoo", daily, `close "Close"|1 rows without prices`},
		{"yfinance-offsets.csv", "yfinance", daily, "the written date"},
		{"yfinance.csv", "Yahoo", daily, `open "Open"|time "Price"|note, line 2: "Ticker,SPY`},
	} {
		read, err := ReadFile(filepath.Join("testdata", c.file), nil, Options{})
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		has, quiet := strings.CutSuffix(c.has, "|"+noVolume)
		quiet = quiet || c.file == "histdata.csv"
		want := seriesOf(c.series)
		for i := range max(len(want), len(read.Bars)) {
			if i >= len(want) || i >= len(read.Bars) || !near(read.Bars[i], want[i], !quiet) {
				t.Errorf("%s: bar %d of %d differs: %+v, want %+v", c.file, i, len(read.Bars), read.Bars[min(i, len(read.Bars)-1)],
					want[min(i, len(want)-1)])
				break
			}
		}
		var text strings.Builder
		_ = read.Report.Print(&text) // to memory
		for _, part := range append(strings.Split(has, "|"), "2024-01-", " 12 ") {
			if !strings.Contains(text.String(), part) {
				t.Errorf("%s: the report lacks %s:\n%s", c.file, part, text.String())
			}
		}
		if read.Report.Maker != c.maker || read.Report.Bars != 12 || len(read.Cuts) > 0 {
			t.Errorf("%s is taken for a file of %q, %d bars, cuts %v", c.file, read.Report.Maker, read.Report.Bars, read.Cuts)
		}
		tf := map[string]signal.Timeframe{daily: signal.D1, index: signal.D1, hourly: signal.H1, minutes: signal.M1}[c.series]
		if read.Timeframe != tf {
			t.Errorf("%s: timeframe %s", c.file, read.Timeframe)
		}
	}
	files, err := os.ReadDir("testdata")
	if err != nil || len(files) < 60 {
		t.Errorf("%d files, %v", len(files), err)
	}
}

// TestTicksAreNoBars checks that a file of ticks is refused with what to do.
func TestTicksAreNoBars(t *testing.T) {
	t.Parallel()
	_, err := ReadFile(filepath.Join("testdata", "truefx.csv"), nil, Options{})
	if err == nil || !strings.Contains(err.Error(), "only times with 2 numbers: these are ticks or closes; make bars of them") {
		t.Errorf("ticks: %v", err)
	}
}
