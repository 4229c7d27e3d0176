package feeder

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

var errStoreAway = errors.New("store is away")

// stepStore keeps the steps that leaderships store. Other methods of Records are not called.
type stepStore struct {
	Records
	steps  []marketdata.Step
	fails  int  // the number, from 1, of the write that fails; 0: none
	taken  bool // the lease, by another node
	writes int  // of all kinds
	ticks  []marketdata.AssetTick
}

func (s *stepStore) RenewLease(context.Context, string, int64, time.Duration) error {
	if s.taken {
		return &signal.Error{Kind: signal.KindConflict, Code: signal.CodeNotOwner}
	}
	return nil
}

func (s *stepStore) Store(_ context.Context, step *marketdata.Step) error {
	s.writes++
	if s.writes == s.fails {
		return errStoreAway
	}
	kept := *step
	kept.Closed, kept.Live = slices.Clone(step.Closed), slices.Clone(step.Live)
	s.steps = append(s.steps, kept)
	return nil
}

func (s *stepStore) AppendRound(_ context.Context, _ int64, ticks []marketdata.AssetTick) error {
	s.writes++
	s.ticks = append(s.ticks, ticks...)
	return nil
}

func (s *stepStore) Trim(context.Context, time.Time, signal.Position, time.Time) error { return nil }
func (s *stepStore) TrimBars(context.Context, signal.Position) error                   { return nil }
func (s *stepStore) Fill(context.Context, int64, []marketdata.Series) error            { return nil }

// State implements Records.
func (s *stepStore) State(context.Context) (marketdata.State, error) {
	var state marketdata.State
	live := make(map[string]marketdata.Live)
	for i := range s.steps {
		state.Ticks, state.Bars = s.steps[i].Ticks, s.steps[i].Bars
		state.Assets = append(state.Assets, s.steps[i].Assets...)
		for _, l := range s.steps[i].Live {
			live[l.Asset] = l
		}
	}
	for _, l := range live {
		state.Live = append(state.Live, l)
	}
	return state, nil
}

// EachRecent implements Records.
func (s *stepStore) EachRecent(_ context.Context, _ []string, tf signal.Timeframe, _ int,
	f func(string, []marketdata.AssetBar)) error {
	if bars := s.closed(tf); len(bars) > 0 {
		f(bars[0].Asset, bars)
	}
	return nil
}

// closed returns the bars of a timeframe in the order in which they were stored.
func (s *stepStore) closed(tf signal.Timeframe) []marketdata.AssetBar {
	var bars []marketdata.AssetBar
	for i := range s.steps {
		for _, b := range s.steps[i].Closed {
			if b.Timeframe == tf {
				bars = append(bars, b)
			}
		}
	}
	return bars
}

// newStreamLeadership returns a leadership for prices from outside, at a clock.
func newStreamLeadership(t *testing.T, store Records, c *markettest.Clock) *leadership {
	t.Helper()
	return newLeadership(newFeeder(t, store, Options{Node: "n1", Sources: source.Stream, Now: c.Now}), 1, c.Now())
}

// giveMinutes gives an asset twenty bars of 1m around 100 that end at a time.
func giveMinutes(a *assetState, end int64) {
	for open := end - 20*60_000; open < end; open += 60_000 {
		bar := markettest.FlatBar(open, 60_000, 100)
		bar.High, bar.Low = 101, 99
		a.builder.give(marketdata.AssetBar{Timeframe: signal.M1, Given: true, Bar: bar})
	}
}

// checkMinute checks that the only stored bar of 1m is one of X.
func (s *stepStore) checkMinute(t *testing.T, bar marketdata.Bar) {
	t.Helper()
	want := []marketdata.AssetBar{{Asset: "X", Timeframe: signal.M1, Bar: bar}}
	if d := cmp.Diff(want, s.closed(signal.M1)); d != "" {
		t.Errorf("bars (-want +got):\n%s", d)
	}
}

// traded returns the entry of a tick of X.
func traded(ms int64, price float64) marketdata.Entry {
	fields := map[string]string{"asset": "X", "price": strconv.FormatFloat(price, 'f', -1, 64), "volume": "1"}
	return marketdata.Entry{Position: signal.Position{MS: ms}, Fields: fields}
}

// minuteClock returns a new clock, and the minute at which it stands.
func minuteClock() (*markettest.Clock, int64) {
	c := markettest.NewClock()
	return c, c.Now().UnixMilli()
}

