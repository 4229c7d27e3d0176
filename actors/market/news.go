package market

import (
	"slices"
	"sort"
	"sync"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

type newsIndex struct {
	kept  int64         // how long simulated items are kept, in milliseconds
	ready chan struct{} // closed once the stored news have been read

	mu    sync.RWMutex
	items map[string][]strategy.NewsItem // by key, by time; shared with readers up to its length
}

func newNewsIndex(speed int64) *newsIndex {
	items := make(map[string][]strategy.NewsItem)
	return &newsIndex{kept: simulated.NewsFor / speed, ready: make(chan struct{}), items: items}
}

// add adds news to each of their assets. An item may come twice, because a feeder that takes over
// repeats items that may not be stored.
func (b *newsIndex) add(news []marketdata.NewsItem) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range news {
		for _, symbol := range news[i].Symbols {
			b.file(assets.Symbol(symbol), &news[i])
		}
	}
}

func (b *newsIndex) file(symbol string, n *marketdata.NewsItem) {
	key := assets.Fold(symbol)
	list := b.items[key]
	at := len(list)
	for at > 0 && list[at-1].At > n.At {
		at--
	}
	for i := at - 1; i >= 0 && list[i].At == n.At; i-- {
		if list[i].ID == n.ID {
			return
		}
	}
	item := strategy.NewsItem{
		ID: n.ID, At: n.At, Headline: n.Headline, Body: n.Body, Source: n.Source, Weight: n.Weight, Symbols: n.Symbols,
	}
	names := append([]string{symbol}, assets.SpokenNames(symbol)...)
	if k := assets.Find(symbol); k != nil {
		names = append(names, k.Name)
	}
	item.Relevance = max(strategy.Relevance(item, names), 0.5) // its tag may spell the symbol differently
	if at < len(list) {
		list = slices.Clone(list) // readers hold the old one
	}
	list = slices.Insert(list, at, item)
	kept := int64(source.NewsKept)
	if n.Source == simulated.Name {
		kept = b.kept
	}
	newest := list[len(list)-1].At
	for newest-list[0].At > kept {
		list = list[1:]
	}
	b.items[key] = list
}

// since returns the items of an asset that are not before the time at.
func (b *newsIndex) since(key string, at int64) []strategy.NewsItem {
	b.mu.RLock()
	list := b.items[key]
	b.mu.RUnlock()
	i := sort.Search(len(list), func(i int) bool { return list[i].At >= at })
	return list[i:len(list):len(list)]
}
