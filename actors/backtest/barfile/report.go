package barfile

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Moment is a time in milliseconds since 1970. Its JSON is that of the API.
type Moment int64

// MarshalJSON implements json.Marshaler.
func (m Moment) MarshalJSON() ([]byte, error) {
	return signal.AppendTime(nil, time.UnixMilli(int64(m))), nil
}

// Gap is a time without bars.
type Gap struct {
	From    Moment `json:"from"`
	Minutes int64  `json:"minutes"`
	Cut     bool   `json:"cut"` // the series begins again after it
}

// Report says what a file was taken for and what became of its rows. Its JSON is sent to clients.
type Report struct {
	Packed    string `json:"packed"` // how it was packed; empty: not
	Maker     string `json:"maker"`  // a guess; empty: unknown
	Delimiter string `json:"delimiter"`
	Header    int    `json:"header_line"` // 0: there is none
	// Columns names the columns by what they hold, such as time "Date", and Ignored the others.
	Columns   []string    `json:"columns"`
	Ignored   []string    `json:"ignored_columns"`
	Notes     []string    `json:"notes"` // lines before the first row
	Decimal   DecimalSign `json:"decimal"`
	Dates     DateOrder   `json:"dates"` // unknown: the dates have none
	Times     string      `json:"times"` // how they are written
	Zone      string      `json:"zone"`
	Scale     float64     `json:"scale"` // by which prices were divided
	Timeframe string      `json:"timeframe"`
	Order     string      `json:"order"`
	Asset     string      `json:"asset"` // as the file names it; empty: it does not

	First       Moment  `json:"first"`
	Last        Moment  `json:"last"` // the time at which the last bar opens
	Rows        int     `json:"rows"`
	Bars        int     `json:"bars"`
	Comments    int     `json:"comments"` // lines that begin with #
	Headers     int     `json:"repeated_headers"`
	OtherAssets int     `json:"rows_of_other_assets"`
	Empty       int     `json:"rows_without_prices"`
	Merged      int     `json:"merged"`     // rows that repeat another one
	Widened     int     `json:"widened"`    // bars whose high or low was off by a tick
	Unfinished  int     `json:"unfinished"` // a last bar before the end of the one before it
	Moved       int     `json:"moved"`      // rows that stand before an older one
	Skipped     int     `json:"skipped"`
	Faults      []Fault `json:"faults"`  // the first of those that were skipped
	Outside     int     `json:"outside"` // bars beyond a fault that lies outside the bounds
	AlwaysOpen  bool    `json:"always_open"`
	Filled      int     `json:"filled"` // bars that were missing
	Gaps        []Gap   `json:"gaps"`   // the longest ones, by time
	MoreGaps    int     `json:"more_gaps"`
}

// reportOf returns the report of a layout.
func reportOf(l *layout, tf signal.Timeframe) Report {
	r := Report{Header: l.headLine, Columns: []string{}, Ignored: []string{}, Faults: []Fault{}, Gaps: []Gap{},
		Notes: append([]string{}, l.notes[:min(len(l.notes), maxListed)]...), Decimal: l.decimal, Scale: l.scale,
		Timeframe: string(tf), Maker: makerOf(l)}
	r.Delimiter = map[byte]string{',': "commas", ';': "semicolons", '\t': "tabs", '|': "bars", spaces: "spaces"}[l.delimiter]
	if l.slashed {
		r.Dates = l.times.order
	}
	used := map[int]bool{l.clockAt: true}
	for what := timeRole; what < roles; what++ {
		if at := l.at[what]; at >= 0 {
			used[at] = true
			r.Columns = append(r.Columns, what.String()+" "+l.nameOf(at))
		}
	}
	if l.clockAt >= 0 {
		r.Columns[0] += " and " + l.nameOf(l.clockAt)
	}
	for at := range l.width {
		if !used[at] {
			r.Ignored = append(r.Ignored, l.nameOf(at))
		}
	}
	return r
}

// noteTime notes how the times are written, by the first of them.
func (r *Report) noteTime(s stamp, t *table) {
	r.Times, r.Zone = s.unit.String(), "UTC"
	switch {
	case t.length == dayMs && s.unit == written && (!s.zoned || s.offset != 0):
		r.Zone = "the written date"
	case s.unit == written && !s.zoned:
		r.Zone = "UTC, since none is written"
	case s.offset != 0:
		sign, off := '+', s.offset
		if off < 0 {
			sign, off = '-', -off
		}
		r.Zone = fmt.Sprintf("the written one, first %c%02d:%02d", sign, off/60, off%60)
	}
}

// gap notes a gap. If there are too many it leaves out the shortest.
func (r *Report) gap(from, length int64, cut bool) {
	r.Gaps = append(r.Gaps, Gap{Moment(from), length / minuteMs, cut})
	if len(r.Gaps) > maxListed {
		least := slices.MinFunc(r.Gaps, func(a, b Gap) int { return cmp.Compare(a.Minutes, b.Minutes) })
		r.Gaps = slices.DeleteFunc(r.Gaps, func(g Gap) bool { return g == least })
		r.MoreGaps++
	}
}

