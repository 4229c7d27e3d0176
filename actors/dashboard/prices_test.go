package dashboard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/spelling"
)

// ticker is a source of prices whose rounds a test makes.
type ticker struct {
	hub   *Hub
	last  []LastPrice
	err   error
	reads int
}

// newTicker gives s prices that are read in ticker.round only.
func newTicker(s *service) *ticker {
	p := &ticker{hub: s.hub}
	s.hub.o.Prices = p.read
	return p
}

func (p *ticker) read(context.Context) ([]LastPrice, error) {
	p.reads++
	return p.last, p.err
}

func (p *ticker) round() { p.hub.prices.round(context.Background()) }

// tradedAt is the time of the prices of tests.
var tradedAt = time.Date(2026, 11, 21, 9, 30, 0, 250e6, time.UTC)

func (p *ticker) set(asset string, price float64) {
	for i := range p.last {
		if p.last[i].Asset == asset {
			p.last[i].Price = price
			return
		}
	}
	p.last = append(p.last, LastPrice{Asset: asset, Source: "simulated", Price: price, At: tradedAt})
}

func (c *client) wantPrice(asset string, price float64) {
	c.tb.Helper()
	e := c.want("market.price")
	want := fmt.Sprintf(`{"asset":"%s","price":%v,"at":"2026-11-21T09:30:00.250Z","source":"simulated"}`, asset, price)
	if string(e.Data) != want || e.ID != "" || e.Timestamp == "" {
		c.tb.Errorf("id %q at %q, %s, want %s", e.ID, e.Timestamp, e.Data, want)
	}
}

// TestPrices: a connection gets the prices of the assets that it names, when they change.
func TestPrices(t *testing.T) {
	t.Parallel()
	// Any name that ends in -usd is an alias.
	s := newService(t, func(o *Options) {
		o.Name = func(asset string) string {
			name, _ := strings.CutSuffix(spelling.Fold(asset), "-USD")
			return name
		}
	})
	p := newTicker(s)
	p.set("BTC", 64250.125)
	p.set("ETH", 3000)
	p.set("SOL", 150.5)
	a, b, none := s.welcomed(principalOf(alice)), s.welcomed(principalOf(bob)), s.welcomed(principalOf(alice))
	p.round()
	if p.reads != 0 {
		t.Errorf("prices were read %d times without a subscription", p.reads)
	}
	a.subscribe(`"channels":["market.price","signal.new"],"filters":{"assets":["btc"],"min_confidence":0.99}`, `null`)
	b.subscribe(`"channels":["market.price"],"filters":{"assets":["Eth-usd","DOGE"]}`, `null`)
	p.round()
	a.wantPrice("BTC", 64250.125)
	b.wantPrice("ETH", 3000)
	p.round() // nothing has changed
	p.set("BTC", 64251)
	p.set("SOL", 151)
	p.round()
	a.wantPrice("BTC", 64251)

	// Who joins gets all prices once, although they did not change.
	late := s.welcomed(principalOf(alice))
	late.subscribe(`"channels":["market.price"],"filters":{"assets":["ETH","BTC"]}`, `null`)
	late.wantNothing()
	p.set("ETH", 3001)
	p.round()
	late.wantPrice("BTC", 64251)
	late.wantPrice("ETH", 3001)
	b.wantPrice("ETH", 3001)
	p.round()
	late.wantNothing()

	a.ask(`{"action":"unsubscribe","channels":["market.price"]}`, "unsubscribed")
	p.set("BTC", 64252)
	p.round()
	late.wantPrice("BTC", 64252)
	for _, c := range []*client{a, b, none} {
		c.wantNothing()
	}
}

// TestPricesWhileTheyCannotBeRead: the ones of before are not sent again.
func TestPricesWhileTheyCannotBeRead(t *testing.T) {
	t.Parallel()
	s, c := newClient(t, nil)
	p := newTicker(s)
	p.set("BTC", 1)
	c.subscribe(`"channels":["market.price"],"filters":{"assets":["BTC"]}`, `null`)
	p.round()
	c.wantPrice("BTC", 1)
	p.err = errors.New("no store")
	p.round()
	// A connection that asks meanwhile gets the prices once they can be read, and one that leaves
	// is forgotten.
	late, gone := s.welcomed(principalOf(alice)), s.welcomed(principalOf(alice))
	for _, asks := range []*client{late, gone} {
		asks.subscribe(`"channels":["market.price"],"filters":{"assets":["BTC"]}`, `null`)
	}
	gone.ask(`{"action":"unsubscribe"}`, "unsubscribed")
	p.round()
	late.wantNothing()
	if n := awaitingPrices(s); n != 1 {
		t.Errorf("%d connections wait for prices", n)
	}
	p.err = nil
	p.round()
	late.wantPrice("BTC", 1)
	c.wantNothing()
	p.set("BTC", 2)
	p.round()
	c.wantPrice("BTC", 2)
}

