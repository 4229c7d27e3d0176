package catalogue

import (
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/spelling"
)

// Query selects signals. A zero member does not filter.
type Query struct {
	Account       signal.AccountID
	Asset         string // by any of its spellings, ignoring ASCII case
	Strategy      string
	Agent         signal.AgentID
	Direction     signal.Direction
	Status        signal.Status
	MinConfidence float64   // 0 to 1, inclusive, of the listed confidence
	Since         time.Time // exclusive
	Offset        int       // 0 or more
	Limit         int       // 1 or more
}

// filter is a Query without its time and page, in the representation of rows.
type filter struct {
	strategies    uint64 // bit n stands for strategy number n; 0 selects all
	byAsset       bool
	asset         uint32 // if byAsset: group of spellings of an asset with prices, or noGroup
	subject       uint32 // if byAsset: group of a subject of content, or noGroup
	direction     signal.Direction
	status        signal.Status
	minConfidence uint16
}

// any reports whether f selects every row.
func (f filter) any() bool {
	return f.strategies == 0 && !f.byAsset && f.direction == "" && f.status == "" && f.minConfidence == 0
}

// selects reports whether f selects v.
func (f filter) selects(a *account, v *row) bool {
	return v.conf >= f.minConfidence &&
		(f.strategies == 0 || f.strategies>>v.kind.strategy()&1 != 0) &&
		(!f.byAsset || f.has(a.assets.groupOf[v.asset])) &&
		(f.direction == "" || f.direction == v.kind.direction()) &&
		(f.status == "" || (f.status == signal.Open) == (v.closed == 0))
}

// has reports whether a filter by asset selects the rows of a group.
func (f filter) has(group uint32) bool { return group == f.asset || group == f.subject }

// byGroup returns the rows of the groups that f selects; own is as for attributes.
func (f filter) byGroup(x *index) (set *roaring.Bitmap, own bool) {
	for _, g := range [...]uint32{f.asset, f.subject} {
		switch {
		case uint64(g) >= uint64(len(x.asset)): // noGroup, or dropped before the index was made
		case set == nil:
			set = x.asset[g]
		default:
			set, own = roaring.Or(set, x.asset[g]), true
		}
	}
	if set == nil {
		return roaring.New(), true
	}
	return set, own
}

// attributes returns the rows that match f apart from its confidence, or nil if f has no
// other condition. If own is false, the set is part of the index and must not be changed.
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
		set, own = f.byGroup(x)
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
	content uint64 // bit n: strategy n is of an agent of content
	asset   func(string) string
}

// newStrategies panics if there are more strategies than bits in a filter.
func newStrategies(agents []signal.Agent, name func(string) string) *strategies {
	t := &strategies{numbers: map[string]int{}, asset: name}
	for _, a := range agents {
		for _, s := range a.Strategies {
			if a.Category == signal.Content {
				t.content |= 1 << len(t.names)
			}
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

// key returns the key by which the signals of an asset are found, ignoring ASCII case:
// its catalogue name, or for content the subject itself. The two never coincide.
func (t *strategies) key(asset string, content bool) string {
	if content {
		return "\x00" + spelling.Fold(asset) // assets have no control characters
	}
	return spelling.Fold(t.asset(asset))
}

func (t *strategies) count() int { return len(t.names) }

func (t *strategies) number(name string) (int, bool) {
	n, ok := t.numbers[name]
	return n, ok
}

func (t *strategies) name(n int) (string, signal.AgentID) { return t.names[n], t.agents[n] }
