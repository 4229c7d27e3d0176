package audit

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Report is the result of an audit.
type Report struct {
	Signals       int            `json:"signals"`
	Recomputed    int            `json:"recomputed"`
	NotRecomputed map[string]int `json:"not_recomputed"` // by reason
	Closed        int            `json:"closed"`
	Replayed      int            `json:"ends_replayed"`
	Held          int            `json:"ends_held_against_bars"`
	NotCompared   map[string]int `json:"ends_not_compared"` // by reason
	Outlooks      int            `json:"outlooks_compared"` // with another one of the same input
	Published     Published      `json:"published_confidences"`
	Live          Live           `json:"live_against_backtest"`
	Record        Record         `json:"record"`
	Shifts        []Shift        `json:"mean_differences"`
	Differing     []Differing    `json:"differing"`

	offsets map[string]*moments // by member
}

func newReport() *Report {
	return &Report{
		NotRecomputed: map[string]int{},
		NotCompared:   map[string]int{},
		Published:     Published{NotCompared: map[string]int{}},
		Live:          Live{Explained: map[string]int{}, NotReplayed: map[string]int{}},
		Record:        Record{Differing: []Finding{}},
		Shifts:        []Shift{},
		Differing:     []Differing{},
		offsets:       map[string]*moments{},
	}
}

// Differences returns the number of signals, entries of the record and means that differ.
func (r *Report) Differences() int {
	return len(r.Differing) + len(r.Record.Differing) + r.systematic()
}

func (r *Report) systematic() (n int) {
	for i := range r.Shifts {
		if r.Shifts[i].Systematic {
			n++
		}
	}
	return n
}

// Differing is a signal that differs from the recomputed one.
type Differing struct {
	ID          signal.SignalID       `json:"signal_id"`
	Asset       string                `json:"asset"`
	Strategy    string                `json:"strategy"`
	CreatedAt   string                `json:"created_at"`
	Differences []backtest.Difference `json:"differences"`
}

// Print writes r as text.
func (r *Report) Print(w io.Writer) {
	if r.Signals == 0 && r.Record.Created == 0 {
		fmt.Fprintln(w, "no signals are stored: --data-dir, or redis.url, must be that of the service")
		return
	}
	for _, d := range r.Differing {
		fmt.Fprintf(w, "%s %s %s, made %s:\n", d.ID, d.Asset, d.Strategy, d.CreatedAt)
		for _, x := range d.Differences {
			fmt.Fprintf(w, "  %s is %s, recomputed %s\n", x.Member, x.Stored, x.Now)
		}
	}
	for _, f := range r.Record.Differing {
		fmt.Fprintf(w, "record: %s%s\n", f.prefix(), f.What)
	}
	fmt.Fprintf(w, "%d signals, %d of them recomputed, %d differ\n", r.Signals, r.Recomputed, len(r.Differing))
	printReasons(w, "not recomputed", r.NotRecomputed)
	fmt.Fprintf(w, "%d closed, %d of them closed again by bars, %d compared with the bars of their lives\n",
		r.Closed, r.Replayed, r.Held)
	printReasons(w, "ends not compared", r.NotCompared)
	if r.Outlooks > 0 {
		fmt.Fprintf(w, "%d outlooks compared with others of the same input\n", r.Outlooks)
	}
	r.Published.print(w)
	r.Live.print(w)
	r.Record.print(w)
	for i := range r.Shifts {
		r.Shifts[i].print(w)
	}
}

func printReasons(w io.Writer, what string, count map[string]int) {
	for _, reason := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(w, "  %d %s: %s\n", count[reason], what, reason)
	}
}

// add adds the result for a signal. reason is why its end was not compared.
func (r *Report) add(
	s *signal.Signal, made *backtest.Verdict, how backtest.Compared, reason string, found []backtest.Difference,
) {
	r.Signals++
	for _, o := range made.Offsets {
		r.offset(o)
	}
	switch {
	case made.Reason == "":
		r.Recomputed++
	case made.FewBars:
		r.NotRecomputed[reasonBars]++
	default:
		r.NotRecomputed[made.Reason]++
	}
	if s.Closing != nil {
		r.Closed++
		switch how {
		case backtest.Replayed:
			r.Replayed++
		case backtest.Within:
			r.Held++
		default:
			r.NotCompared[reason]++
		}
	}
	if len(found) > 0 {
		r.Differing = append(r.Differing, Differing{s.ID, s.Asset, s.Strategy,
			s.CreatedAt.UTC().Format(time.RFC3339Nano), found})
	}
}

// offset adds a difference to its member.
func (r *Report) offset(o backtest.Offset) {
	share := o.By / o.Tolerance
	r.sum(o.Member, &moments{1, o.By, share, share * share})
}

func (r *Report) sum(member string, o *moments) {
	m := r.offsets[member]
	if m == nil {
		m = &moments{}
		r.offsets[member] = m
	}
	m.add(o)
}

// judge fills in the shifts from what was summed.
func (r *Report) judge() {
	for _, member := range slices.Sorted(maps.Keys(r.offsets)) {
		m := r.offsets[member]
		n := float64(m.n)
		share := m.shares / n
		deviation := math.Sqrt(max(0, m.square/n-share*share) / n)
		far := math.Abs(share)
		r.Shifts = append(r.Shifts, Shift{Member: member, Count: m.n, Mean: m.sum / n, Share: share,
			Systematic: m.n >= shiftCount && far > shiftErrors*deviation && far > max(1/math.Sqrt(n), shiftShare)})
	}
}

// merge adds the report of an account, which was judged, to the one of all.
func (r *Report) merge(account signal.AccountID, a *Report) {
	r.Signals, r.Recomputed, r.Closed = r.Signals+a.Signals, r.Recomputed+a.Recomputed, r.Closed+a.Closed
	r.Replayed, r.Held = r.Replayed+a.Replayed, r.Held+a.Held
	count(r.NotRecomputed, a.NotRecomputed)
	count(r.NotCompared, a.NotCompared)
	r.Outlooks += a.Outlooks
	r.Published.merge(&a.Published)
	r.Live.merge(&a.Live)
	for member, m := range a.offsets {
		r.sum(member, m)
	}
	for _, s := range a.Shifts {
		if s.Systematic {
			s.Account = account
			r.Shifts = append(r.Shifts, s)
		}
	}
	r.Differing = append(r.Differing, a.Differing...)
	r.Record.merge(&a.Record)
}

func (r *Report) sort() {
	slices.SortFunc(r.Differing, func(a, b Differing) int {
		return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
}