// Print writes the report.
func (r *Report) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "file: %s; ", cmp.Or(r.Maker, "maker not known"))
	if r.Packed != "" {
		fmt.Fprintf(&b, "%s, ", r.Packed)
	}
	header := "no header"
	if r.Header > 0 {
		header = fmt.Sprintf("header in line %d", r.Header)
	}
	fmt.Fprintf(&b, "cells separated by %s, %s\ncolumns: %s\n", r.Delimiter, header, strings.Join(r.Columns, ", "))
	if len(r.Ignored) > 0 {
		fmt.Fprintf(&b, "ignored: %s\n", listed(r.Ignored))
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note, %s\n", note)
	}
	fmt.Fprintf(&b, "times: %s, %s, %s", r.Times, r.Zone, r.Order)
	if r.Dates != UnknownOrder {
		fmt.Fprintf(&b, ", %s", r.Dates)
	}
	if r.Decimal == Comma {
		b.WriteString("; decimal comma")
	}
	if r.Scale != 1 {
		fmt.Fprintf(&b, "; prices divided by %g", r.Scale)
	}
	fmt.Fprintf(&b, "\nbars: %d of %s from %d rows, %s to %s\n", r.Bars, r.Timeframe, r.Rows,
		dateText(int64(r.First)), dateText(int64(r.Last)))
	r.printCounts(&b)
	for _, f := range r.Faults {
		fmt.Fprintf(&b, "skipped, %s\n", f)
	}
	for _, g := range r.Gaps {
		after := ""
		if g.Cut {
			after = ", after which history begins again"
		}
		fmt.Fprintf(&b, "gap: no bars for %s from %s%s\n", durationText(g.Minutes*minuteMs), dateText(int64(g.From)), after)
	}
	if r.MoreGaps > 0 {
		fmt.Fprintf(&b, "and %d shorter gaps\n", r.MoreGaps)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printCounts writes what became of rows that are not bars of their own.
func (r *Report) printCounts(b *strings.Builder) {
	for _, c := range []struct {
		n    int
		what string
	}{
		{r.Merged, "equal rows merged"}, {r.Empty, "rows without prices"}, {r.Widened, "bars widened by a tick"},
		{r.Unfinished, "last row, inside the bar before, left out"}, {r.Moved, "rows moved, which stood before older ones"},
		{r.OtherAssets, "rows of other assets"}, {r.Comments, "comments"}, {r.Headers, "repeated headers"},
		{r.Filled, "missing bars filled: the market never closes"}, {r.Skipped, "bad rows skipped"},
		{r.Outside, "bars beyond a bad row outside of --from and --to left out"},
	} {
		if c.n > 0 {
			fmt.Fprintf(b, "%d %s\n", c.n, c.what)
		}
	}
}

// makers lists what the heads of columns of makers have, in lower case; ^ stands for the beginning.
var makers = [][2]string{{"MetaTrader 5", "<tickvol>"}, {"Stooq", "^<ticker>,<per>,<date>"}, {"Stooq", "^data,otwarcie"},
	{"MetaStock", "<dtyyyymmdd>"}, {"CryptoDataDownload", "^unix,date,symbol"}, {"CryptoDataDownload", "^unix timestamp,date,symbol"},
	{"CryptoDataDownload", "^date,symbol,open"}, {"Binance", "taker_buy"}, {"Dukascopy", "^gmt time"}, {"Dukascopy", "^local time"},
	{"Nasdaq", "close/last"}, {"Yahoo", "^date,open,high,low,close,adj close"}, {"Yahoo", "^price,close,high,low,open"},
	{"yfinance", "dividends,stock splits"}, {"Tiingo", "divcash"}, {"Polygon", "window_start"}, {"Norgate", "unadjusted close"},
	{"Interactive Brokers", "barcount"}, {"Sierra Chart", "numberoftrades"}, {"Databento", "^ts_event"},
	{"CoinMarketCap", "^timeopen,timeclose"}, {"TradingView", "^time,open,high,low,close"}, {"Coinbase", "^time,low,high,open,close"},
	{"AmiBroker", "^ticker,date/time"}, {"Alpha Vantage", "1. open"}, {"Alpha Vantage or Bitstamp", "^timestamp,open,high,low,close"}}

// makerOf guesses the maker of a file. Nothing depends on the guess.
func makerOf(l *layout) string {
	heads := "^" + strings.ToLower(strings.Join(l.names, ","))
	for _, m := range makers {
		if strings.Contains(heads, m[1]) {
			return m[0]
		}
	}
	switch headless := l.header == nil; {
	case strings.Contains(heads, "%") && l.width == 7:
		return "Investing.com"
	case l.scale != 1:
		return "Lean"
	case headless && l.width == 12 && l.at[timeRole] == 0:
		return "Binance"
	case headless && l.width == 7 && l.clockAt == 1:
		return "MetaTrader 4"
	case headless && l.width == 6 && l.delimiter == ';':
		return "NinjaTrader or HistData"
	case headless && (l.width == 7 || l.width == 8):
		return "Kraken"
	case !headless && l.names[0] == "":
		return "pandas"
	}
	return ""
}
