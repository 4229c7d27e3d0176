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
// indexes and rounds of prices cost grows with these. Its methods are safe for concurrent use.
type namedAssets struct {
	limit int // of one account

	mu       sync.Mutex
	accounts map[signal.AccountID]map[asset]int // the number of connections that name it
}

func newNamedAssets(limit int) *namedAssets {
	return &namedAssets{limit: limit, accounts: make(map[signal.AccountID]map[asset]int)}
}

// fit reports whether a further connection of account may name these assets.
func (n *namedAssets) fit(account signal.AccountID, assets []asset) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	counts := n.accounts[account]
	further := 0
	for _, a := range assets {
		if counts[a] == 0 {
			further++
		}
	}
	return further == 0 || len(counts)+further <= n.limit
}

// replace makes these the assets that p names. It returns false, and changes nothing, if its account
// would name too many then.
func (n *namedAssets) replace(p *peer, account signal.AccountID, assets []asset) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.nameless {
		return true
	}
	counts := n.accounts[account]
	if counts == nil {
		counts = make(map[asset]int)
		n.accounts[account] = counts
	}
	before := len(counts)
	exchange(counts, p.named, assets)
	fits := len(counts) <= max(before, n.limit)
	if fits {
		p.named = assets
	} else {
		exchange(counts, assets, p.named)
	}
	if len(counts) == 0 {
		delete(n.accounts, account)
	}
	return fits
}

// exchange counts the assets of next, and those of before no longer.
func exchange(counts map[asset]int, before, next []asset) {
	for _, a := range next {
		counts[a]++
	}
	for _, a := range before {
		if counts[a]--; counts[a] == 0 {
			delete(counts, a)
		}
	}
}

// end is the last replace of a connection that has ended: it names nothing any more.
func (n *namedAssets) end(p *peer, account signal.AccountID) {
	n.replace(p, account, nil)
	n.mu.Lock()
	defer n.mu.Unlock()
	p.nameless = true
}
