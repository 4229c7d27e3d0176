package dashboard

import (
	"sync"
	"unique"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/spelling"
)

// asset is the name of an asset without differences of case. Equal names share one string: an
// event has the name once for all that it concerns, and a filter has eight bytes for each.
type asset = unique.Handle[string]

func assetOf(name string) asset { return unique.Make(spelling.Fold(name)) }

// namedAssets counts the assets that the filters of an account's connections name, each once: what
// indexes and rounds of prices cost grows with these. The readers of an account count by themselves, so that the account has
// its own number whatever they name. Its methods are safe for concurrent use.
type namedAssets struct {
	limit int // of one namer

	mu     sync.Mutex
	counts map[namer]map[asset]int // the number of connections that name it
}

// namer is who names assets: an account, or its readers together.
type namer struct {
	account signal.AccountID
	readers bool
}

func namerOf(p *signal.Principal) namer { return namer{p.Account, p.View != nil} }

func newNamedAssets(limit int) *namedAssets {
	return &namedAssets{limit: limit, counts: make(map[namer]map[asset]int)}
}

// fit reports whether a further connection may have a subscription.
func (n *namedAssets) fit(by namer, sub *subscription) bool {
	if sub.named.every {
		return true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	counts := n.counts[by]
	further := 0
	for _, a := range sub.assets.list {
		if counts[a] == 0 {
			further++
		}
	}
	return further == 0 || len(counts)+further <= n.limit
}

// index makes the assets of a subscription those that p names, and returns the subscription. If too many would be named then,
// it returns it without those of its view in the index or, if they are of a filter, nil: then p names what it named before,
// or nothing if it is another namer by now.
func (n *namedAssets) index(p *peer, by namer, sub *subscription) *subscription {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.nameless {
		return sub
	}
	if p.namer != by {
		n.exchange(p, nil)
		p.namer = by
	}
	switch {
	case n.exchange(p, sub.assets.list):
		return sub
	case sub.named.every:
		n.exchange(p, nil)
		return sub.everySeen()
	}
	return nil
}

// exchange makes these the assets that p names, and reports whether it may name them: otherwise nothing changes.
func (n *namedAssets) exchange(p *peer, next []asset) bool {
	counts := n.counts[p.namer]
	if counts == nil {
		counts = make(map[asset]int)
		n.counts[p.namer] = counts
	}
	before := len(counts)
	count(counts, p.named, next)
	fits := len(counts) <= max(before, n.limit)
	if fits {
		p.named = next
	} else {
		count(counts, next, p.named)
	}
	if len(counts) == 0 {
		delete(n.counts, p.namer)
	}
	return fits
}

// count counts the assets of next, and those of before no longer.
func count(counts map[asset]int, before, next []asset) {
	for _, a := range next {
		counts[a]++
	}
	for _, a := range before {
		if counts[a]--; counts[a] == 0 {
			delete(counts, a)
		}
	}
}

// end records that a connection has ended: it names nothing any more.
func (n *namedAssets) end(p *peer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.exchange(p, nil)
	p.nameless = true
}
