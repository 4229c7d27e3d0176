package catalogue

import (
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/agentsignal/agentsignal/actors/signal"
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
	agent         uint16 // codes of pairs; 0 selects all
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
	return !f.byPair() && !f.byAsset && f.direction == "" && f.status == "" && f.minConfidence == 0
}

// selects reports whether f selects v.
func (f filter) selects(a *account, v *row) bool {
	return v.conf >= f.minConfidence &&
		(!f.byPair() || f.hasPair(&a.pairs.list[v.kind.pair()])) &&
		(!f.byAsset || f.has(a.assets.groupOf[v.asset])) &&
		(f.direction == "" || f.direction == v.kind.direction()) &&
		(f.status == "" || (f.status == signal.Open) == (v.closed == 0))
}

// byPair reports whether f selects by agent or strategy.
func (f filter) byPair() bool { return f.agent|f.strategy != 0 }

// hasPair reports whether f selects the signals of a pair.
func (f filter) hasPair(p *pair) bool {
	return (f.agent == 0 || f.agent == p.agentCode) && (f.strategy == 0 || f.strategy == p.strategyCode)
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
func (f filter) attributes(x *index, p *pairs) (set *roaring.Bitmap, own bool) {
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
	if f.byPair() {
		var wanted []*roaring.Bitmap
		for n, of := range x.pair {
			if f.hasPair(&p.list[n]) {
				wanted = append(wanted, of)
			}
		}
		if len(wanted) == 1 {
			and(wanted[0])
		} else {
			and(roaring.FastOr(wanted...))
			own = true
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
	return set, own
}