func TestLeadershipEndsWithItsLease(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]time.Duration{
		"longer than the lease":    time.Minute,
		"when a renewal is due":    1250 * time.Millisecond, // a quarter of the default lease
		"while the clock was back": -time.Minute,
	} {
		c, minute := minuteClock()
		store := &stepStore{taken: true}
		lead := newStreamLeadership(t, store, c)
		lead.given.takeTicks([]marketdata.Entry{traded(minute, 10)})
		c.Add(pause)
		for range 2 { // the lease does not count as renewed
			if err := lead.turn(t.Context()); !errors.Is(err, errLeaseLost) {
				t.Errorf("%s: got %v, want %v", name, err, errLeaseLost)
			}
		}
		if store.writes != 0 {
			t.Errorf("%s: %d writes after another node took the lease", name, store.writes)
		}
	}
}

// Opening may take longer than the lease. It is canceled when the lease is lost.
func TestLeadershipEndsIfTheLeaseIsLostWhileItOpens(t *testing.T) {
	t.Parallel()
	for _, taken := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFeeder(t, &stepStore{taken: taken}, Options{Node: "n1", Sources: source.Stream})
			canceled := false
			err := (&lease{Feeder: f, epoch: 1, renewed: time.Now()}).guard(t.Context(), func(ctx context.Context) error {
				select {
				case <-ctx.Done():
					canceled = true
				case <-time.After(2 * f.o.Lease):
				}
				return ctx.Err() // as open does
			})
			if canceled != taken || errors.Is(err, errLeaseLost) != taken || !taken && err != nil {
				t.Errorf("taken %t: canceled %t, error %v", taken, canceled, err)
			}
		})
	}
}

// Ticks of the simulated market during a halt are lost.
func TestLeadershipEndsAfterAHalt(t *testing.T) {
	t.Parallel()
	c, _ := minuteClock()
	store := &stepStore{}
	lead := newStreamLeadership(t, store, c)
	lead.setMarket(simulated.New(60, 1, specsOf("BTC")))
	lead.market.Open(t.Context(), nil, 0, c.Now().UnixMilli())
	c.Add(time.Minute)
	must(t, lead.turn(t.Context()))
	c.Add(time.Minute + time.Second)
	if err := lead.turn(t.Context()); !errors.Is(err, errHalted) {
		t.Errorf("got %v, want %v", err, errHalted)
	}
}

// A bar is closed some time after its minute, so that its last ticks can arrive.
func TestBarWaitsForLateTicks(t *testing.T) {
	t.Parallel()
	c, minute := minuteClock()
	store := &stepStore{}
	lead := newStreamLeadership(t, store, c)
	turn := func(passed time.Duration, entries ...marketdata.Entry) {
		t.Helper()
		c.Add(passed)
		lead.given.takeTicks(entries)
		lead.current = c.Now().UnixMilli()
		must(t, lead.turn(t.Context()))
	}
	late := traded(minute+61_000, 12)
	late.Fields["time"] = strconv.FormatInt(minute+59_900, 10)
	turn(time.Second, traded(minute+1000, 10))
	turn(60 * time.Second)
	turn(900*time.Millisecond, late)
	if got := store.closed(signal.M1); len(got) != 0 {
		t.Fatalf("closed too early: %+v", got)
	}
	turn(time.Second)
	store.checkMinute(t, marketdata.Bar{OpenTime: minute, CloseTime: minute + 60_000,
		Open: 10, High: 12, Low: 10, Close: 12, Volume: 2})
}

// A bar is closed by what was read: while a stream is behind the clock, ticks of the minute may still come.
func TestBarWaitsUntilItsTicksAreRead(t *testing.T) {
	t.Parallel()
	c, minute := minuteClock()
	store := &stepStore{}
	lead := newStreamLeadership(t, store, c)
	c.Add(time.Hour)
	turn := func(current int64, entries ...marketdata.Entry) {
		t.Helper()
		lead.given.takeTicks(entries)
		lead.current = current
		must(t, lead.turn(t.Context()))
	}
	turn(minute+60_000+grace-1, traded(minute+1000, 10))
	if got := store.closed(signal.M1); len(got) != 0 {
		t.Fatalf("closed before its ticks were read: %+v", got)
	}
	turn(minute+60_000+grace, traded(minute+59_000, 12))
	store.checkMinute(t, marketdata.Bar{OpenTime: minute, CloseTime: minute + 60_000,
		Open: 10, High: 12, Low: 10, Close: 12, Volume: 2})
}

