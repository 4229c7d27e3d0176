package catalogue

import (
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Query selects signals. A zero member does not filter.
type Query struct {
	Account       signal.AccountID
	View          *signal.View // what the caller sees of the account
	Asset         string       // by any of its spellings, ignoring ASCII case
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
	view          *signal.View // nil if it sees everything
	agent         uint16       // codes of pairs; 0 selects all
	strategy      uint16
	byAsset       bool
	asset         uint32 // if byAsset: group of spellings of an asset with prices, or noGroup
	subject       uint32 // if byAsset: group of a subject of content, or noGroup
	direction     signal.Direction
	status        signal.Status
	minConfidence uint16
}

// any reports whether f selects every row.
func (f filter) any() bool {
	return f.view == nil && !f.byPair() && !f.byAsset && f.direction == "" && f.status == "" && f.minConfidence == 0
}

// selects reports whether f selects v. s is the sight of the view of f. What needs the row alone comes first.
func (f filter) selects(a *account, s *sight, v *row) bool {
	return v.conf >= f.minConfidence &&
		(f.status == "" || (f.status == signal.Open) == (v.closed == 0)) &&
		(f.direction == "" || f.direction == v.kind.direction()) &&
		s.sees(v.kind, a.assets.groupOf[v.asset]) &&
		(!f.byAsset || f.has(a.assets.groupOf[v.asset])) &&
		(!f.byPair() || f.hasPair(&a.pairs.list[v.kind.pair()]))
}

// byPair reports whether f selects by agent or strategy.
func (f filter) byPair() bool { return f.agent|f.strategy != 0 }

// hasPair reports whether f selects the signals of a pair.
func (f filter) hasPair(p *pair) bool {
	return (f.agent == 0 || f.agent == p.agentCode) && (f.strategy == 0 || f.strategy == p.strategyCode)
}

// has reports whether a filter by asset selects the rows of a group.
func (f filter) has(group uint32) bool { return group == f.asset || group == f.subject }

// attributes returns the rows that match f apart from its confidence, or nil if f has no
// other condition. If own is false, the set is part of the index and must not be changed. s is the sight of the view of f.
func (f filter) attributes(x *index, p *pairs, s *sight) (set *roaring.Bitmap, own bool) {
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
	andAny := func(of []*roaring.Bitmap) {
		if len(of) == 1 {
			and(of[0])
		} else {
			and(roaring.FastOr(of...))
			own = true
		}
	}
	if f.byAsset || s != nil && !s.allGroups {
		var wanted []*roaring.Bitmap
		for n, of := range x.asset {
			if (!f.byAsset || f.has(uint32(n))) && s.seesGroup(uint32(n)) {
				wanted = append(wanted, of)
			}
		}
		andAny(wanted)
	}
	if f.byPair() || s != nil && !s.allPairs {
		var wanted []*roaring.Bitmap
		for n, of := range x.pair {
			if f.hasPair(&p.list[n]) && s.seesPair(n) {
				wanted = append(wanted, of)
			}
		}
		andAny(wanted)
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
