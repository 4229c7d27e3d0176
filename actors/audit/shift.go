package audit

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// A mean signed difference is systematic if it is further from zero than three times its standard
// error, and than what chance allows: differences that each lie within the tolerance have a mean
// within tolerance/sqrt(n). Below a tenth of the tolerance it is not, since series that began at
// other bars differ all in one direction; neither is it of a few signals, which may share a bar.
const (
	shiftErrors = 3
	shiftShare  = 0.1
	shiftCount  = 10
)

// Shift is by how much a member with a tolerance is too high on average, among the signals that
// do not differ.
type Shift struct {
	Member     string           `json:"member"`
	Account    signal.AccountID `json:"account,omitempty"` // empty: of all
	Count      int              `json:"count"`
	Mean       float64          `json:"mean"`
	Share      float64          `json:"share_of_tolerance"`
	Systematic bool             `json:"systematic"`
}

func (s *Shift) print(w io.Writer) {
	if s.Systematic {
		of := ""
		if s.Account != "" {
			of = " of " + string(s.Account)
		}
		fmt.Fprintf(w, "systematic shift of %s%s: by %+.6f on average of %d signals, %+.0f %% of the tolerance\n",
			s.Member, of, s.Mean, s.Count, 100*s.Share)
	} else if s.Account == "" {
		fmt.Fprintf(w, "  mean difference of %s: %+.6f of %d\n", s.Member, s.Mean, s.Count)
	}
}

// moments sum the differences of a member, also as shares of its tolerance, which varies.
type moments struct {
	n                   int
	sum, shares, square float64
}

func (m *moments) add(o *moments) {
	m.n, m.sum, m.shares, m.square = m.n+o.n, m.sum+o.sum, m.shares+o.shares, m.square+o.square
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
