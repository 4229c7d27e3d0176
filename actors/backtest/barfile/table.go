package barfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

const (
	// maxFaults is the number of bad rows after which reading ends.
	maxFaults = 10_000
	// maxBadShare is the share of bad rows that may be skipped.
	maxBadShare = 0.01
	// A tick is as fine as the digits of the prices, but as shares of the price never finer than the digits of a
	// 32-bit number, and never coarser than a thousandth.
	finestTick, coarsestTick = 1e-7, 1e-3
)

// table reads the rows of a file.
type table struct {
	*layout
	o      *Options
	length int64 // of a bar, in milliseconds
	tick   float64
	report Report

	line   int // the number of the last line
	cells  [][]byte
	last   int64 // the time of the last row
	asset  []byte
	assets map[string]bool // other ones
	bars   []marketdata.Bar
	lineOf []int32 // of each bar
	faults []Fault
}

// newTable returns a table whose first lines are known. The bars have the length that those show.
func newTable(l *layout, head [][]byte, o *Options) (*table, error) {
	t := &table{layout: l, o: o, tick: o.Tick, assets: map[string]bool{}}
	if t.tick == 0 {
		t.tick = math.Pow10(-min(l.places, 12)) / l.scale
	}
	tf, err := t.timeframe(head)
	if err != nil {
		return nil, err
	}
	t.report = reportOf(l, tf)
	t.length = tf.Duration().Milliseconds()
	return t, nil
}

// reserve makes room for as many bars as the size of the file lets expect, and one in 16 more.
func (t *table) reserve(head [][]byte) {
	bytes := int64(0)
	for _, line := range head {
		bytes += int64(len(line)) + 1
	}
	rows := t.o.Size * int64(len(head)) / max(1, bytes)
	n := int(min(rows+rows/16, int64(cmp.Or(t.o.MaxBars, maxBars))))
	t.bars, t.lineOf = make([]marketdata.Bar, 0, n), make([]int32, 0, n)
}

// timeframe returns the timeframe of the options, or the distance that most of the first bars have.
func (t *table) timeframe(head [][]byte) (signal.Timeframe, error) {
	var times []int64
	for _, line := range head[min(t.firstRow-1, len(head)):] {
		if s, ok := t.stampOf(split(nil, line, t.delimiter)); ok {
			times = append(times, s.utc())
		}
		if len(times) == maxSampleRows {
			break
		}
	}
	slices.Sort(times)
	times = slices.Compact(times)
	count := map[int64]int{}
	var usual, least int64
	for i := 1; i < len(times); i++ {
		apart := times[i] - times[i-1]
		if apart > 22*hourMs && apart < 26*hourMs {
			apart = dayMs // of a day with a change of the clock
		}
		count[apart]++
		if n := count[apart]; n > count[usual] || n == count[usual] && apart < usual {
			usual = apart
		}
		if least == 0 || apart < least {
			least = apart
		}
	}
	if len(times) < 2 {
		return "", refusal("the file has one bar, which does not show a timeframe: a backtest needs hundreds")
	}
	if tf := t.o.Timeframe; tf != "" {
		if length := tf.Duration().Milliseconds(); usual != length && least != length {
			return "", refusal("the bars open %s apart, so they are not those of %s", durationText(usual), tf)
		}
		return tf, nil
	}
	var names []string
	for _, tf := range signal.FileTimeframes {
		if tf.Duration().Milliseconds() == usual {
			return tf, nil
		}
		names = append(names, string(tf))
	}
	return "", refusal("the bars open %s apart; timeframes are %s", durationText(usual), strings.Join(names, ", "))
}

// readAll reads the rows.
func (t *table) readAll(lines *lines) error {
	limit := cmp.Or(t.o.MaxBars, maxBars)
	for {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if t.line = lines.number; t.line >= t.firstRow {
			t.row(line)
		}
		if len(t.bars) > limit {
			return refusal("line %d: the file has more than %d bars: give less of it", t.line, limit)
		}
		if len(t.faults) > maxFaults {
			return refused(t.faults, fmt.Sprintf("reading ended after %d bad rows", maxFaults))
		}
	}
}

// row reads a row.
func (t *table) row(line []byte) {
	switch {
	case isBlank(line):
		return
	case line[0] == '#':
		t.report.Comments++
		return
	case t.header != nil && bytes.Equal(line, t.header):
		t.report.Headers++
		return
	}
	t.report.Rows++
	t.cells = split(t.cells[:0], line, t.delimiter)
	when, ok := t.stampOf(t.cells)
	if !ok {
		t.badTime()
		return
	}
	t.last = when.utc()
	if !t.ofAsset() {
		return
	}
	if extra := t.cells[min(t.width, len(t.cells)):]; slices.ContainsFunc(extra, func(c []byte) bool { return len(c) > 0 }) {
		t.fault("there are %d values, %d more than in other lines", len(t.cells), len(extra))
		return
	}
	b, ok := t.prices()
	if !ok {
		return
	}
	b.OpenTime = t.opened(when)
	b.CloseTime = b.OpenTime + t.length
	t.widen(&b)
	if err := strategy.CheckBar(b); err != nil {
		t.fault("%s", strings.TrimSuffix(err.Error(), ": "+strategy.ErrBadBar.Error()))
		return
	}
	if t.last = b.OpenTime; t.report.Times == "" {
		t.report.noteTime(when, t)
	}
	t.bars, t.lineOf = append(t.bars, b), append(t.lineOf, int32(t.line))
}

