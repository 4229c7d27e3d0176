package dashboard

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
)

const (
	// pricesEvery is the least time between two prices of an asset.
	pricesEvery = time.Second
	// pricesTimeout bounds one read of the prices.
	pricesTimeout = 5 * time.Second
)

// LastPrice is the last price of an asset.
type LastPrice struct {
	Asset  string    // catalogue name
	Source string    // where the price is from, such as simulated
	Price  float64   // in the asset's currency
	At     time.Time // of the trade
}

// prices sends market.price to the connections that named assets for it. Prices are no events of
// an account's stream: they are read only while a subscription wants one, and never replayed.
type prices struct {
	hub *Hub

	mu     sync.Mutex
	wanted map[asset]int // number of cohorts
	asked  bool          // a cohort was added since the last round

	// Used by follow only.
	latest map[asset]price // replaced, never changed
	failed bool            // the last read failed
}

func newPrices(h *Hub) *prices { return &prices{hub: h, wanted: make(map[asset]int)} }

// price is the last price of an asset and its message.
type price struct {
	last  LastPrice
	frame *frame
}

// want counts a cohort that wants the prices of assets, or with -1 no longer wants them.
func (p *prices) want(assets []asset, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = p.asked || n > 0
	for _, asset := range assets {
		if p.wanted[asset] += n; p.wanted[asset] == 0 {
			delete(p.wanted, asset)
		}
	}
}

// begin begins a round. It reports whether a cohort wants a price, and whether one was added since
// the last call.
func (p *prices) begin() (wanted, asked bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted, asked = len(p.wanted) > 0, p.asked
	p.asked = false
	return wanted, asked
}

// ofWanted returns those prices that cohorts want. Names that no price has cost nothing here.
func (p *prices) ofWanted(all []LastPrice) map[asset]LastPrice {
	found := make(map[asset]LastPrice)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, last := range all {
		if name := assetOf(last.Asset); p.wanted[name] > 0 {
			found[name] = last
		}
	}
	return found
}

// follow passes the prices to the flushers once in pricesEvery until ctx ends.
func (p *prices) follow(ctx context.Context) {
	for {
		panics.Guard(p.hub.o.Logger, panics.Dashboard, func() { p.round(ctx) })
		if !backoff.Sleep(ctx, pricesEvery) {
			return
		}
	}
}

// round reads the prices, if a subscription wants one, and posts those that are wanted.
func (p *prices) round(ctx context.Context) {
	wanted, asked := p.begin()
	if !wanted {
		if p.latest = nil; asked {
			p.post(pricesRead{}) // those that asked have left
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pricesTimeout)
	defer cancel()
	last, err := p.hub.o.Prices(ctx)
	if err != nil {
		if !p.failed && !errors.Is(err, context.Canceled) {
			p.hub.o.Logger.Warn("prices cannot be read", "err", err)
		}
		p.failed = true
		p.post(pricesRead{})
		return
	}
	p.failed = false
	o, now := pricesRead{latest: make(map[asset]price)}, p.hub.o.Now()
	for asset, newest := range p.ofWanted(last) {
		sent, known := p.latest[asset]
		if !known || sent.last != newest {
			sent = price{newest, newPriceFrame(&newest, asset, now)}
			o.changed = append(o.changed, sent.frame)
		}
		o.latest[asset] = sent
	}
	p.latest = o.latest
	p.post(o)
}

func (p *prices) post(o pricesRead) {
	for _, f := range p.hub.flushers {
		f.post(o)
	}
}

// newPriceFrame encodes the price of asset, which is that of last. It has no id: a client that
// resumes gets the price of that moment instead of those it missed.
func newPriceFrame(last *LastPrice, asset asset, now time.Time) *frame {
	const envelope = 192 // upper bound of the bytes added to the texts
	b := make([]byte, 0, envelope+len(last.Asset)+len(last.Source))
	b = append(b, `{"type":"market.price","data":{"asset":`...)
	b = signal.AppendText(b, last.Asset)
	b = append(b, `,"price":`...)
	b = signal.AppendPrice(b, last.Price)
	b = append(b, `,"at":`...)
	b = signal.AppendTime(b, last.At)
	b = append(b, `,"source":`...)
	b = signal.AppendText(b, last.Source)
	b = append(b, `},"timestamp":`...)
	b = append(signal.AppendTime(b, now), '}')
	return &frame{text: b, at: signal.Position{MS: now.UnixMilli()}, asset: asset, channel: marketPrice}
}

// pricesRead carries the newest prices of all wanted assets, and the messages of those that
// changed. latest is nil if none were read.
type pricesRead struct {
	changed []*frame
	latest  map[asset]price
}

func (o pricesRead) apply(f *flusher) {
	// A connection that joined since the last round has none of the prices that stayed the same.
	fresh := make(map[*frame]bool, len(o.changed))
	for _, frame := range o.changed {
		fresh[frame] = true
	}
	awaiting := f.audiences.awaitingPrices
	still := awaiting[:0]
	for _, p := range awaiting {
		p.awaitingPrices = false
		if p.cohort == nil || !p.sub.channels.has(marketPrice) {
			continue // it has left, or wants none any more
		}
		if o.latest == nil {
			p.awaitingPrices = true
			still = append(still, p)
			continue
		}
		for _, asset := range p.sub.assets.list {
			if last, known := o.latest[asset]; known && !fresh[last.frame] {
				f.writer.sent[marketPrice]++
				f.writer.send(p, last.frame.text)
			}
		}
	}
	clear(awaiting[len(still):])
	f.audiences.awaitingPrices = still
	for _, a := range f.audiences.of {
		if a.priceCohorts == 0 {
			continue
		}
		for _, frame := range o.changed {
			f.audiences.add(a, frame)
		}
	}
}
