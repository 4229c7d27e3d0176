package catalogue

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// million returns a catalogue of one account with a million signals of 500 assets.
func million(b *testing.B, pairs []names) (*Catalogue, time.Time) {
	b.Helper()
	const signals = 1_000_000
	r := rand.New(rand.NewPCG(1, 1))
	zipf := rand.NewZipf(r, 1.2, 1, 499)
	start := time.UnixMilli(1_795_000_000_000)
	names := make([]string, 500)
	for i := range names {
		names[i] = string([]byte{byte('A' + i/100), byte('A' + i/10%10), byte('A' + i%10)})
	}
	log := &fakeLog{}
	c := New(log, log, 1, Options{Now: func() time.Time { return start.Add(80 * 24 * time.Hour) }})
	c.List(b.Context(), Query{Account: acc, Limit: 1})
	price := 1.5
	// As many concurrent callers make them: hundreds in a millisecond, in any order.
	const together = 400
	ids := make([]signal.SignalID, together)
	for i := range signals {
		if i%together == 0 {
			for k := range ids {
				ids[k] = signal.NewSignalID()
			}
			r.Shuffle(together, func(x, y int) { ids[x], ids[y] = ids[y], ids[x] })
		}
		of := pairs[r.IntN(len(pairs))]
		l := signal.Listing{ID: ids[i%together], Agent: of.agent, Strategy: of.strategy, Asset: names[zipf.Uint64()],
			Entry: &price, Confidence: r.Float64(), Direction: signal.Long}
		if i%2 == 0 {
			l.Direction = signal.Short
		}
		p := signal.Position{MS: start.UnixMilli() + int64(i/together*5*together), Seq: int64(i % together)}
		c.Publish(0, []signal.Event{{Position: p, Account: acc, Type: signal.SignalCreated, Listing: &l}})
	}
	return c, start
}

func BenchmarkList(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	c, start := million(b, builtIn())
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := float64(after.HeapAlloc-before.HeapAlloc) / float64(c.Size())
	for name, q := range map[string]Query{
		"none":  {},
		"asset": {Asset: "AAA"},
		"asset+strategy+direction+conf>=.8": {
			Asset: "AAA", Strategy: "momentum", Direction: signal.Long, MinConfidence: .8},
		"conf>=.8":                        {MinConfidence: .8},
		"conf>=.8137":                     {MinConfidence: .8137},
		"direction+conf>=.8":              {Direction: signal.Long, MinConfidence: .8},
		"direction+conf>=.8137":           {Direction: signal.Long, MinConfidence: .8137},
		"since 1h":                        {Since: start.Add(5000*time.Second - time.Hour)},
		"offset 50100":                    {Offset: 50_100},
		"asset+offset 50100":              {Asset: "AAA", Offset: 50_100},
		"direction+conf>=.8+offset 50100": {Direction: signal.Long, MinConfidence: .8, Offset: 50_100},
	} {
		b.Run(name, func(b *testing.B) {
			q.Account, q.Limit = acc, 25
			for b.Loop() {
				c.List(b.Context(), q)
			}
			b.ReportMetric(held, "B/signal")
		})
	}
}

// What views cost, when their set is cached and when it is not.
func BenchmarkListOfViews(b *testing.B) {
	c, _ := million(b, builtIn())
	a, none := c.partitions.list[0].accounts[acc], signal.Names{}
	var assets []string
	for i := range signal.MaxViewNames {
		assets = append(assets, string([]byte{'A', byte('A' + i/10), byte('A' + i%10)}))
	}
	for name, v := range map[string]*signal.View{
		"none": nil, "everything": signal.NewView(none, none, none),
		"agent":      signal.NewView(signal.NamesOf("trading"), none, none),
		"asset":      signal.NewView(none, signal.NamesOf("AAA"), none),
		"100 assets": signal.NewView(none, signal.NamesOf(assets...), none),
		"all": signal.NewView(signal.NamesOf("trading", "seo"), signal.NamesOf(assets...),
			signal.NamesOf("momentum", "breakout")),
	} {
		q := Query{Account: acc, View: v, Direction: signal.Long, Limit: 25}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c.List(b.Context(), q)
			}
		})
		b.Run(name+" that is not cached", func(b *testing.B) {
			for b.Loop() {
				a.sets.kept = nil
				c.List(b.Context(), q)
			}
		})
		b.Run(name+", counts", func(b *testing.B) {
			for b.Loop() {
				c.Counts(b.Context(), acc, v)
			}
		})
	}
}

// Many strategies: the most that an account may have at once.
func BenchmarkListOfOwnAgents(b *testing.B) {
	pairs := builtIn()
	for i := range signal.MaxAgents * signal.MaxAgentStrategies {
		pairs = append(pairs, names{signal.AgentID(fmt.Sprint("agent_", i/signal.MaxAgentStrategies)),
			fmt.Sprint("strategy_", i%signal.MaxAgentStrategies)})
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	c, _ := million(b, pairs)
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := float64(after.HeapAlloc-before.HeapAlloc) / float64(c.Size())
	a := c.partitions.list[0].accounts[acc]
	for name, q := range map[string]Query{
		"agent": {Agent: "agent_7"}, "strategy": {Strategy: "strategy_7"}, "pair": {Agent: "agent_7", Strategy: "strategy_7"},
	} {
		q.Account, q.Limit = acc, 25
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c.List(b.Context(), q)
			}
			b.ReportMetric(held, "B/signal")
		})
		b.Run(name+" that is not cached", func(b *testing.B) {
			for b.Loop() {
				a.sets.kept = nil
				c.List(b.Context(), q)
			}
		})
	}
	b.Run("counts", func(b *testing.B) {
		for b.Loop() {
			c.Counts(b.Context(), acc, nil)
		}
	})
}
