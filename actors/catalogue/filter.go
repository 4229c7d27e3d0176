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

// filter is a Query in the terms of rows, without its time and page.
type filter struct {
	strategies uint64 // bit n stands for number n; 0: all
	asset      uint32 // group of spellings, if byAsset
	byAsset    bool
	direction  signal.Direction
	status     signal.Status
	least      uint16
}

// filter returns q in the terms of rows, or false if it can select none.
func (a *account) filter(t *strategies, q *Query) (filter, bool) {
	f := filter{direction: q.Direction, status: q.Status, least: least(q.MinConfidence)}
	if q.Asset != "" {
		if f.asset, f.byAsset = a.assets.group(q.Asset); !f.byAsset {
			return f, false
		}
	}
	if q.Strategy == "" && q.Agent == "" {
		return f, true
	}
	for n := range t.count() {
		name, agent := t.name(n)
		if (q.Strategy == "" || q.Strategy == name) && (q.Agent == "" || q.Agent == agent) {
			f.strategies |= 1 << n
		}
	}
	return f, f.strategies != 0
}

// any says that f selects every row.
func (f filter) any() bool {
	return f.strategies == 0 && !f.byAsset && f.direction == "" && f.status == "" && f.least == 0
}

// selects says that f selects v, looking at the row alone.
func (f filter) selects(a *account, v *row) bool {
	return v.conf >= f.least &&
		(f.strategies == 0 || f.strategies>>v.kind.strategy()&1 != 0) &&
		(!f.byAsset || a.assets.groupOf[v.asset] == f.asset) &&
		(f.direction == "" || f.direction == v.kind.direction()) &&
		(f.status == "" || (f.status == signal.Open) == (v.closed == 0))
}

// attributes returns the rows with the attributes of f, its confidence aside, or
// nil if f names none; and whether the set was made for this, else it is part of the
// index and must not be changed.
func (f filter) attributes(x *index) (set *roaring.Bitmap, own bool) {
	and := func(other *roaring.Bitmap) {
		if set == nil {
			set = other
		} else {
			set, own = roaring.And(set, other), true
		}
	}
	not := func(other *roaring.Bitmap) {
		if set == nil {
			set = x.atLeast[0] // every row
		}
		set, own = roaring.AndNot(set, other), true
	}
	if f.byAsset {
		if int(f.asset) >= len(x.asset) {
			return roaring.New(), true // its rows were given back before there was an index
		}
		and(x.asset[f.asset])
	}
	if f.strategies != 0 {
		var wanted []*roaring.Bitmap
		for n := range x.strategy {
			if f.strategies>>n&1 != 0 {
				wanted = append(wanted, x.strategy[n])
			}
		}
		union := wanted[0]
		if len(wanted) > 1 {
			union, own = roaring.FastOr(wanted...), true
		}
		and(union)
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
	return set, own
}

// strategies numbers the strategies of all agents. A strategy belongs to one agent.
type strategies struct {
	names   []string
	agents  []signal.AgentID
	numbers map[string]int
}

// newStrategies panics if there are more than the bits of a filter.
func newStrategies(agents []signal.Agent) *strategies {
	t := &strategies{numbers: map[string]int{}}
	for _, a := range agents {
		for _, s := range a.Strategies {
			t.numbers[s] = len(t.names)
			t.names = append(t.names, s)
			t.agents = append(t.agents, a.ID)
		}
	}
	if len(t.names) > 64 {
		panic("catalogue: more than 64 strategies")
	}
	return t
}

func (t *strategies) count() int { return len(t.names) }

func (t *strategies) number(name string) (int, bool) {
	n, ok := t.numbers[name]
	return n, ok
}

func (t *strategies) name(n int) (string, signal.AgentID) { return t.names[n], t.agents[n] }
