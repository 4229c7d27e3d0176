package catalogue

import (
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Query says which signals are wanted. A zero member does not filter.
type Query struct {
	Account       signal.AccountID
	Asset         string // whatever its ASCII case
	Strategy      string
	Agent         signal.AgentID
	Direction     signal.Direction
	Status        signal.Status
	MinConfidence float64   // 0 to 1, inclusive, of the current confidence
	Since         time.Time // exclusive
	Offset        int       // 0 or more
	Limit         int       // 1 or more
}

// filter is a Query in the terms of rows.
type filter struct {
	strategies []bool // wanted numbers; nil: all
	asset      uint32 // group of spellings, if byAsset
	byAsset    bool
	direction  signal.Direction
	status     signal.Status
	least      uint16
}

// filter returns q in the terms of rows, or false if it can select none.
func (a *account) filter(t *strategies, q *Query) (*filter, bool) {
	f := &filter{direction: q.Direction, status: q.Status, least: least(q.MinConfidence)}
	if q.Asset != "" {
		if f.asset, f.byAsset = a.assets.group(q.Asset); !f.byAsset {
			return nil, false
		}
	}
	if q.Strategy == "" && q.Agent == "" {
		return f, true
	}
	f.strategies = make([]bool, t.count())
	found := false
	for n := range f.strategies {
		name, agent := t.name(n)
		f.strategies[n] = (q.Strategy == "" || q.Strategy == name) && (q.Agent == "" || q.Agent == agent)
		found = found || f.strategies[n]
	}
	return f, found
}

// any says that f selects every row.
func (f *filter) any() bool {
	return f.strategies == nil && !f.byAsset && f.direction == "" && f.status == "" && f.least == 0
}

// selects says that f selects v, looking at the row alone.
func (f *filter) selects(a *account, v *row) bool {
	return v.conf >= f.least &&
		(f.strategies == nil || f.strategies[v.kind.strategy()]) &&
		(!f.byAsset || a.assets.groupOf[v.asset] == f.asset) &&
		(f.direction == "" || f.direction == v.kind.direction()) &&
		(f.status == "" || (f.status == signal.Open) == (v.closed == 0))
}

// attributes returns the rows with the attributes of f, its confidence aside, or
// nil if f names none. The set may be part of the index: it must not be changed.
func (f *filter) attributes(x *index) *roaring.Bitmap {
	var set *roaring.Bitmap
	and := func(other *roaring.Bitmap) {
		if set == nil {
			set = other
		} else {
			set = roaring.And(set, other)
		}
	}
	not := func(other *roaring.Bitmap) {
		if set == nil {
			set = x.atLeast[0] // every row
		}
		set = roaring.AndNot(set, other)
	}
	if f.byAsset {
		if int(f.asset) >= len(x.asset) {
			return roaring.New()
		}
		and(x.asset[f.asset])
	}
	if f.strategies != nil {
		var wanted []*roaring.Bitmap
		for n, is := range f.strategies {
			if is {
				wanted = append(wanted, x.strategy[n])
			}
		}
		if len(wanted) == 1 {
			and(wanted[0])
		} else {
			and(roaring.FastOr(wanted...))
		}
	}
	switch f.direction {
	case signal.Short:
		and(x.short)
	case signal.Long:
		not(x.short)
	}
	switch f.status {
	case signal.Open:
		and(x.open)
	case signal.Closed:
		not(x.open)
	}
	return set
}

// strategies numbers the strategies of all agents. A strategy belongs to one agent.
type strategies struct {
	names   []string
	agents  []signal.AgentID
	numbers map[string]int
}

func newStrategies(agents []signal.Agent) *strategies {
	t := &strategies{numbers: map[string]int{}}
	for _, a := range agents {
		for _, s := range a.Strategies {
			t.numbers[s] = len(t.names)
			t.names = append(t.names, s)
			t.agents = append(t.agents, a.ID)
		}
	}
	return t
}

func (t *strategies) count() int { return len(t.names) }

func (t *strategies) number(name string) (int, bool) {
	n, ok := t.numbers[name]
	return n, ok
}

func (t *strategies) name(n int) (string, signal.AgentID) { return t.names[n], t.agents[n] }