// TestPricesNeedAssets: no subscription gets all prices.
func TestPricesNeedAssets(t *testing.T) {
	t.Parallel()
	s, c := newClient(t, nil)
	p := newTicker(s)
	p.set("BTC", 1)
	for _, filters := range []string{``, `,"filters":{}`, `,"filters":{"assets":[]}`, `,"filters":{"agents":["seo"]}`} {
		e := c.ask(`{"action":"subscribe","channels":["signal.new","market.price"]`+filters+`}`, "error")
		c.wantPart(e, `"code":"invalid_filter"`)
		c.wantPart(e, "filters.assets")
	}
	reader := s.welcomed(&signal.Principal{Account: bob, Key: signal.NewKeyID(), Scopes: 0})
	e := reader.ask(`{"action":"subscribe","channels":["market.price"],"filters":{"assets":["BTC"]}}`, "subscribed")
	reader.wantPart(e, `"denied":["market.price"]`)
	p.round()
	c.wantNothing()
	reader.wantNothing()
	if p.reads != 0 {
		t.Errorf("prices were read %d times for refused subscriptions", p.reads)
	}
}

// TestPricesForgetConnections: a connection that asked and left before the next round costs no
// memory after it.
func TestPricesForgetConnections(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *Options) { o.Flushers = 1 })
	p := newTicker(s)
	for range 3 {
		c := s.welcomed(principalOf(alice))
		c.subscribe(`"channels":["market.price"],"filters":{"assets":["BTC"]}`, `null`)
		c.ask(`{"action":"unsubscribe"}`, "unsubscribed")
	}
	p.round()
	s.welcomed(principalOf(alice)).wantNothing() // the flusher has done the round
	if n := awaitingPrices(s); n != 0 || p.reads != 0 {
		t.Errorf("%d connections are kept, and prices were read %d times", n, p.reads)
	}
}

// TestNoPriceAfterLeavingTheChannel: a connection that asked for prices and subscribed to something else
// before the next round gets none.
func TestNoPriceAfterLeavingTheChannel(t *testing.T) {
	t.Parallel()
	s, c := newClient(t, nil)
	p := newTicker(s)
	p.set("BTC", 1)
	stays := s.welcomed(principalOf(alice))
	const members = `,"filters":{"assets":["BTC"]}`
	stays.subscribe(`"channels":["market.price"]`+members, `null`)
	p.round()
	stays.wantPrice("BTC", 1)
	c.subscribe(`"channels":["market.price","signal.new"]`+members, `null`)
	c.subscribe(`"channels":["signal.new"]`+members, `null`)
	p.round() // the price is the one of before, for those that have none yet
	c.wantNothing()
	p.set("BTC", 2)
	p.round()
	stays.wantPrice("BTC", 2)
	c.wantNothing()
}

// TestPricesAreReadOnceASecond, from the first subscription to the last.
func TestPricesAreReadOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sys := engine.NewSystem(engine.Options{})
		var reads []time.Time
		h := NewHub(sys, Options{PartitionOf: partitionOf, Flushers: 1, Prices: func(context.Context) ([]LastPrice, error) {
			reads = append(reads, time.Now())
			time.Sleep(300 * time.Millisecond) // a slow store
			return nil, nil
		}})
		time.Sleep(10 * time.Second)
		if synctest.Wait(); len(reads) != 0 {
			t.Errorf("%d reads without a subscription", len(reads))
		}
		h.prices.want([]asset{assetOf("btc")}, +1)
		time.Sleep(10 * time.Second)
		h.prices.want([]asset{assetOf("btc")}, -1)
		synctest.Wait()
		seen := len(reads)
		if seen < 7 {
			t.Errorf("%d reads in 10 s", seen)
		}
		for i := 1; i < seen; i++ {
			if d := reads[i].Sub(reads[i-1]); d < pricesEvery {
				t.Errorf("read %d came %s after the one before", i, d)
			}
		}
		time.Sleep(10 * time.Second)
		if synctest.Wait(); len(reads) != seen {
			t.Errorf("%d reads after the last subscription", len(reads)-seen)
		}
		ctx := context.Background()
		if err := errors.Join(h.Drain(ctx), h.Close(ctx), sys.Shutdown(ctx)); err != nil {
			t.Error(err)
		}
	})
}

// awaitingPrices returns the number of connections that have asked for prices and have none yet.
func awaitingPrices(s *service) int {
	n := 0
	for _, f := range s.hub.flushers {
		waiting := make(chan int)
		f.post(inspect(func(f *flusher) { waiting <- len(f.audiences.awaitingPrices) }))
		n += <-waiting
	}
	return n
}