// A leadership that ends with its process stores a checkpoint of that moment, from which the next one continues.
func TestCheckpointIsStoredAtTheEnd(t *testing.T) {
	t.Parallel()
	c, _ := minuteClock()
	store := &stepStore{}
	lead := newStreamLeadership(t, store, c)
	lead.setMarket(simulated.New(60, 1, specsOf("BTC")))
	lead.market.Open(t.Context(), nil, 0, c.Now().UnixMilli())
	for range 2 { // the first turn stores a checkpoint, and the next one is due much later
		c.Add(2 * time.Second)
		must(t, lead.turn(t.Context()))
	}
	must(t, lead.finish())
	var stored [][]byte
	for _, s := range store.steps {
		if s.Checkpoint != nil {
			stored = append(stored, s.Checkpoint)
		}
	}
	if n := len(stored); n != 2 || !bytes.Equal(stored[1], lead.market.Checkpoint()) {
		t.Errorf("%d checkpoints are stored, want the one of the first turn and that of the end", n)
	}
}

// The open minute and the newest tick survive a change of the feeder.
func TestSuccessorContinuesTheOpenMinute(t *testing.T) {
	t.Parallel()
	c, minute := minuteClock()
	store := &stepStore{}
	first := newStreamLeadership(t, store, c)
	first.given.takeTicks([]marketdata.Entry{traded(minute+1000, 10), traded(minute+2000, 14)})
	must(t, first.finish())
	second := newStreamLeadership(t, store, c)
	must(t, second.open(t.Context()))
	if want := (signal.Position{MS: minute + 2000}); second.writer.ticksTo != want {
		t.Errorf("continues after %v, want %v", second.writer.ticksTo, want)
	}
	old := traded(minute+3000, 99)
	old.Fields["time"] = strconv.FormatInt(minute+1500, 10)
	second.given.takeTicks([]marketdata.Entry{old, traded(minute+30_000, 8)})
	c.Add(time.Minute + grace*time.Millisecond)
	second.current = c.Now().UnixMilli()
	must(t, second.turn(t.Context()))
	store.checkMinute(t, marketdata.Bar{OpenTime: minute, CloseTime: minute + 60_000,
		Open: 10, High: 14, Low: 8, Close: 8, Volume: 3})
}

// A feeder that ends within a large step has not passed the entries whose bars are not stored.
func TestPositionIsStoredWithTheLastPiece(t *testing.T) {
	t.Parallel()
	c, minute := minuteClock()
	store := &stepStore{fails: 2}
	lead := newStreamLeadership(t, store, c)
	var entries []marketdata.Entry
	for i := range int64(closedChunk + 100) {
		open := strconv.FormatInt(minute-(closedChunk+100-i)*60_000, 10)
		fields := map[string]string{"asset": "X", "timeframe": "1m", "open_time": open,
			"open": "1", "high": "2", "low": "1", "close": "2"}
		entries = append(entries, marketdata.Entry{Position: signal.Position{MS: minute, Seq: i}, Fields: fields})
	}
	lead.given.takeBars(entries)
	if err := lead.turn(t.Context()); !errors.Is(err, errStoreAway) {
		t.Fatalf("got %v, want %v", err, errStoreAway)
	}
	if len(store.steps) != 1 || len(store.steps[0].Closed) != closedChunk || !store.steps[0].Bars.IsZero() {
		t.Errorf("%d steps are stored, the first one up to %v", len(store.steps), store.steps[0].Bars)
	}
}

// A writer of the streams cannot fill the memory of the feeder with names.
func TestAssetsOfStreamsAreBounded(t *testing.T) {
	t.Parallel()
	c, _ := minuteClock()
	lead := newStreamLeadership(t, &stepStore{}, c)
	for i := range assets.Max {
		if _, skipped := lead.given.asset("A" + strconv.Itoa(i)); skipped != "" {
			t.Fatalf("asset %d is skipped for %q", i, skipped)
		}
	}
	if _, skipped := lead.given.asset("one more"); skipped != prices.SkipAssets || len(lead.assets.of) != assets.Max {
		t.Errorf("skipped for %q, %d assets", skipped, len(lead.assets.of))
	}
	if _, skipped := lead.given.asset("a7"); skipped != "" {
		t.Errorf("a known asset is skipped for %q", skipped)
	}
}

