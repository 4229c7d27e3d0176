package audit

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Update is a confidence that was published of an open signal.
type Update struct {
	ID         signal.SignalID
	Confidence float64
	At         time.Time
}

// Updates reads published updates, as long as the event log keeps them.
type Updates interface {
	EachUpdate(ctx context.Context, partition int, f func(Update)) error
}

// maxUpdates bounds the updates that an audit holds in memory. More are not compared.
const maxUpdates = 100_000

// Published counts the confidences that were published after the first one.
type Published struct {
	Final       int            `json:"final"`        // of closed signals
	Updates     int            `json:"updates"`      // of those that the event log still has
	Replayed    int            `json:"replayed"`     // the same by the bars up to then
	Held        int            `json:"held"`         // allowed by the bars
	NotCompared map[string]int `json:"not_compared"` // by reason
}

// Live compares signals that have closed since a time with a backtest over their bars.
type Live struct {
	Closed      int            `json:"closed"` // with levels
	Replayed    int            `json:"replayed"`
	Same        int            `json:"same"`
	Explained   map[string]int `json:"explained"` // differences, by reason
	Unexplained int            `json:"unexplained"`
	NotReplayed map[string]int `json:"not_replayed"` // by reason
	SumR        float64        `json:"live_r"`       // of those replayed, before costs
	BacktestR   float64        `json:"backtest_r"`
}

// updateReader reads published updates, and keeps those of all signals.
type updateReader struct {
	from Updates // nil without any
	of   map[signal.SignalID][]Update
	read int // how many were read
}

// readPartition reads the updates of a partition.
func (u *updateReader) readPartition(ctx context.Context, p int) error {
	if u.from == nil {
		return nil
	}
	return u.from.EachUpdate(ctx, p, func(x Update) {
		if u.read++; u.read <= maxUpdates {
			u.of[x.ID] = append(u.of[x.ID], x)
		}
	})
}

// checkPublished compares the confidences that were published of a signal.
func (a *audited) checkPublished(s *signal.Signal, updates []Update, r *Report) (all []backtest.Difference) {
	check := func(confidence float64, at time.Time, final bool) {
		found, how, reason := a.prices.CheckPublished(s, confidence, at.UnixMilli(), final)
		switch how {
		case backtest.Replayed:
			r.Published.Replayed++
		case backtest.Within:
			r.Published.Held++
		default:
			r.Published.NotCompared[reason]++
		}
		all = append(all, found...)
	}
	for _, u := range updates {
		r.Published.Updates++
		check(u.Confidence, u.At, false)
	}
	if s.Closing != nil {
		r.Published.Final++
		check(s.Confidence, s.Closing.At, true)
	}
	return all
}

// replay compares the end of a signal with that of a backtest. A difference that nothing explains
// is one of the signal.
func (a *audited) replay(s *signal.Signal, r *Report) []backtest.Difference {
	if s.Closing == nil || s.Closing.At.Before(a.closedSince) {
		return nil
	}
	l := &r.Live
	l.Closed++
	end, reason := a.prices.AgainstBacktest(s, backtest.SlippageOn(s.Timeframe, a.slippage))
	if reason != "" {
		l.NotReplayed[reason]++
		return nil
	}
	l.Replayed++
	l.SumR, l.BacktestR = l.SumR+end.Live, l.BacktestR+end.Backtest
	switch {
	case end.Explained != "":
		l.Explained[end.Explained]++
	case len(end.Differences) > 0:
		l.Unexplained++
		for i := range end.Differences {
			end.Differences[i].Member += " in a backtest"
		}
	default:
		l.Same++
	}
	return end.Differences
}

func (p *Published) print(w io.Writer) {
	fmt.Fprintf(w, "%d final and %d updated confidences, %d of them recomputed, %d allowed by the bars\n",
		p.Final, p.Updates, p.Replayed, p.Held)
	printReasons(w, "published confidences not compared", p.NotCompared)
}

func (l *Live) print(w io.Writer) {
	if l.Closed == 0 {
		return
	}
	fmt.Fprintf(w, "live against backtest: %d closed, %d replayed, %d the same, %d differ without explanation; "+
		"%+.2f R live, %+.2f R in the backtest\n", l.Closed, l.Replayed, l.Same, l.Unexplained, l.SumR, l.BacktestR)
	printReasons(w, "differ", l.Explained)
	printReasons(w, "not replayed", l.NotReplayed)
}

func (p *Published) merge(o *Published) {
	p.Final, p.Updates = p.Final+o.Final, p.Updates+o.Updates
	p.Replayed, p.Held = p.Replayed+o.Replayed, p.Held+o.Held
	count(p.NotCompared, o.NotCompared)
}

func (l *Live) merge(o *Live) {
	l.Closed, l.Replayed, l.Same = l.Closed+o.Closed, l.Replayed+o.Replayed, l.Same+o.Same
	l.Unexplained += o.Unexplained
	l.SumR, l.BacktestR = l.SumR+o.SumR, l.BacktestR+o.BacktestR
	count(l.Explained, o.Explained)
	count(l.NotReplayed, o.NotReplayed)
}

// count adds counts by reason.
func count(to, from map[string]int) {
	for reason, n := range from {
		to[reason] += n
	}
}