// badTime adds the fault of a row without a time.
func (t *table) badTime() {
	at := max(t.at[timeRole], t.clockAt)
	if at >= len(t.cells) {
		t.fault("there are %d values where other lines have %d", len(t.cells), t.width)
		return
	}
	cell, read := t.cells[t.at[timeRole]], ""
	if t.slashed {
		read = " (" + string(t.times.order) + ")"
	}
	if t.clockAt >= 0 {
		cell = slices.Concat(cell, []byte(" "), t.cells[t.clockAt])
	}
	t.fault("time %s is not valid%s", quoted(cell), read)
}

// fault adds a fault of the last row.
func (t *table) fault(format string, args ...any) {
	t.faults = append(t.faults, Fault{t.line, fmt.Sprintf(format, args...), t.last})
}

// ofAsset reports whether the row is one of the asset, if the file names several.
func (t *table) ofAsset() bool {
	at := t.layout.at[assetRole]
	if at < 0 || at >= len(t.cells) {
		return true
	}
	name := t.cells[at]
	switch {
	case bytes.Equal(name, t.asset):
		return true
	case t.asset == nil:
	case plainName(string(name)) == plainName(t.o.Asset): // the rows before were those of others
		t.assets[string(t.asset)] = true
		t.report.OtherAssets += len(t.bars)
		t.bars, t.lineOf, t.faults = t.bars[:0], t.lineOf[:0], nil
	default:
		if t.report.OtherAssets++; len(t.assets) <= maxListed {
			t.assets[string(name)] = true
		}
		return false
	}
	t.asset = slices.Clone(name)
	return true
}

// plainName returns the letters and digits of the name of an asset in upper case.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToUpper(name))
}

// oneAsset refuses a file with several assets none of which is the given one.
func (t *table) oneAsset() error {
	t.report.Asset = string(t.asset)
	if t.report.OtherAssets == 0 || plainName(t.report.Asset) == plainName(t.o.Asset) {
		return nil
	}
	t.assets[t.report.Asset] = true
	return refusal("the file has the bars of several assets (%s), none of which is %s: give the name of one of them",
		listed(slices.Sorted(maps.Keys(t.assets))), quoted([]byte(t.o.Asset)))
}

// opened returns the time at which the bar of a row opens. A bar of a day opens at the midnight of UTC of its
// date, which is the written one. A time since 1970, or one of UTC, is the midnight or the opening of some
// place: from 15:00 UTC on that of the next date, but for the last minute, with which a day ends.
func (t *table) opened(s stamp) int64 {
	if t.length != dayMs {
		return s.utc()
	}
	ms := s.ms
	if s.zoned && s.offset == 0 && floorMod(ms, dayMs) < dayMs-minuteMs {
		ms += 9 * hourMs
	}
	return ms - floorMod(ms, dayMs)
}

func floorMod(a, b int64) int64 { return (a%b + b) % b }

// prices reads the prices and the volume of a row. It is false for a row without a bar.
func (t *table) prices() (b marketdata.Bar, ok bool) {
	var v [roles]float64
	missing := 0
	for r := openRole; r <= volumeRole; r++ {
		at := t.layout.at[r]
		if at < 0 {
			continue
		}
		if at >= len(t.cells) {
			t.fault("there are %d values: column %s is missing", len(t.cells), r)
			return b, false
		}
		cell := t.cells[at]
		if v[r], ok = parseNumber(cell, t.decimal.sign()); ok {
			continue
		}
		if !absent(cell) {
			t.fault("%s %s is not a number", r, quoted(cell))
			return b, false
		}
		missing += bit(r != volumeRole) // which may be unknown
	}
	switch {
	case missing == 4:
		t.report.Empty++
		return b, false
	case missing > 0:
		t.fault("there is no value of %d prices", missing)
		return b, false
	}
	return marketdata.Bar{Open: v[openRole] / t.scale, High: v[highRole] / t.scale, Low: v[lowRole] / t.scale,
		Close: v[closeRole] / t.scale, Volume: v[volumeRole]}, true
}

// widen makes a high and a low that are off by no more than a tick include open and close.
func (t *table) widen(b *marketdata.Bar) {
	top, bottom := max(b.Open, b.Close), min(b.Open, b.Close)
	if b.High >= top && b.Low <= bottom {
		return
	}
	tick := t.tick
	if t.o.Tick == 0 {
		tick = max(finestTick*top, min(tick, coarsestTick*top))
	}
	tick *= 1 + 1e-6 // the difference of two prices is rounded
	if b.High < top-tick || b.Low > bottom+tick {
		return
	}
	b.High, b.Low = max(b.High, top), min(b.Low, bottom)
	t.report.Widened++
}
