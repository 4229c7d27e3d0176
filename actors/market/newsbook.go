package market

import (
	"slices"
	"sync"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// newsbook holds the news of the last days by asset.
type newsbook struct {
	kept  int64         // ms for which simulated items are kept
	ready chan struct{} // closed once the past has been read

	mu    sync.RWMutex
	items map[string][]strategy.NewsItem // by key, by time; shared with readers up to its length
}

func newNewsbook(speed int64) *newsbook {
	return &newsbook{kept: simulated.NewsFor / speed, ready: make(chan struct{}), items: make(map[string][]strategy.NewsItem)}
}

// add files news under each asset that they are about. Items may come twice: when
// a feeder takes over it repeats what it does not know to be stored.
func (b *newsbook) add(news []marketdata.NewsItem) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range news {
		for _, symbol := range news[i].Symbols {
			b.file(assets.Symbol(symbol), &news[i])
		}
	}
}

func (b *newsbook) file(symbol string, n *marketdata.NewsItem) {
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
	item := strategy.NewsItem{ID: n.ID, At: n.At, Headline: n.Headline, Body: n.Body, Source: n.Source, Weight: n.Weight, Symbols: n.Symbols}
	names := append([]string{symbol}, assets.SpokenNames(symbol)...)
	if k := assets.Find(symbol); k != nil {
		names = append(names, k.Name)
	}
	// It may be tagged with another spelling of the symbol.
	item.Relevance = max(strategy.Relevance(item, names), 0.5)
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

// since returns the items of an asset from the time at on.
func (b *newsbook) since(key string, at int64) []strategy.NewsItem {
	b.mu.RLock()
	list := b.items[key]
	b.mu.RUnlock()
	i, _ := slices.BinarySearchFunc(list, at, func(n strategy.NewsItem, at int64) int {
		if n.At < at {
			return -1
		}
		return 1 // the first of several at one time
	})
	return list[i:len(list):len(list)]
}
