package use

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/http/client"
)

// maxBoard is how many signals watch keeps, beside those that its list shows.
const maxBoard = 10_000

// board has the signals that watch knows, and the prices of their assets. It is for one goroutine.
type board struct {
	signals map[string]*client.Signal
	prices  map[string]*client.Price // by key of the asset
}

func newBoard() *board {
	return &board{map[string]*client.Signal{}, map[string]*client.Price{}}
}

// effect is what a message did to the signals.
type effect int

const (
	nothing effect = iota
	added
	changed
	closed
)

// put records a signal as the API lists it, and reports whether it is a new one. What the stream brought
// later wins.
func (b *board) put(s *client.Signal) bool {
	old := b.signals[s.ID]
	if old != nil && s.Status == "open" && (old.Status == "closed" || s.UpdatedAt.Before(old.UpdatedAt)) {
		old.ExpiresAt, old.Metadata = s.ExpiresAt, s.Metadata // messages of the stream may lack some of it
		return false
	}
	own := *s
	b.signals[s.ID] = &own
	return old == nil
}

// apply applies a message of the stream.
func (b *board) apply(m *client.Message) effect {
	if p := m.Price; p != nil {
		if old := b.prices[assets.Key(p.Asset)]; old == nil || old.At.Before(p.At) {
			b.prices[assets.Key(p.Asset)] = p
		}
		return nothing
	}
	if m.Signal == nil {
		return nothing
	}
	s := b.signals[m.Signal.ID]
	switch m.Type {
	case "signal.new":
		created := *m.Signal
		created.Status, created.Initial, created.UpdatedAt = "open", created.Confidence, created.CreatedAt
		if !b.put(&created) || s != nil {
			return nothing
		}
		return added
	case "signal.updated":
		if s == nil || s.Status == "closed" || m.Signal.UpdatedAt.Before(s.UpdatedAt) {
			return nothing
		}
		s.Confidence, s.UpdatedAt = m.Signal.Confidence, m.Signal.UpdatedAt
		return changed
	case "signal.closed":
		if s == nil || s.Status == "closed" {
			return nothing
		}
		end, at, last := m.Signal, m.At, s.Confidence
		s.Status, s.ClosedAt, s.UpdatedAt, s.Confidence, s.Final = "closed", &at, at, s.Initial, &last
		s.CloseReason, s.Exit, s.PnLPercent, s.PnLAbsolute = end.CloseReason, end.Exit, end.PnLPercent, end.PnLAbsolute
		s.R = resultAt(s, s.Exit)
		return closed
	}
	return nothing
}

// trim drops the closed signals beyond the capacity, the oldest first, then open ones; never those of keep.
func (b *board) trim(keep []string) {
	if len(b.signals) <= maxBoard+maxBoard/10 {
		return
	}
	list := slices.SortedFunc(maps.Values(b.signals), func(x, y *client.Signal) int {
		return cmp.Or(-cmp.Compare(x.Status, y.Status), byTime(x, y)) // "open" before "closed"
	})
	shown := make(map[string]bool, len(keep))
	for _, id := range keep {
		shown[id] = true
	}
	for _, s := range list[maxBoard:] {
		if !shown[s.ID] {
			delete(b.signals, s.ID)
		}
	}
}

// price returns the price of a signal now or at its end, or nil: its entry while nothing newer is known.
func (b *board) price(s *client.Signal) *float64 {
	if s.Status == "closed" {
		return s.Exit
	}
	if p := b.prices[assets.Key(s.Asset)]; p != nil && !p.At.Before(s.CreatedAt) {
		return &p.Price
	}
	return s.Entry
}

// result returns what a signal has gained, or would gain if it closed now, in R before and after costs.
// What is not known is nil.
func (b *board) result(s *client.Signal) (gross, net *float64) {
	at := b.price(s)
	if gross = resultAt(s, at); s.Status == "closed" {
		gross = s.R
	}
	m := &s.Metadata
	if gross == nil || m.ExpectedR == nil || m.ExpectedRNet == nil || at == nil || s.Entry == nil || *s.Entry == 0 {
		return gross, nil
	}
	// The costs that the estimate of the signal assumed, at the prices of entry and exit.
	after := *gross - (*m.ExpectedR-*m.ExpectedRNet)*(*s.Entry+*at)/(2**s.Entry)
	return gross, &after
}

// resultAt returns the result in R if a signal ended at a price, or nil without prices.
func resultAt(s *client.Signal, at *float64) *float64 {
	if at == nil || s.Entry == nil || s.Stop == nil || *s.Entry == *s.Stop {
		return nil
	}
	r := (*at - *s.Entry) / math.Abs(*s.Entry-*s.Stop)
	if s.Direction == "short" {
		r = -r
	}
	return &r
}

// byTime orders signals by their end or else their creation, the newest first.
func byTime(x, y *client.Signal) int {
	at := func(s *client.Signal) time.Time {
		if s.Status == "closed" && s.ClosedAt != nil {
			return *s.ClosedAt
		}
		return s.CreatedAt
	}
	return cmp.Or(at(y).Compare(at(x)), cmp.Compare(y.ID, x.ID))
}

// sorting is an order of the list.
type sorting struct {
	name    string
	compare func(b *board, x, y *client.Signal) int
}

// sortings are the orders of the list, in the order of the key.
var sortings = []sorting{
	{"newest", func(_ *board, x, y *client.Signal) int { return byTime(x, y) }},
	{"result", func(b *board, x, y *client.Signal) int {
		p, _ := b.result(x)
		q, _ := b.result(y)
		return descending(p, q)
	}},
	{"chance", func(_ *board, x, y *client.Signal) int { return cmp.Compare(y.Confidence, x.Confidence) }},
	{"expected", func(_ *board, x, y *client.Signal) int {
		return descending(x.Metadata.ExpectedRNet, y.Metadata.ExpectedRNet)
	}},
	{"asset", func(_ *board, x, y *client.Signal) int { return cmp.Compare(x.Asset, y.Asset) }},
	{"strategy", func(_ *board, x, y *client.Signal) int { return cmp.Compare(x.Strategy, y.Strategy) }},
}

// descending orders figures, those that are missing last.
func descending(x, y *float64) int {
	value := func(x *float64) float64 {
		if x == nil {
			return math.Inf(-1)
		}
		return *x
	}
	return cmp.Compare(value(y), value(x))
}

// order is a list of signals by ID, with the first that is closed.
type order struct {
	ids  []string
	open int
}

// arrange returns the signals that pass.
func (b *board) arrange(by sorting, reverse bool, passes func(*client.Signal) bool) order {
	var list []*client.Signal
	var o order
	for _, s := range b.signals {
		if passes(s) {
			list = append(list, s)
			if s.Status != "closed" {
				o.open++
			}
		}
	}
	sign := 1
	if reverse {
		sign = -1
	}
	slices.SortFunc(list, func(x, y *client.Signal) int {
		return cmp.Or(-cmp.Compare(x.Status, y.Status), sign*by.compare(b, x, y), byTime(x, y))
	})
	for _, s := range list {
		o.ids = append(o.ids, s.ID)
	}
	return o
}
