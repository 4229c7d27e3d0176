package dashboard

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// assets returns n names with a prefix as the filter of a subscribe.
func assets(prefix string, n int) string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("%q", fmt.Sprintf("%s%d", prefix, i)))
	}
	return `"channels":["signal.new"],"filters":{"assets":[` + strings.Join(names, ",") + `]}`
}

func (c *client) wantRefused(members string) {
	c.tb.Helper()
	e := c.ask(`{"action":"subscribe",`+members+`}`, "error")
	c.wantPart(e, `"code":"invalid_filter"`)
	c.wantPart(e, "may name 10 assets together: name fewer, or none to get all")
}

// TestAnAccountsFiltersNameOnlySoManyAssets, each counted once, over all of its connections. What is
// refused changes nothing, and other accounts are not concerned.
func TestAnAccountsFiltersNameOnlySoManyAssets(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *Options) { o.MaxAssets, o.MessageRate = 10, 1000 })
	a, b, other := s.welcomed(principalOf(alice)), s.welcomed(principalOf(alice)), s.welcomed(principalOf(bob))
	a.subscribe(assets("a", 6), `null`)
	b.subscribe(assets("a", 6), `null`) // the same ones
	b.subscribe(assets("b", 4), `null`)
	a.wantRefused(assets("a", 7))
	s.journal.append(created(alice, "A5"), created(alice, "A6"), created(alice, "B3"))
	a.wantPart(a.want("signal.new"), `"A5"`)
	b.wantPart(b.want("signal.new"), `"B3"`)
	other.subscribe(assets("c", 10), `null`)
	other.wantRefused(assets("c", 11))

	read := func(list string) *Subscription {
		return ReadSubscription(nil, func(name string) (string, bool) { return list, name == "assets" },
			func(name, detail string) { t.Errorf("%s: %s", name, detail) })
	}
	if _, got := s.hub.Refusal(t.Context(), principalOf(alice), read("a0,b3")); got != "" {
		t.Errorf("a handshake with names that are counted already: %s", got)
	}
	_, got := s.hub.Refusal(t.Context(), principalOf(alice), read("a0,new"))
	if !strings.Contains(got, "may name 10 assets together") {
		t.Errorf("a handshake with a further name: %q", got)
	}
	late := s.begun("assets=new") // as if another connection had taken the room meanwhile
	late.want("error")
	late.wantClose(closeErrors)

	// Names are free again when a connection replaces its filter, or ends.
	a.subscribe(assets("b", 4), `null`)
	a.subscribe(assets("a", 6), `null`)
	b.ws.Close()
	until(t, "there is room", func() bool { return s.hub.names.fit(namer{account: alice}, newSubscription(nil, []string{"c1"})) })
	a.subscribe(assets("c", 10), `null`)
	for _, c := range []*client{a, other} {
		c.ws.Close()
	}
	until(t, "no account is remembered", func() bool {
		s.hub.names.mu.Lock()
		defer s.hub.names.mu.Unlock()
		return len(s.hub.names.counts) == 0
	})
}

// TestMisspeltAssetsAtTheHandshake are refused as by a subscribe.
func TestMisspeltAssetsAtTheHandshake(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *Options) {
		o.SuggestAssets = func(_ context.Context, account signal.AccountID, _ *signal.View, name string) []string {
			if account == alice && name == "BTCC" {
				return []string{"BTC"}
			}
			return nil
		}
	})
	first := &Subscription{message{filter: signal.Filter{Assets: []string{"ETH", "BTCC"}}}}
	const want = `neither an asset nor a signal of the account has the name "BTCC": did you mean BTC? ` +
		"GET /v1/assets lists all"
	if _, got := s.hub.Refusal(t.Context(), principalOf(alice), first); got != want {
		t.Errorf("got %q", got)
	}
	if _, got := s.hub.Refusal(t.Context(), principalOf(bob), first); got != "" {
		t.Errorf("another account gets %q", got)
	}
}

// TestARoundOfPricesCostsNothingForOtherNames: its work does not grow with names that have no price.
func TestARoundOfPricesCostsNothingForOtherNames(t *testing.T) {
	b := newBench(t, nil)
	b.hub.o.Prices = (&ticker{last: []LastPrice{{Asset: "BTC", Price: 1}}}).read
	round := func() float64 {
		return testing.AllocsPerRun(10, func() { b.hub.prices.round(t.Context()); b.pass() })
	}
	want := func(prefix string, n int) {
		for i := range n {
			b.hub.prices.want([]asset{assetOf(fmt.Sprintf("%s%d", prefix, i))}, +1)
		}
	}
	want("a", 1)
	few := round()
	want("b", 20_000)
	if many := round(); many > few+1 {
		t.Errorf("%v allocations with 20,001 names, %v with one", many, few)
	}
}

// BenchmarkManyFilters has 3,000 connections of an account that each name 100 assets for
// market.price, and measures a round of prices and the memory of a connection.
func BenchmarkManyFilters(b *testing.B) {
	for name, distinct := range map[string]int{"own names": 300_000, "common names": 10_000} {
		b.Run(name, func(b *testing.B) {
			x := newBench(b, func(o *Options) { o.MaxAssets = distinct })
			x.hub.o.Prices = (&ticker{last: []LastPrice{{Asset: "BTC", Price: 1}}}).read
			before := heapInUse()
			for i := range 3000 {
				var list []string
				for j := range 100 {
					list = append(list, fmt.Sprintf("A%d", (i*100+j)%distinct))
				}
				p, s := x.attach()
				s.space = 1 << 20
				sub := newSubscription([]channel{signalNew, signalClosed, marketPrice}, list)
				if x.hub.names.index(p, namer{account: alice}, sub) == nil {
					b.Fatal("refused")
				}
				x.flusher.post(subscribed{peer: p, sub: sub, kind: "subscribed", reply: func(*resumedData) any { return nil }})
			}
			x.pass()
			held := heapInUse() - before
			b.ReportAllocs()
			for b.Loop() {
				x.hub.prices.round(b.Context())
				x.pass()
			}
			b.ReportMetric(float64(held)/3000, "B/connection")
		})
	}
}

// heapInUse returns the bytes of reachable objects.
func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestAHandshakeNamesTheFilterOfAnUnknownAgent, whose names the account chooses.
func TestAHandshakeNamesTheFilterOfAnUnknownAgent(t *testing.T) {
	t.Parallel()
	h := &Hub{o: Options{AgentNames: func(context.Context, signal.AccountID, *signal.View) ([]signal.AgentID, []string, error) {
		return []signal.AgentID{"mine"}, []string{"cross"}, nil
	}}}
	for want, f := range map[string]*signal.Filter{"agents": {Agents: []signal.AgentID{"mine", "hers"}},
		"strategies": {Agents: []signal.AgentID{"mine", "trading"}, Strategies: []string{"cross", "luck"}}} {
		if got := h.unknown(t.Context(), principalOf(alice), f); got == nil || got.filter != want {
			t.Errorf("%v, want a fault of %s", got, want)
		}
	}
	own := &signal.Filter{Agents: []signal.AgentID{"mine"}, Strategies: []string{"cross"}}
	if got := h.unknown(t.Context(), principalOf(alice), own); got != nil {
		t.Errorf("names of the account: %v", got)
	}
}