func TestFirstTickIsComparedWithTheBarBeforeIt(t *testing.T) {
	t.Parallel()
	const minute = 60_000
	for _, c := range []struct {
		name  string
		at    int64 // the first tick, after the end of the newest bar
		price float64
		want  bool
	}{
		{"near", 1, 101, true}, {"at once", 0, 99, true}, {"a jump", 1, 5e6, false}, {"a jump down", 1000, 1, false},
		{"long after", prices.BarLimit(prices.M1, 1) + 1, 5e6, true},
	} {
		states := &assetStates{of: map[string]*assetState{}, writer: &stepWriter{}}
		a := states.add(marketdata.Asset{Symbol: "A", Source: source.Stream})
		giveMinutes(a, 20*minute)
		accepted, _ := a.take(marketdata.Tick{Price: c.price, Time: 20*minute + c.at})
		if (len(accepted) == 1) != c.want {
			t.Errorf("%s: %v", c.name, accepted)
		}
	}
}

// A tick that is held before a gap is too old to be confirmed after it.
func TestJumpBeforeAGapIsNotConfirmedAfterIt(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name   string
		gap    bool
		prices []float64 // of the ticks that follow a held one at 150
		want   []float64
	}{
		{"no gap", false, []float64{151, 101}, []float64{100, 150, 151}}, // 101 is a jump again
		{"the price is back", true, []float64{151, 101}, []float64{100, 101}},
		{"the price has moved", true, []float64{151, 152}, []float64{100, 151, 152}},
	} {
		c, minute := minuteClock()
		store := &stepStore{}
		lead := newStreamLeadership(t, store, c)
		a := lead.assets.add(marketdata.Asset{Symbol: "DOGE", Source: "binance", Speed: 1})
		a.given, a.kept = true, true
		giveMinutes(a, minute)
		k := source.NewAssetFeed(source.FeedOptions{}, "DOGE", "")
		lead.kept.feeds = &feeds{kept: map[string]*keptAsset{assets.Fold("DOGE"): {AssetFeed: k}}}
		deliver := func(missed, at int64, prices ...float64) {
			t.Helper()
			d := &source.Delivery{Feed: k, Missed: missed}
			for i, price := range prices {
				d.Ticks = append(d.Ticks, marketdata.Tick{Time: at + int64(i), Price: price})
			}
			must(t, lead.kept.deliver(t.Context(), d))
		}
		deliver(0, minute+1, 100, 150)
		var missed int64
		if x.gap {
			missed = minute + 1
			deliver(missed, 0) // without ticks
		}
		deliver(0, minute+30_000, x.prices...)
		var got []float64
		for _, tick := range store.ticks {
			got = append(got, tick.Price)
		}
		if d := cmp.Diff(x.want, got); d != "" {
			t.Errorf("%s: prices (-want +got):\n%s", x.name, d)
		}
		if len(store.ticks) > 1 && store.ticks[1].Missed != missed {
			t.Errorf("%s: ticks are missing since %d, want %d", x.name, store.ticks[1].Missed, missed)
		}
	}
}

// Bars that make up for missed ticks are stored at once, before the ticks that come with them;
// other bars wait for the next step.
func TestBarsOfAGapAreStoredBeforeItsTicks(t *testing.T) {
	t.Parallel()
	for name, missed := range map[string]bool{"a gap": true, "no gap": false} {
		c, minute := minuteClock()
		store := &stepStore{}
		lead := newStreamLeadership(t, store, c)
		a := lead.assets.add(marketdata.Asset{Symbol: "DOGE", Source: "binance", Speed: 1})
		a.given, a.kept = true, true
		giveMinutes(a, minute)
		lead.writer.step = marketdata.Step{} // without the bars that were given
		k := source.NewAssetFeed(source.FeedOptions{}, "DOGE", "")
		lead.kept.feeds = &feeds{kept: map[string]*keptAsset{assets.Fold("DOGE"): {AssetFeed: k}}}
		bar := marketdata.Bar{OpenTime: minute, CloseTime: minute + 60_000, Open: 100, High: 101, Low: 99, Close: 100}
		d := &source.Delivery{Feed: k, Bars: []marketdata.Bar{bar}, UpTo: bar.CloseTime,
			Ticks: []marketdata.Tick{{Time: bar.CloseTime + 1, Price: 100}}}
		if missed {
			d.Missed = minute
		}
		must(t, lead.kept.deliver(t.Context(), d))
		stored := len(store.steps) > 0 && len(store.steps[0].Closed) > 0
		if stored != missed || len(store.ticks) != 1 {
			t.Errorf("%s: the bar is stored: %v, %d ticks", name, stored, len(store.ticks))
		}
	}
}
