package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/market"
)

const (
	listSignals     = 1_000_000
	listWriters     = 1024
	listConnections = 64
	listRepeats     = 2000
	listOpenShare   = 10 // of so many signals one is open
	listAssets      = 500
)

// listQuery is a filter that is measured.
type listQuery struct {
	name  string
	query catalogue.Query
}

// listQueries returns the filters that are measured, in the account whose last signal
// is of the given time.
func listQueries(account signal.AccountID, last time.Time) []listQuery {
	since := last.Add(-time.Second)
	queries := []listQuery{
		{"none", catalogue.Query{}},
		{"asset", catalogue.Query{Asset: "A000"}},
		{"asset, strategy, direction, confidence", catalogue.Query{Asset: "A000", Strategy: "momentum",
			Direction: signal.Long, MinConfidence: .8}},
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

// lists measures GET /v1/signals of an account with a million signals: 500 assets
// by Zipf's law, the strategies of all agents, confidences uniform, a tenth of them open.
func (b *bench) lists(ctx context.Context) (err error) {
	r, err := newRig(ctx)
	if err != nil {
		return err
	}
	defer r.end(ctx, &err)
	ids, keys, err := r.accounts(ctx, 1)
	if err != nil {
		return err
	}
	start := time.Now()
	last, err := r.fill(ctx, ids[0], listSignals)
	if err != nil {
		return err
	}
	b.row("a million signals written", "in %s", short(time.Since(start)))
	queries := listQueries(ids[0], last.Time())
	if err := b.inCatalogue(ctx, r, ids[0], queries); err != nil {
		return err
	}
	// Their assets have prices, so that the open ones are watched as they always are.
	prices := market.New(r.store.Client)
	for i := range listAssets {
		tick := marketdata.AssetTick{Asset: fmt.Sprintf("A%03d", i),
			Tick: marketdata.Tick{Price: 64250, Time: time.Now().UnixMilli()}}
		if err := prices.GiveTicks(ctx, []marketdata.AssetTick{tick}); err != nil {
			return err
		}
	}
	s, err := r.serve(ctx, "AGENTSIGNAL_MARKET_SOURCE=stream")
	if err != nil {
		return err
	}
	if err := r.caughtUp(ctx, ids[0], last); err != nil {
		return err
	}
	first := &load{addr: s.addr, request: func(int, int) []byte { return listRequest(keys[0], catalogue.Query{}) }}
	start = time.Now()
	if _, err := first.connection(ctx, 0, 1, start, time.Nanosecond, 1); err != nil {
		return err
	}
	b.row("first query after a start (target 3 s)", "%s", short(time.Since(start)))
	for _, q := range queries {
		l := &load{addr: s.addr, request: func(int, int) []byte { return listRequest(keys[0], q.query) }}
		rate, taken, err := l.saturate(ctx, listConnections, b.window/2)
		if err != nil {
			return err
		}
		b.row("HTTP, "+q.name+" (target 15,000/s)", "%.0f/s, %s", rate, latencies(taken))
	}
	return nil
}

// caughtUp waits until the service has had the effects of an account's events up to
// last. A service that restarts is a few of them behind; this one is behind by all
// that was written before it was there.
func (r *rig) caughtUp(ctx context.Context, account signal.AccountID, last signal.Position) error {
	ctx, cancel := context.WithTimeout(ctx, serverStart)
	defer cancel()
	for {
		position, err := r.store.EnginePosition(ctx, r.store.Partition(account))
		if err != nil || position.Compare(last) >= 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the effects of events: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// inCatalogue measures the queries in this process, without HTTP and Redis.
func (b *bench) inCatalogue(ctx context.Context, r *rig, account signal.AccountID, queries []listQuery) error {
	tail := eventlog.NewTail(r.store.Store, eventlog.TailOptions{})
	c := catalogue.New(tail, r.store, r.store.Partitions(), catalogue.Options{})
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
	b.row("catalogue built", "in %s", short(time.Since(start)))
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
		b.row("catalogue, "+q.name+" (target p99 2 ms)", "first %s, then %s (%d match)", short(first), latencies(taken),
			total)
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

// fill writes n signals of an account and returns the position of the last.
func (r *rig) fill(ctx context.Context, account signal.AccountID, n int) (signal.Position, error) {
	var strategies []string
	owner := map[string]signal.AgentID{}
	for _, a := range signal.Agents() {
		for _, s := range a.Strategies {
			strategies = append(strategies, s)
			owner[s] = a.ID
		}
	}
	var mu sync.Mutex // guards last and failed
	var last signal.Position
	var failed error
	var wg sync.WaitGroup
	for w := range listWriters {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			zipf := rand.NewZipf(random, 1.2, 1, listAssets-1)
			for i := w; i < n; i += listWriters {
				strategy := strategies[random.IntN(len(strategies))]
				sig := &signal.Signal{ID: signal.NewSignalID(), Account: account, Agent: owner[strategy], Run: signal.NewRunID(),
					Asset: fmt.Sprintf("A%03d", zipf.Uint64()), Strategy: strategy, Timeframe: signal.H1, Risk: signal.MediumRisk,
					Direction: signal.Long, Confidence: float64(random.IntN(10_001)) / 10_000, Metadata: []byte(appendMetadata),
					Levels: &signal.Levels{Entry: 64250.125, Stop: 62900.125, Target: 66275.125}, ExpiresAt: r.store.Now().
						Add(24 * time.Hour)}
				if random.IntN(2) == 0 {
					sig.Direction = signal.Short
				}
				listing := sig.Listing()
				at, err := r.log.Append(ctx, signal.Change{Account: account, Signal: sig,
					Events: []signal.Event{{Type: signal.SignalCreated,
						Asset: sig.Asset, Listing: &listing, Data: []byte(appendPayload)}}})
				if err == nil && i%listOpenShare != 0 {
					closed := *sig
					closed.Closing, closed.Sequence, closed.Metadata = &signal.Closing{Reason: signal.StopLoss, At: at.Time(),
						ExitPrice: &sig.Levels.Stop}, 2, nil
					at, err = r.log.Append(ctx, signal.Change{Account: account, Signal: &closed,
						Events: []signal.Event{{Type: signal.SignalClosed,
							Asset: sig.Asset, Data: []byte(`{}`)}}})
				}
				mu.Lock()
				if at.Compare(last) > 0 {
					last = at
				}
				if err != nil {
					failed = err
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return last, failed
}
