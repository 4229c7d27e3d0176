package barfile

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// file returns the bars in their order, or why the file is refused.
func (t *table) file() (File, error) {
	if err := t.oneAsset(); err != nil {
		return File{}, err
	}
	t.sort()
	t.unite()
	if err := t.decideFaults(); err != nil {
		return File{}, err
	}
	if len(t.bars) == 0 {
		return File{}, refusal("the file has no bars: %d rows, %d of them without prices", t.report.Rows, t.report.Empty)
	}
	cuts := t.fill()
	t.report.Bars = len(t.bars)
	t.report.First, t.report.Last = Moment(t.bars[0].OpenTime), Moment(t.bars[len(t.bars)-1].OpenTime)
	return File{Bars: t.bars, Cuts: cuts, Timeframe: signal.Timeframe(t.report.Timeframe), Report: t.report}, nil
}

// byTime sorts bars with their lines.
type byTime struct{ *table }

func (x byTime) Len() int           { return len(x.bars) }
func (x byTime) Less(i, j int) bool { return x.bars[i].OpenTime < x.bars[j].OpenTime }
func (x byTime) Swap(i, j int) {
	x.bars[i], x.bars[j] = x.bars[j], x.bars[i]
	x.lineOf[i], x.lineOf[j] = x.lineOf[j], x.lineOf[i]
}

// sort puts the oldest bar first.
func (t *table) sort() {
	up, down := 0, 0
	for i := 1; i < len(t.bars); i++ {
		up, down = up+bit(t.bars[i].OpenTime > t.bars[i-1].OpenTime), down+bit(t.bars[i].OpenTime < t.bars[i-1].OpenTime)
	}
	if t.report.Order = "oldest first"; down > up {
		slices.Reverse(t.bars)
		slices.Reverse(t.lineOf)
		down, t.report.Order = up, "newest first"
	}
	if t.report.Moved = down; down > 0 {
		sort.Stable(byTime{t})
	}
}

// unite merges equal bars with the same time, and drops bars that do not fit, with a fault.
func (t *table) unite() {
	n := 0
	for i, b := range t.bars {
		line := t.lineOf[i]
		var last *marketdata.Bar
		if n > 0 {
			last = &t.bars[n-1]
		}
		switch {
		case n == 0 || b.OpenTime >= last.CloseTime:
			t.bars[n], t.lineOf[n] = b, line
			n++
		case b == *last:
			t.report.Merged++
		case b.OpenTime == last.OpenTime:
			first, second, lines := *last, b, [2]int32{t.lineOf[n-1], line}
			if lines[0] > lines[1] {
				first, second, lines = second, first, [2]int32{lines[1], lines[0]}
			}
			t.faults = append(t.faults, Fault{int(lines[1]), fmt.Sprintf("the bar of %s is another one than in line %d: %s",
				dateText(b.OpenTime), lines[0], difference(first, second)), b.OpenTime})
			*last, t.lineOf[n-1] = second, lines[1] // a correction
		case i == len(t.bars)-1:
			t.report.Unfinished++ // a snapshot of the present price, with the time at which it was taken
		default:
			t.faults = append(t.faults, Fault{int(line), fmt.Sprintf("the bar opens at %s, before that of line %d closes (%s)",
				dateText(b.OpenTime), t.lineOf[n-1], dateText(last.CloseTime)), b.OpenTime})
		}
	}
	t.bars, t.lineOf = t.bars[:n], t.lineOf[:n]
}

// difference names the first member in which two bars differ.
func difference(a, b marketdata.Bar) string {
	for _, m := range []struct {
		name string
		a, b float64
	}{{"open", a.Open, b.Open}, {"high", a.High, b.High}, {"low", a.Low, b.Low}, {"close", a.Close, b.Close}} {
		if m.a != m.b {
			return fmt.Sprintf("%s %v, there %v", m.name, m.b, m.a)
		}
	}
	return fmt.Sprintf("volume %v, there %v", b.Volume, a.Volume)
}

// decideFaults refuses or skips the bad rows. Those outside the bounds of the options only bound the bars.
func (t *table) decideFaults() error {
	slices.SortFunc(t.faults, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	var inside []Fault
	for _, f := range t.faults {
		switch {
		case t.o.From != 0 && f.at < t.o.From:
			from = max(from, f.at+1)
		case t.o.To != 0 && f.at > t.o.To:
			to = min(to, f.at)
		default:
			inside = append(inside, f)
		}
	}
	switch n := len(inside); {
	case n > 0 && !t.o.SkipBad:
		return refused(inside, "--skip-bad skips bad rows, up to 1 % of all")
	case float64(n) > max(1, maxBadShare*float64(t.report.Rows)):
		return refused(inside, fmt.Sprintf("%d of %d rows are bad, and --skip-bad skips up to 1 %%", n, t.report.Rows))
	case t.o.SkipBad:
		t.report.Skipped = len(t.faults)
		t.report.Faults = t.faults[:min(len(t.faults), maxFaultsNamed)]
		return nil
	}
	begin := sort.Search(len(t.bars), func(i int) bool { return t.bars[i].OpenTime >= from })
	end := sort.Search(len(t.bars), func(i int) bool { return t.bars[i].OpenTime >= to })
	t.report.Outside = len(t.bars) - max(0, end-begin)
	t.bars = t.bars[min(begin, end):end]
	return nil
}

// maxFaultsNamed is the number of skipped rows that are named.
const maxFaultsNamed = 100

// refused returns the error of a file with bad rows.
func refused(faults []Fault, message string) error {
	n := min(len(faults), maxListed)
	return &FileError{Message: message, Faults: faults[:n], More: len(faults) - n}
}

const (
	// A market that is always open has gaps of no more than a share of its time, weekends included.
	maxClosedShare = 0.05
	minAlwaysOpen  = 10 * dayMs
	// maxFilled is the number of missing bars in a row that are filled, as live.
	maxFilled = 3
	// Of a market with sessions, gaps are named from some longer weekend on, and are outages if no
	// holidays are as long.
	longGap, longestHolidays = 5 * dayMs, 14 * dayMs
)

// fill fills short gaps of a market that is always open, as they are live, notes long ones, and returns where bars follow
// an outage.
func (t *table) fill() (cuts []int) {
	n := len(t.bars)
	span := t.bars[n-1].CloseTime - t.bars[0].OpenTime
	open := span >= minAlwaysOpen && float64(n)*float64(t.length) >= (1-maxClosedShare)*float64(span)
	named, outage := int64(longGap), int64(longestHolidays)
	if t.report.AlwaysOpen = open; open {
		named, outage = maxFilled*t.length, maxFilled*t.length
	}
	var filled []marketdata.Bar
	first := 0 // of the bars that are not yet in filled
	for i := 1; i < n; i++ {
		before := t.bars[i-1]
		gap := t.bars[i].OpenTime - before.CloseTime
		switch {
		case gap > outage:
			cuts = append(cuts, len(filled)+i-first)
			t.report.gap(before.CloseTime, gap, true)
		case gap > named:
			t.report.gap(before.CloseTime, gap, false)
		case gap > 0 && open:
			filled = append(filled, t.bars[first:i]...)
			first = i
			for at := before.CloseTime; at+t.length <= t.bars[i].OpenTime; at += t.length {
				c := before.Close
				filled = append(filled, marketdata.Bar{OpenTime: at, CloseTime: at + t.length,
					Open: c, High: c, Low: c, Close: c, Flat: true})
				t.report.Filled++
			}
		}
	}
	if len(filled) > 0 {
		t.bars = append(filled, t.bars[first:]...)
	}
	return cuts
}
