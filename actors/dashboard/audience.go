package dashboard

import (
	"slices"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// audiences holds the connections of one flusher by account, and what it has seen of each partition.
type audiences struct {
	hub            *Hub
	of             map[signal.AccountID]*audience
	passed         map[int]passage
	dirty          []*cohort // with frames for the next pass
	awaitingPrices []*peer   // peers that want prices and have none yet
}

// passage is the range of events of a partition that a flusher has seen.
type passage struct{ first, last signal.Position }

func newAudiences(h *Hub) *audiences {
	return &audiences{hub: h, of: make(map[signal.AccountID]*audience), passed: make(map[int]passage)}
}

// pass records that the flusher has seen the events of a partition from first to last.
func (x *audiences) pass(partition int, first, last signal.Position) {
	at, seen := x.passed[partition]
	if !seen {
		at.first = first
	}
	at.last = last
	x.passed[partition] = at
}

// position returns the events that the flusher has seen of p's partition, including
// those that p's replays have read.
func (x *audiences) position(p *peer) passage {
	if p.audience == nil {
		return passage{}
	}
	at := x.passed[p.audience.partition]
	at.last = at.last.Later(p.reached)
	return at
}

// add appends f to the logs of the cohorts of a that it concerns, which are written in this pass.
func (x *audiences) add(a *audience, f *frame) {
	a.concerned(f, func(c *cohort) {
		c.append(f)
		if !c.dirty {
			c.dirty = true
			x.dirty = append(x.dirty, c)
		}
	})
}

// peers returns the connections of account.
func (x *audiences) peers(account signal.AccountID) []*peer {
	if a := x.of[account]; a != nil {
		return slices.Clone(a.peers)
	}
	return nil
}

// enter adds p to the connections of account, unless it is one of them.
func (x *audiences) enter(p *peer, account signal.AccountID) {
	if p.audience != nil {
		return
	}
	a := x.of[account]
	if a == nil {
		a = newAudience(account, x.hub.o.PartitionOf(account), x.hub.prices)
		x.of[account] = a
	}
	p.audience, p.index = a, len(a.peers)
	a.peers = append(a.peers, p)
}

// leave removes p from its account, so that it gets no more events.
func (x *audiences) leave(p *peer) {
	if p.cohort != nil {
		p.cohort.leave(p)
	}
	x.subscribe(p, nil)
	p.replay, p.sent = nil, nil
	a := p.audience
	if a == nil {
		return
	}
	last := len(a.peers) - 1
	moved := a.peers[last]
	a.peers[p.index], moved.index = moved, p.index
	a.peers[last] = nil
	a.peers = a.peers[:last]
	p.audience = nil
	if last == 0 {
		delete(x.of, a.account)
	}
}

// subscribe sets p's subscription and counts it.
func (x *audiences) subscribe(p *peer, sub *subscription) {
	if p.sub != nil {
		x.hub.o.Metrics.subscribed(p.sub.channels, -1)
	}
	if p.sub = sub; sub != nil {
		x.hub.o.Metrics.subscribed(sub.channels, +1)
	}
}

// join starts live delivery to p.
func (x *audiences) join(p *peer) {
	if p.sub.channels == 0 {
		return
	}
	p.audience.cohort(p.sub, p.transport).join(p)
	if p.sub.channels.has(marketPrice) && !p.awaitingPrices {
		p.awaitingPrices = true
		x.awaitingPrices = append(x.awaitingPrices, p)
	}
}

// audience holds one flusher's connections of one account, and the index from a
// frame to the cohorts that it concerns.
type audience struct {
	account      signal.AccountID
	partition    int
	peers        []*peer // peer.index is its index
	cohorts      map[cohortKey]*cohort
	everyAsset   [channels][]*cohort // cohorts without a filter, or channels without assets
	singleAsset  map[asset][]*cohort // cohorts with a channel that has assets
	prices       *prices
	priceCohorts int // cohorts that want prices
}

// cohortKey is equal for connections of one cohort.
type cohortKey struct {
	subscriptionKey
	transport transport
}

func newAudience(account signal.AccountID, partition int, p *prices) *audience {
	return &audience{
		account:     account,
		partition:   partition,
		cohorts:     make(map[cohortKey]*cohort),
		singleAsset: make(map[asset][]*cohort),
		prices:      p,
	}
}

// concerned calls yield with every cohort that f concerns.
func (a *audience) concerned(f *frame, yield func(*cohort)) {
	pass := func(list []*cohort) {
		for _, c := range list {
			if c.sub.channels.has(f.channel) && c.sub.passes(f) {
				yield(c)
			}
		}
	}
	pass(a.everyAsset[f.channel])
	if f.channel.hasAsset() && len(a.singleAsset) > 0 {
		pass(a.singleAsset[f.asset])
	}
}

// cohort returns the cohort of sub and t, creating it if needed.
func (a *audience) cohort(sub *subscription, t transport) *cohort {
	key := cohortKey{sub.subscriptionKey, t}
	c := a.cohorts[key]
	if c != nil {
		return c
	}
	c = &cohort{sub: sub, transport: t, audience: a}
	a.cohorts[key] = c
	a.index(c, func(list []*cohort) []*cohort { return append(list, c) })
	a.wantPrices(c, +1)
	return c
}

// drop removes a cohort without members.
func (a *audience) drop(c *cohort) {
	delete(a.cohorts, cohortKey{c.sub.subscriptionKey, c.transport})
	a.index(c, func(list []*cohort) []*cohort {
		if i := slices.Index(list, c); i >= 0 {
			last := len(list) - 1
			list[i], list[last] = list[last], nil
			list = list[:last]
		}
		return list
	})
	a.wantPrices(c, -1)
}

// wantPrices counts c, which is added or, with -1, removed, if it wants prices.
func (a *audience) wantPrices(c *cohort, n int) {
	if c.sub.channels.has(marketPrice) {
		a.priceCohorts += n
		a.prices.want(c.sub.assets.list, n)
	}
}

// index applies change to every list that c belongs to.
func (a *audience) index(c *cohort, change func([]*cohort) []*cohort) {
	single := false
	for ch := range channels {
		switch {
		case !c.sub.channels.has(ch):
		case c.sub.assets.every || !ch.hasAsset():
			a.everyAsset[ch] = change(a.everyAsset[ch])
		default:
			single = true
		}
	}
	if !single {
		return
	}
	for _, asset := range c.sub.assets.list {
		if list := change(a.singleAsset[asset]); len(list) > 0 {
			a.singleAsset[asset] = list
		} else {
			delete(a.singleAsset, asset)
		}
	}
}
