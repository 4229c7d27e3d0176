package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/market"
	"github.com/agentsignal/agentsignal/persistence/signals"
)

const (
	listSignals     = 1_000_000
	listWriters     = 1024
	listConnections = 64
	listRepeats     = 2000
	listOpenShare   = 10 // one of this many signals is open
	listForecasts   = 10 // one of this many signals of the weather agent has an outlook, as runs give them
	listAssets      = 500
)

type listQuery struct {
	name  string
	query catalogue.Query
}

// listQueries returns the measured queries of an account whose last signal has the given
// time.
func listQueries(account signal.AccountID, last time.Time) []listQuery {
	since := last.Add(-time.Second)
	queries := []listQuery{
		{"none", catalogue.Query{}},
		{"asset", catalogue.Query{Asset: "A000"}},
		{"asset, strategy, direction, confidence",
			catalogue.Query{Asset: "A000", Strategy: "momentum", Direction: signal.Long, MinConfidence: .8}},
		{"confidence .8", catalogue.Query{MinConfidence: .8}},
		{"confidence .8137", catalogue.Query{MinConfidence: .8137}},
		{"direction, confidence .8", catalogue.Query{Direction: signal.Long, MinConfidence: .8}},
		{"direction, confidence .8137", catalogue.Query{Direction: signal.Long, MinConfidence: .8137}},
		{"since", catalogue.Query{Since: since}},
		{"since, confidence .8", catalogue.Query{Since: since, MinConfidence: .8}},
		{"offset 50,000", catalogue.Query{Offset: 50_000}},
		{"asset, offset 50,000", catalogue.Query{Asset: "A000", Offset: 50_000}},
		{"direction, confidence .8, offset 50,000",
			catalogue.Query{Direction: signal.Long, MinConfidence: .8, Offset: 50_000}},
	}
	for i := range queries {
		queries[i].query.Account, queries[i].query.Limit = account, 25
	}
	return queries
}

// listsBenchmark is the benchmark lists.
type listsBenchmark struct {
	*report
}

// measure measures GET /v1/signals of an account with a million signals: 500 assets by Zipf's
// law, the strategies of all agents, uniform confidences, a tenth of them open.
func (b *listsBenchmark) measure(ctx context.Context) (err error) {
	r, err := newRig(ctx, 1)
	if err != nil {
		return err
	}
	defer r.end(ctx, &err)
	account := r.ids[0]
	start := time.Now()
	last, err := r.signals.fill(ctx, account, listSignals)
	if err != nil {
		return err
	}
	b.row("a million signals written", "in %s", short(time.Since(start)))
	queries := listQueries(account, last.Time())
	if err := b.inCatalogue(ctx, r, account, "catalogue built from the log alone (reference)", nil); err != nil {
		return err
	}
	// The assets have prices, so that the open signals are watched.
	ticks := make([]marketdata.AssetTick, listAssets)
	for i := range ticks {
		tick := marketdata.Tick{Price: 64250, Time: time.Now().UnixMilli()}
		ticks[i] = marketdata.AssetTick{Asset: listAsset(uint64(i)), Tick: tick}
	}
	if err := market.New(r.store.Client).GiveTicks(ctx, ticks); err != nil {
		return err
	}
	// The owner has not seen these signals: its first start handles the events, and adds leaves and
	// blocks. What is measured is the start after that.
	s, err := r.serve(ctx, withTicks)
	if err != nil {
		return err
	}
	err = caughtUp(ctx, r.store, account, last)
	if err := errors.Join(err, s.stop(ctx)); err != nil {
		return err
	}
	if err := b.inCatalogue(ctx, r, account, "catalogue built", queries); err != nil {
		return err
	}
	if s, err = r.serve(ctx, withTicks); err != nil {
		return err
	}
	first := &load{addr: s.addr, request: func(int, int) []byte { return listRequest(r.keys[0], catalogue.Query{}) }}
	start = time.Now()
	if _, err := first.connection(ctx, 0, 1, start, time.Nanosecond, 1); err != nil {
		return err
	}
	b.row("first query after a start (target 3 s)", "%s", short(time.Since(start)))
	for _, q := range queries {
		l := &load{addr: s.addr, request: func(int, int) []byte { return listRequest(r.keys[0], q.query) }}
		rate, taken, err := l.run(ctx, listConnections, b.window/2, 0)
		if err != nil {
			return err
		}
		b.row("HTTP, "+q.name+" (target 15,000/s)", "%.0f/s, %s", rate, latencies(taken))
	}
	return nil
}

// listsCaughtUp is how long the first start with these signals may take.
const listsCaughtUp = 3 * time.Minute

// caughtUp waits until the service has processed an account's events up to last, all of which were
// written before it was started, and has made the leaves and blocks of its signals.
func caughtUp(ctx context.Context, store *persistence.Store, account signal.AccountID, last signal.Position) error {
	p := store.Client.Partition(account)
	return until(ctx, listsCaughtUp, 100*time.Millisecond, func() (bool, error) {
		position, err := store.Logs.Positions.OwnerPosition(ctx, p)
		if err != nil || position.Compare(last) < 0 {
			return false, err
		}
		log, err := store.Client.ReadInfo(ctx, store.Client.SignalsKey(p))
		if err != nil {
			return false, err
		}
		leaves, err := store.Client.ReadInfo(ctx, store.Client.LeavesKey(p))
		if err != nil || leaves.Length < log.Length {
			return false, err
		}
		blocks, err := store.Client.ReadInfo(ctx, store.Client.BlocksKey(p))
		return blocks.Length >= log.Length/signals.BlockEntries, err
	})
}

func listAsset(n uint64) string { return fmt.Sprintf("A%03d", n) }

// inCatalogue measures a catalogue in this process, without HTTP: how long it takes to build, and the
// queries.
func (b *listsBenchmark) inCatalogue(
	ctx context.Context, r *rig, account signal.AccountID, name string, queries []listQuery,
) error {
	tail := eventlog.NewTail(r.store.Logs, eventlog.TailOptions{})
	c := catalogue.New(tail, r.store.Signals, r.store.Client.Partitions(),
		catalogue.Options{Follow: tail.For(eventlog.Lists).Use})
	tail.Subscribe(c.Publish)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { tail.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	start := time.Now()
	if _, total, err := c.List(ctx, catalogue.Query{Account: account, Limit: 1}); err != nil || total != listSignals {
		return fmt.Errorf("list: total %d, %w", total, err)
	}
	b.row(name, "in %s", short(time.Since(start)))
	for _, q := range queries {
		taken := make([]time.Duration, listRepeats)
		start := time.Now()
		_, total := c.Page(q.query)
		first := time.Since(start)
		for i := range taken {
			start := time.Now()
			c.Page(q.query)
			taken[i] = time.Since(start)
		}
		b.row("catalogue, "+q.name+" (target p99 2 ms)", "first %s, then %s (%d match)",
			short(first), latencies(taken), total)
	}
	return nil
}

func listRequest(key string, q catalogue.Query) []byte {
	v := url.Values{"limit": {"25"}}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	set("asset", q.Asset)
	set("strategy", q.Strategy)
	set("direction", string(q.Direction))
	if q.MinConfidence > 0 {
		set("min_confidence", strconv.FormatFloat(q.MinConfidence, 'f', -1, 64))
	}
	if q.Offset > 0 {
		set("offset", strconv.Itoa(q.Offset))
	}
	if !q.Since.IsZero() {
		set("since", q.Since.UTC().Format(signal.TimeLayout))
	}
	return httpRequest("GET", "/v1/signals?"+v.Encode(), key, "")
}
