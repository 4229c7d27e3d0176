package market

import (
	"errors"
	"math"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// newMarketBench returns a market on a server of the test's own, with the epoch of
// its feeder.
func newMarketBench(t *testing.T) (m *Store, rdb *redis.Client, epoch int64) {
	t.Helper()
	server := redistest.New(t)
	m = New(storetest.Client(t, redisclient.Options{URL: server.URL(), Partitions: 4}))
	epoch, _, err := m.TakeLease(t.Context(), "node", time.Minute)
	if err != nil || epoch == 0 {
		t.Fatalf("take lease: epoch %d, %v", epoch, err)
	}
	return m, server.Client(), epoch
}

var marketBar = storetest.Bar

func TestOneNodeFeedsTheMarket(t *testing.T) {
	t.Parallel()
	m, rdb, first := newMarketBench(t)
	ctx := t.Context()
	if other, holder, err := m.TakeLease(ctx, "other", time.Minute); other != 0 || holder != "node" || err != nil {
		t.Errorf("another node takes the lease: epoch %d, %v", other, err)
	}
	if err := m.RenewLease(ctx, "node", first, 2*time.Minute); err != nil {
		t.Errorf("renew: %v", err)
	}
	if ttl := rdb.PTTL(ctx, m.Feed.s.FeederKey()).Val(); ttl <= time.Minute {
		t.Errorf("the renewed lease lasts %v", ttl)
	}
	second, _, err := m.TakeLease(ctx, "node", time.Minute)
	if second <= first || err != nil {
		t.Errorf("a restarted node has epoch %d after %d, %v", second, first, err)
	}
	if err := m.RenewLease(ctx, "node", first, time.Minute); signal.CodeOf(err) != signal.CodeNotOwner {
		t.Error("a lease that ended was renewed")
	}
	if err := m.ReleaseLease(ctx, "node", first); err != nil || rdb.Exists(ctx, m.Feed.s.FeederKey()).Val() == 0 {
		t.Errorf("a lease that ended released the next one: %v", err)
	}
	if err := m.ReleaseLease(ctx, "node", second); err != nil {
		t.Error(err)
	}
	if third, _, err := m.TakeLease(ctx, "other", time.Minute); third <= second || err != nil {
		t.Errorf("after the release: epoch %d, %v", third, err)
	}
}

func TestMarketStepIsStoredAtOnce(t *testing.T) {
	t.Parallel()
	m, _, epoch := newMarketBench(t)
	ctx := t.Context()
	asset := marketdata.Asset{
		Symbol: "natural_gas", Class: "commodity", Source: "simulated", TickSize: 1e-7, AlwaysOpen: true, Speed: 60,
	}
	last := marketdata.Tick{Price: 2.8, Volume: 3, Time: 1_795_253_400_123}
	live := marketdata.Live{Asset: "natural_gas", Last: last, Minute: marketBar(0, 9).Bar}
	live.Minute.Flat = false
	news := marketdata.NewsItem{
		ID: "n1", At: 5, Headline: "Gas surges", Body: "Ä", Source: "wire", Weight: .5,
		Symbols: []string{"natural_gas", "oil"},
	}
	step := &marketdata.Step{
		Epoch: epoch, Ticks: signal.Position{MS: 7, Seq: 1}, Bars: signal.Position{MS: 8}, Checkpoint: []byte{0, 255},
		Assets: []marketdata.Asset{asset}, Live: []marketdata.Live{live}, News: []marketdata.NewsItem{news},
		Closed: []marketdata.AssetBar{marketBar(0, 9), marketBar(1, 10), marketBar(0, 11)}}
	for range 2 { // the reply to the first may have been lost
		storetest.Must(t, m.Store(ctx, step))
	}
	state, err := m.State(ctx)
	want := marketdata.State{Ticks: step.Ticks, Bars: step.Bars, Checkpoint: step.Checkpoint}
	want.Assets, want.Live = step.Assets, step.Live
	if d := cmp.Diff(want, state); d != "" || err != nil {
		t.Errorf("state (-want +got): %v\n%s", err, d)
	}
	storetest.Must(t, m.Store(ctx, &marketdata.Step{Epoch: epoch, Ticks: step.Ticks}))
	if state, err := m.State(ctx); string(state.Checkpoint) != string(step.Checkpoint) || err != nil {
		t.Errorf("after a step without a checkpoint it is %q, %v", state.Checkpoint, err)
	}
	gotAsset, gotLive, err := m.Asset(ctx, "NATURAL_GAS")
	if gotAsset != asset || gotLive != live || err != nil {
		t.Errorf("asset %+v, live %+v, %v", gotAsset, gotLive, err)
	}
	_, _, err = m.Asset(ctx, "natural_gas")
	storetest.WantKind(t, "a key in lower case", err, signal.KindNotFound)
	bars, count, err := m.Bars(ctx, "BTC", signal.H1)
	wantBars := []marketdata.AssetBar{marketBar(0, 11), marketBar(1, 10)}
	if d := cmp.Diff(wantBars, bars); d != "" || count != 6 || err != nil {
		t.Errorf("count %d, %v, bars (-want +got):\n%s", count, err, d)
	}
	closed, items, closedTo, newsTo, _, err := m.Follow(ctx, signal.Position{}, signal.Position{}, 0)
	if err != nil || len(closed) != 6 || closedTo.IsZero() || newsTo.IsZero() {
		t.Fatalf("%d closed bars up to %v, %v", len(closed), closedTo, err)
	}
	for i, c := range closed {
		if c.Count != int64(i+1) {
			t.Errorf("bar %d has count %d", i, c.Count)
		}
	}
	if d := cmp.Diff(marketBar(1, 10), closed[1].Bar); d != "" {
		t.Errorf("closed bar (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]marketdata.NewsItem{news, news}, items); d != "" {
		t.Errorf("news (-want +got):\n%s", d)
	}
	if end, newsEnd, n, err := m.FollowEnd(ctx); end != closedTo || newsEnd != newsTo || n != 6 || err != nil {
		t.Errorf("ends %v and %v, count %d, %v", end, newsEnd, n, err)
	}
}

func TestFormerFeederStoresNothing(t *testing.T) {
	t.Parallel()
	m, rdb, stale := newMarketBench(t)
	ctx := t.Context()
	if _, _, err := m.TakeLease(ctx, "node", time.Minute); err != nil {
		t.Fatal(err)
	}
	before := rdb.DBSize(ctx).Val()
	bars := []marketdata.AssetBar{marketBar(0, 9)}
	err := m.Store(ctx, &marketdata.Step{Epoch: stale, Checkpoint: []byte("x"), Closed: bars})
	storetest.WantKind(t, "a step", err, signal.KindConflict)
	err = m.Fill(ctx, stale, []marketdata.Series{{Asset: "BTC", Timeframe: signal.H1, Bars: bars}})
	storetest.WantKind(t, "a series", err, signal.KindConflict)
	if after := rdb.DBSize(ctx).Val(); after != before {
		t.Errorf("%d keys became %d", before, after)
	}
}

func TestSeriesAreFilledAndKeptShort(t *testing.T) {
	t.Parallel()
	m, rdb, epoch := newMarketBench(t)
	ctx := t.Context()
	var all []marketdata.AssetBar
	for i := range int64(maxBars + 100) {
		all = append(all, marketBar(i, float64(6+i%10)))
	}
	fill := func(reset bool, bars ...marketdata.AssetBar) {
		t.Helper()
		series := []marketdata.Series{{Asset: "BTC", Timeframe: signal.H1, Bars: bars, Reset: reset}}
		storetest.Must(t, m.Fill(ctx, epoch, series))
	}
	series := func() []marketdata.AssetBar {
		t.Helper()
		bars, _, err := m.Bars(ctx, "BTC", signal.H1)
		if err != nil {
			t.Fatal(err)
		}
		return bars
	}
	fill(false, all...)
	if d := cmp.Diff(all[100:], series()); d != "" {
		t.Errorf("filled (-want +got):\n%s", d)
	}
	next := marketBar(maxBars+100, 6)
	storetest.Must(t, m.Store(ctx, &marketdata.Step{Epoch: epoch, Closed: []marketdata.AssetBar{next}}))
	if bars := series(); len(bars) != maxBars || bars[maxBars-1] != next || bars[0] != all[101] {
		t.Errorf("%d bars after another one", len(bars))
	}
	if n := rdb.ZCard(ctx, m.Feed.s.BarsKey("BTC", signal.H1)).Val(); n != maxBars {
		t.Errorf("%d bars are stored after another one, want %d", n, maxBars)
	}
	replaced := marketBar(maxBars+99, 19)
	fill(false, replaced)
	if bars := series(); len(bars) != maxBars || bars[maxBars-2] != replaced {
		t.Errorf("%d bars after a replacement", len(bars))
	}
	recent := make(map[string]int)
	count := func(asset string, bars []marketdata.AssetBar) { recent[asset] = len(bars) }
	err := m.EachRecent(ctx, []string{"BTC", "NONE"}, signal.H1, 7, count)
	if d := cmp.Diff(map[string]int{"BTC": 7, "NONE": 0}, recent); d != "" || err != nil {
		t.Errorf("recent: %v\n%s", err, d)
	}
	fill(true, all[:3]...)
	if d := cmp.Diff(all[:3], series()); d != "" {
		t.Errorf("reset (-want +got):\n%s", d)
	}
	// Readers are notified to read the series again.
	closed, _, _, _, _, err := m.Follow(ctx, signal.Position{}, signal.Position{}, 0)
	if err != nil || len(closed) != 4 || closed[0].Bar != (marketdata.AssetBar{Asset: "BTC", Timeframe: signal.H1}) {
		t.Errorf("%+v, %v", closed, err)
	}
}

func TestReadersAreNotifiedOfChangedAssets(t *testing.T) {
	t.Parallel()
	m, rdb, epoch := newMarketBench(t)
	ctx := t.Context()
	store := func(step marketdata.Step) {
		t.Helper()
		step.Epoch = epoch
		storetest.Must(t, m.Store(ctx, &step))
	}
	first := marketdata.Asset{Symbol: "oil", Source: "simulated", Speed: 60}
	second := marketdata.Asset{Symbol: "oil", Source: "stream", Speed: 1}
	store(marketdata.Step{Assets: []marketdata.Asset{first}, Live: []marketdata.Live{{Asset: "oil"}}})
	store(marketdata.Step{Assets: []marketdata.Asset{first}})
	store(marketdata.Step{Assets: []marketdata.Asset{second}})
	store(marketdata.Step{Removed: []string{"oil"}})
	closed, _, _, _, _, err := m.Follow(ctx, signal.Position{}, signal.Position{}, 0)
	changed := marketdata.AssetBar{Asset: "OIL"}
	want := []marketdata.ClosedBar{{Count: 1, Bar: changed}, {Count: 2, Bar: changed}}
	if d := cmp.Diff(want, closed); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	if n := rdb.Exists(ctx, m.Feed.s.MarketAssetsKey(), m.Feed.s.MarketLiveKey()).Val(); n != 0 {
		t.Errorf("%d records are left of an asset that was removed", n)
	}
}

func TestTicksThatWereTrimmedOrLostAreNotKept(t *testing.T) {
	t.Parallel()
	m, _, _ := newMarketBench(t)
	ctx := t.Context()
	storetest.Must(t, m.GiveTicks(ctx, []marketdata.AssetTick{{Asset: "BTC"}, {Asset: "ETH"}}))
	entries, _, err := m.ReadTicks(ctx, marketdata.GivenTicks, signal.Position{}, 0)
	if err != nil || len(entries) != 2 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for after, want := range map[signal.Position]bool{
		entries[0].Position:                           true,
		entries[1].Position:                           true,
		{MS: entries[1].Position.MS + 60_000}:         false, // Redis has lost what lay there
		{MS: entries[0].Position.MS - 60_000, Seq: 1}: false, // it may have been trimmed
	} {
		if kept, err := m.TicksKept(ctx, marketdata.GivenTicks, after); kept != want || err != nil {
			t.Errorf("ticks after %v are kept: %v, %v", after, kept, err)
		}
	}
}

func TestTicksAreAppendedReadAndTrimmed(t *testing.T) {
	t.Parallel()
	m, rdb, _ := newMarketBench(t)
	ctx := t.Context()
	if end, err := m.TicksEnd(ctx, marketdata.GivenTicks); !end.IsZero() || err != nil {
		t.Errorf("end of no stream is %v, %v", end, err)
	}
	tick := marketdata.Tick{Price: 67000.125, Volume: 1e-7, Time: 1_795_253_400_123}
	err := m.GiveTicks(ctx, []marketdata.AssetTick{
		{Asset: "BTC", Source: "simulated", Tick: tick},
		{Asset: "ETH", Tick: marketdata.Tick{Price: 1e7, Time: 5}},
	})
	if err != nil {
		t.Fatal(err)
	}
	entries, _, err := m.ReadTicks(ctx, marketdata.GivenTicks, signal.Position{}, 0)
	if err != nil || len(entries) != 2 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	want := map[string]string{"asset": "BTC", "price": "67000.125", "volume": "0.0000001", "time": "1795253400123"}
	if d := cmp.Diff(want, entries[0].Fields); d != "" {
		t.Errorf("entry (-want +got):\n%s", d)
	}
	if end, err := m.TicksEnd(ctx, marketdata.GivenTicks); end != entries[1].Position || err != nil {
		t.Errorf("end is %v, %v", end, err)
	}
	rest, more, err := m.ReadTicks(ctx, marketdata.GivenTicks, entries[1].Position, 10*time.Millisecond)
	if len(rest) != 0 || more || err != nil {
		t.Errorf("%d entries after the end, more: %v, %v", len(rest), more, err)
	}

	// Old entries are dropped unless they are not processed yet.
	now := time.Now()
	old := now.Add(-time.Hour)
	for i := range 1000 {
		id := strconv.FormatInt(old.UnixMilli()+int64(i), 10)
		entry := &redis.XAddArgs{Stream: "other", ID: id, Values: []string{"a", "b"}}
		storetest.Must(t, rdb.XAdd(ctx, entry).Err())
	}
	rdb.Rename(ctx, "other", m.Feed.s.MarketTicksKey())
	storetest.Must(t, m.Trim(ctx, now, signal.Position{MS: old.UnixMilli() - 1}, now))
	if n := rdb.XLen(ctx, m.Feed.s.MarketTicksKey()).Val(); n != 1000 {
		t.Errorf("%d ticks are left of 1000 that are not processed", n)
	}
	storetest.Must(t, m.Trim(ctx, now, signal.Position{MS: old.UnixMilli() + 999}, now))
	if n := rdb.XLen(ctx, m.Feed.s.MarketTicksKey()).Val(); n > 100 { // trimming leaves a node of the stream
		t.Errorf("%d old ticks are left", n)
	}

	for range 3 {
		rdb.XAdd(ctx, &redis.XAddArgs{Stream: m.Feed.s.MarketBarsKey(), Values: []string{"a", "b"}})
	}
	bars, _, err := m.ReadBars(ctx, signal.Position{}, 0)
	if err != nil || len(bars) != 3 {
		t.Fatalf("%d bars, %v", len(bars), err)
	}
	storetest.Must(t, m.TrimBars(ctx, bars[1].Position))
	if left, _, err := m.ReadBars(ctx, signal.Position{}, 0); len(left) != 1 || left[0].Position != bars[2].Position {
		t.Errorf("%d bars are left, %v", len(left), err)
	}
}

// A writer with ids of its own may begin a stream again between a read and the trimming up to it.
func TestTrimmingKeepsStreamsThatBeginAgain(t *testing.T) {
	t.Parallel()
	m, rdb, _ := newMarketBench(t)
	ctx, now := t.Context(), time.Now()
	processed := signal.Position{MS: now.UnixMilli()}
	for key, trim := range map[string]func() error{
		m.Feed.s.MarketTicksKey(): func() error { return m.Trim(ctx, now, processed, now) },
		m.Feed.s.MarketBarsKey():  func() error { return m.TrimBars(ctx, processed) },
	} {
		const count = 1000 // several nodes of the stream
		write := func(first int64) {
			t.Helper()
			for i := range int64(count) {
				entry := &redis.XAddArgs{Stream: key, ID: strconv.FormatInt(first+i, 10), Values: []string{"a", "b"}}
				storetest.Must(t, rdb.XAdd(ctx, entry).Err())
			}
		}
		write(1)
		storetest.Must(t, trim())
		if n := rdb.XLen(ctx, key).Val(); n != count {
			t.Errorf("%d entries of %s are left, want %d, which are not read yet", n, key, count)
		}
		write(processed.MS)
		storetest.Must(t, trim())
		if n := rdb.XLen(ctx, key).Val(); n >= 2*count-100 {
			t.Errorf("%d entries of %s are left after all are read", n, key)
		}
	}
}

// A round is read as its ticks, bit for bit as they were written.
func TestRoundsAreReadAsTheirTicks(t *testing.T) {
	t.Parallel()
	m, rdb, epoch := newMarketBench(t)
	ctx := t.Context()
	const at = 1_795_253_400_123
	tick := func(asset, source string, price, volume float64, time, missed int64) marketdata.AssetTick {
		return marketdata.AssetTick{Asset: asset, Source: source, Missed: missed,
			Tick: marketdata.Tick{Price: price, Volume: volume, Time: time}}
	}
	round := []marketdata.AssetTick{
		tick("BTC", "simulated", 67000.125, 23.661108, at, 0),
		tick("natural_gas", "simulated", 3.5348871, 0, at, at-60_000),
		tick("ETH", "binance", 1.0/3, 1e22, at-250, 0),
		tick("Ä b", "simulated", 1e-9, 123456789012345678, at+50, 0),
		tick("X", "binance", 1e12, math.MaxFloat64, 0, 1),
		tick("Y", "binance", 999999999999999, 0.0000000000000000000001, at, 0),
		tick("Z", "binance", 1000000000000001, 2.5e-23, at, 0),
	}
	single := []marketdata.AssetTick{tick("BTC", "simulated", 67000.5, 1, at+100, 0)}
	for _, err := range []error{
		m.AppendRound(ctx, epoch, nil), m.AppendRound(ctx, epoch, round), m.AppendRound(ctx, epoch, single),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	rdb.XAdd(ctx, &redis.XAddArgs{Stream: m.Feed.s.MarketOwnTicksKey(), Values: []string{"r", "damaged"}})
	if n := rdb.XLen(ctx, m.Feed.s.MarketOwnTicksKey()).Val(); n != 3 {
		t.Errorf("%d entries, want 3", n)
	}
	entries := ownTicks(t, m, signal.Position{})
	if len(entries) != len(round)+2 {
		t.Fatalf("%d entries", len(entries))
	}
	for i := range round {
		if e := &entries[i]; e.Position != entries[0].Position || e.Tick == nil || *e.Tick != round[i] {
			t.Errorf("tick %d is %+v of %v, want %+v", i, e.Tick, e.Position, round[i])
		}
	}
	rest := entries[len(round):]
	if rest[0].Tick == nil || *rest[0].Tick != single[0] || rest[1].Tick != nil {
		t.Errorf("after the round: %+v", rest)
	}
	if rest := ownTicks(t, m, entries[0].Position); len(rest) != 2 {
		t.Errorf("%d entries after the round", len(rest))
	}
	err := m.AppendRound(ctx, epoch+1, round)
	storetest.WantKind(t, "a round of another feeder", err, signal.KindConflict)

	// One that names "r" in the stream of others is no round.
	rdb.XAdd(ctx, &redis.XAddArgs{Stream: m.Feed.s.MarketTicksKey(), Values: []any{"r", packRound(round)}})
	given, _, err := m.ReadTicks(ctx, marketdata.GivenTicks, signal.Position{}, 0)
	if len(given) != 1 || given[0].Tick != nil || err != nil {
		t.Errorf("a round from outside is read as %+v, %v", given, err)
	}
}

// ownTicks reads the feeder's stream after a position to its end.
func ownTicks(t *testing.T, m *Store, after signal.Position) []marketdata.Entry {
	t.Helper()
	var all []marketdata.Entry
	for {
		ticks, more, err := m.ReadTicks(t.Context(), marketdata.OwnTicks, after, 0)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(ticks); n > 0 {
			after = ticks[n-1].Position
		}
		if all = append(all, ticks...); !more {
			return all
		}
	}
}

// However large the rounds are, a read has readMax ticks and the rest of a round at most, and few reads have less.
func TestReadsOfRoundsAreBounded(t *testing.T) {
	t.Parallel()
	m, _, epoch := newMarketBench(t)
	ctx := t.Context()
	written := int64(0) // ticks; each has its number as its time
	write := func(rounds, size int) {
		for range rounds {
			ticks := make([]marketdata.AssetTick, size)
			for i := range ticks {
				written++
				ticks[i] = marketdata.AssetTick{Asset: "A" + strconv.Itoa(i), Source: "simulated",
					Tick: marketdata.Tick{Price: 1 + float64(i)/100, Time: written}}
			}
			storetest.Must(t, m.AppendRound(ctx, epoch, ticks))
		}
	}
	write(50, 400)  // of hundreds of assets
	write(500, 17)  // of the simulated market
	write(3000, 1)  // of one asset
	write(3, 5000)  // larger than the feeder writes
	write(60, 1000) // after a takeover
	write(100, 1)
	var after signal.Position
	number, reads, largest := int64(0), 0, 0
	for more := true; more; reads++ {
		var ticks []marketdata.Entry
		var err error
		if ticks, more, err = m.ReadTicks(ctx, marketdata.OwnTicks, after, 0); err != nil {
			t.Fatal(err)
		}
		largest = max(largest, len(ticks))
		for i := range ticks {
			number++
			if e := &ticks[i]; e.Tick == nil || e.Tick.Time != number {
				t.Fatalf("tick %d is %+v", number, e)
			}
			after = ticks[i].Position
		}
	}
	if number != written {
		t.Errorf("%d ticks were read, want %d", number, written)
	}
	if largest >= readMax+5000 {
		t.Errorf("a read has %d ticks", largest)
	}
	if most := int(2*written/readMax) + 5; reads > most {
		t.Errorf("%d reads of %d ticks, want %d at most", reads, written, most)
	}

	// After small rounds a read asks for more rounds than it may return, and reads the others again.
	write(3000, 1)
	ownTicks(t, m, after)
	after, _ = m.TicksEnd(ctx, marketdata.OwnTicks)
	before := written
	write(20, 1000)
	ticks, more, err := m.ReadTicks(ctx, marketdata.OwnTicks, after, 0)
	if len(ticks) != readMax || !more || err != nil {
		t.Errorf("%d ticks of rounds after small ones, more: %v, %v", len(ticks), more, err)
	}
	if n := int64(len(ownTicks(t, m, after))); n != written-before {
		t.Errorf("%d ticks of these rounds were read, want %d", n, written-before)
	}
	if n := m.rounds.Load(); n != readMax/1000 {
		t.Errorf("the next read asks for %d rounds", n)
	}
}

// more depends on the entries that were read: an unreadable item of news counts, and the last tick of a large round
// is the end of the stream.
func TestReadsReportWhetherThereIsMore(t *testing.T) {
	t.Parallel()
	m, rdb, epoch := newMarketBench(t)
	ctx := t.Context()
	p := rdb.Pipeline()
	for i := range readMax + 1 {
		item := packNews(&marketdata.NewsItem{ID: strconv.Itoa(i)})
		if i == 5 {
			item = []byte("damaged")
		}
		p.XAdd(ctx, &redis.XAddArgs{Stream: m.Feed.s.MarketNewsKey(), Values: []any{"d", item}})
	}
	if _, err := p.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	_, news, _, to, more, err := m.Follow(ctx, signal.Position{}, signal.Position{}, 0)
	if len(news) != readMax-1 || !more || err != nil {
		t.Errorf("%d items, more: %v, %v", len(news), more, err)
	}
	if _, news, _, _, more, err = m.Follow(ctx, signal.Position{}, to, 0); len(news) != 1 || more || err != nil {
		t.Errorf("then %d items, more: %v, %v", len(news), more, err)
	}

	m.rounds.Store(1) // as after a read of such rounds
	round := make([]marketdata.AssetTick, readMax)
	storetest.Must(t, m.AppendRound(ctx, epoch, round))
	ticks, more, err := m.ReadTicks(ctx, marketdata.OwnTicks, signal.Position{}, 0)
	if len(ticks) != readMax || more || err != nil {
		t.Errorf("a round of %d ticks is read as %d, more: %v, %v", readMax, len(ticks), more, err)
	}
}

func TestDamagedClosedBarsHaveNoCount(t *testing.T) {
	t.Parallel()
	good := marketBar(1, 6)
	for name, values := range map[string]map[string]any{
		"cut short": {"n": "5", "a": "BTC", "t": "1h", "b": string(packBar(&good)[:20])},
		"no count":  {"a": "BTC", "t": "1h", "b": string(packBar(&good))},
	} {
		if c := closedBar(values); c.Count != 0 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func FuzzMarketRecords(f *testing.F) {
	bar := marketBar(3, 7)
	f.Add(packBar(&bar))
	f.Add(packAsset(&marketdata.Asset{Symbol: "BTC", Class: "crypto", TickSize: .001, Speed: 60, AlwaysOpen: true}))
	f.Add(packLive(&marketdata.Live{Last: marketdata.Tick{Price: 1, Time: 2}, Minute: bar.Bar}))
	f.Add(packNews(&marketdata.NewsItem{ID: "1", Headline: "x", Symbols: []string{"BTC", ""}}))
	f.Add(packListing([]string{"BTCUSDT", "ETHUSDT", ""}))
	f.Add(packRound([]marketdata.AssetTick{{Asset: "BTC", Source: "simulated", Missed: 3,
		Tick: marketdata.Tick{Price: 67000.5, Volume: 1.0 / 3, Time: 5}}}))
	f.Add([]byte{})
	// What can be read is written again as the same bytes.
	f.Fuzz(func(t *testing.T, data []byte) {
		if b, err := unpackBar(string(data)); err == nil && string(packBar(&b)) != string(data) {
			t.Errorf("bar %+v", b)
		}
		if l, err := unpackLive("BTC", string(data)); err == nil && string(packLive(&l)) != string(data) {
			t.Errorf("live %+v", l)
		}
		if a, err := unpackAsset(string(data)); err == nil {
			again, err := unpackAsset(string(packAsset(&a)))
			if err != nil || string(packAsset(&again)) != string(packAsset(&a)) {
				t.Errorf("asset %+v, %v", again, err)
			}
		}
		if l, err := unpackListing(string(data)); err == nil {
			if again, err := unpackListing(string(packListing(l))); err != nil || !slices.Equal(again, l) {
				t.Errorf("listing %q, %v", again, err)
			}
		}
		if r, err := unpackRound(string(data)); err == nil && len(r) > 0 {
			again, err := unpackRound(string(packRound(r)))
			if err != nil || string(packRound(again)) != string(packRound(r)) {
				t.Errorf("round %+v, %v", again, err)
			}
		}
		if n, err := unpackNews(string(data)); err == nil {
			again, err := unpackNews(string(packNews(&n)))
			if err != nil || string(packNews(&again)) != string(packNews(&n)) {
				t.Errorf("news %+v, %v", again, err)
			}
		}
	})
}

func TestMarketWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	m := New(storetest.Client(t, redisclient.Options{URL: server.URL()}))
	server.Kill()
	ctx, series := t.Context(), []marketdata.Series{{Asset: "BTC", Timeframe: signal.H1}}
	for name, ask := range map[string]func() error{
		"TakeLease":    func() error { _, _, err := m.TakeLease(ctx, "node", time.Minute); return err },
		"RenewLease":   func() error { return m.RenewLease(ctx, "node", 1, time.Minute) },
		"ReleaseLease": func() error { return m.ReleaseLease(ctx, "node", 1) },
		"State":        func() error { _, err := m.State(ctx); return err },
		"Store":        func() error { return m.Store(ctx, &marketdata.Step{}) },
		"Fill":         func() error { return m.Fill(ctx, 1, series) },
		"AppendRound":  func() error { return m.AppendRound(ctx, 1, []marketdata.AssetTick{{Asset: "BTC"}}) },
		"Trim":         func() error { return m.Trim(ctx, time.Now(), signal.Position{}, time.Now()) },
		"TrimBars":     func() error { return m.TrimBars(ctx, signal.Position{}) },
		"EachRecent": func() error {
			return m.EachRecent(ctx, []string{"BTC"}, signal.H1, 1, func(string, []marketdata.AssetBar) {})
		},
		"Bars":      func() error { _, _, err := m.Bars(ctx, "BTC", signal.H1); return err },
		"Asset":     func() error { _, _, err := m.Asset(ctx, "BTC"); return err },
		"GiveTicks": func() error { return m.GiveTicks(ctx, []marketdata.AssetTick{{Asset: "BTC"}}) },
		"ReadTicks": func() error {
			_, _, err := m.ReadTicks(ctx, marketdata.OwnTicks, signal.Position{}, time.Second)
			return err
		},
		"TicksEnd":  func() error { _, err := m.TicksEnd(ctx, marketdata.GivenTicks); return err },
		"FollowEnd": func() error { _, _, _, err := m.FollowEnd(ctx); return err },
		"Follow": func() error {
			_, _, _, _, _, err := m.Follow(ctx, signal.Position{}, signal.Position{}, time.Second)
			return err
		},
	} {
		storetest.WantKind(t, name, ask(), signal.KindUnavailable)
	}
}

// A count in a damaged record is refused before memory is allocated for it, since each item takes
// at least a byte.
func TestCountsOfMarketRecordsAreBounded(t *testing.T) {
	t.Parallel()
	for claimed, want := range map[byte]int{2: 2, 3: 0, 127: 0} {
		r := recordReader{codec.NewDecoder([]byte{claimed, 'a', 'b'})}
		if got := r.length(); got != want || (r.Err != nil) != (want == 0) {
			t.Errorf("%d items in 2 bytes: read as %d, %v", claimed, got, r.Err)
		}
	}
}

// EndBlocking ends the reads that wait, while other commands still work.
func TestEndBlocking(t *testing.T) {
	t.Parallel()
	m, _, _ := newMarketBench(t)
	ended := make(chan error)
	go func() {
		for {
			if _, _, err := m.ReadBars(t.Context(), signal.Position{}, redisclient.BlockTimeout); err != nil {
				ended <- err
				return
			}
		}
	}()
	storetest.Must(t, m.Feed.s.EndBlocking())
	if err := <-ended; !errors.Is(err, redis.ErrClosed) && !errors.Is(err, net.ErrClosed) {
		t.Errorf("a read that waited ended with %v", err)
	}
	if err := m.Feed.s.SyncClock(t.Context()); err != nil {
		t.Errorf("after it: %v", err)
	}
}

// TestFeederEpochIsNewAfterDataLoss: with the same epoch the former feeder could still store.
func TestFeederEpochIsNewAfterDataLoss(t *testing.T) {
	t.Parallel()
	m, rdb, first := newMarketBench(t)
	storetest.Must(t, rdb.Set(t.Context(), m.Feed.s.FeederEpochKey(), first-1, 0).Err())
	rdb.Del(t.Context(), m.Feed.s.FeederKey())
	redistest.Eventually(t, func() bool { return rdb.Time(t.Context()).Val().UnixMilli() > first })
	second, _, err := m.TakeLease(t.Context(), "other", time.Minute)
	if err != nil || second <= first {
		t.Errorf("epoch %d after %d, %v", second, first, err)
	}
	err = m.Store(t.Context(), &marketdata.Step{Epoch: first, Checkpoint: []byte("x")})
	storetest.WantKind(t, "a step of the feeder from before the loss", err, signal.KindConflict)
}

// Redis' clock may be behind the last epoch, for example after a failover.
func TestFeederEpochsAscendWithSlowClock(t *testing.T) {
	t.Parallel()
	m, rdb, _ := newMarketBench(t)
	ahead := time.Now().Add(time.Hour).UnixMilli()
	rdb.Set(t.Context(), m.Feed.s.FeederEpochKey(), ahead, 0)
	for i := range int64(2) {
		if epoch, _, err := m.TakeLease(t.Context(), "node", time.Minute); epoch != ahead+1+i || err != nil {
			t.Errorf("the feeder's epoch is %d, %v; want %d", epoch, err, ahead+1+i)
		}
	}
}

func TestStoreInProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, 10, map[string][]string{
		"it stops the server": {"TestMarketWithoutRedis"},
		"XINFO of the store in the process has no first entry": {"TestTicksThatWereTrimmedOrLostAreNotKept"},
	})
}

func TestMain(m *testing.M) { storetest.Main(m) }
