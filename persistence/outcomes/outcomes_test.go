package outcomes

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func newStore(tb testing.TB, server *redistest.Server) *Store {
	tb.Helper()
	return New(storetest.Client(tb, redisclient.Options{URL: server.URL(), Partitions: 1, Timeout: time.Minute}))
}

// outcome returns the outcome of an asset at the n-th hour.
func outcome(asset string, n int) marketdata.AssetOutcome {
	const hour = 3_600_000
	bar := 1_764_000_000_000 + int64(n)*hour
	return marketdata.AssetOutcome{Asset: asset, Outcome: marketdata.Outcome{Bar: bar, Ended: bar + 49*hour,
		Bins: [3]uint8{uint8(n % 64), 63, 0}, R: [2][3]int8{{0, maxR, -maxR}, {int8(n % maxR), -1, 1}}}}
}

func outcomesOf(asset string, from, to int) (list []marketdata.AssetOutcome) {
	for n := from; n < to; n++ {
		list = append(list, outcome(asset, n))
	}
	return list
}

func appendAll(tb testing.TB, o *Store, tf signal.Timeframe, list []marketdata.AssetOutcome) {
	tb.Helper()
	for batch := range slices.Chunk(list, MaxBatch) {
		storetest.Must(tb, o.Append(tb.Context(), tf, batch))
	}
}

// stripped returns outcomes without the time at which they were stored, which it checks.
func stripped(t *testing.T, list []marketdata.AssetOutcome) []marketdata.AssetOutcome {
	t.Helper()
	list = slices.Clone(list)
	for i := range list {
		if age := time.Since(time.UnixMilli(list[i].At)); age < -time.Minute || age > time.Hour {
			t.Errorf("outcome %d was stored %v ago", i, age)
		}
		list[i].At = 0
	}
	return list
}

// TestOutcomesAreStoredOnce has two nodes append the same and overlapping outcomes.
func TestOutcomesAreStoredOnce(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	first, second := newStore(t, server), newStore(t, server)
	appendAll(t, first, signal.H1, outcomesOf("simulated*60/BTC", 0, 700))
	appendAll(t, second, signal.H1, outcomesOf("simulated*60/BTC", 0, 650))
	appendAll(t, second, signal.H1, []marketdata.AssetOutcome{outcome("A", 3), outcome("A", 3), outcome("A", 2),
		outcome("simulated*60/BTC", 700), outcome("A", 4)})
	appendAll(t, first, signal.M1, outcomesOf("B", 0, 2))
	appendAll(t, first, signal.M1, nil)
	want := append(outcomesOf("simulated*60/BTC", 0, 700), outcome("A", 3), outcome("simulated*60/BTC", 700),
		outcome("A", 4))
	all, whole, err := second.All(t.Context(), signal.H1)
	if err != nil || !whole {
		t.Fatalf("whole %v, %v", whole, err)
	}
	if diff := cmp.Diff(want, stripped(t, all)); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	found, to, err := first.Follow(t.Context(), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, stripped(t, found[signal.H1])); diff != "" {
		t.Errorf("followed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(outcomesOf("B", 0, 2), stripped(t, found[signal.M1])); diff != "" {
		t.Errorf("followed 1m (-want +got):\n%s", diff)
	}
	if ends, err := first.Ends(t.Context()); err != nil || ends[signal.H1] != to[signal.H1] ||
		!ends[signal.D1].IsZero() {
		t.Errorf("the ends are %v, read up to %v, %v", ends, to, err)
	}
	if found, _, err := first.Follow(t.Context(), to, 0); err != nil || len(found) != 0 {
		t.Errorf("after the end: %v, %v", found, err)
	}
	if err := first.Append(t.Context(), signal.H1, outcomesOf("C", 0, MaxBatch+1)); err == nil ||
		!strings.Contains(err.Error(), "at most 500") {
		t.Errorf("a batch that is too long: %v", err)
	}
}

// TestFollowWaits checks that a read returns an outcome appended while it waits.
func TestFollowWaits(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	o, other := newStore(t, server), newStore(t, server)
	done := make(chan error, 1)
	go func() { done <- other.Append(t.Context(), signal.D1, outcomesOf("A", 1, 2)) }()
	var found []marketdata.AssetOutcome
	for deadline := time.Now().Add(time.Minute); len(found) == 0 && time.Now().Before(deadline); {
		read, _, err := o.Follow(t.Context(), nil, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		found = read[signal.D1]
	}
	if err := <-done; err != nil || len(found) != 1 {
		t.Errorf("found %v, %v", found, err)
	}
}

// TestAssetsAreBounded checks that an asset without outcomes for long makes room.
func TestAssetsAreBounded(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	o := newStore(t, server)
	var list []marketdata.AssetOutcome
	for n := range maxAssets + 10 {
		list = append(list, outcome(fmt.Sprint("A", n), n))
	}
	appendAll(t, o, signal.H1, list)
	newest := server.Client().HGetAll(t.Context(), o.s.MarketOutcomeBarsKey(signal.H1)).Val()
	if len(newest) != maxAssets || newest["A9"] != "" || newest["A10"] == "" {
		t.Errorf("%d assets are known, A9 %q, A10 %q", len(newest), newest["A9"], newest["A10"])
	}
}

// TestUnreadableOutcomesAreSkipped checks that a damaged entry hides no other one.
func TestUnreadableOutcomesAreSkipped(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	o := newStore(t, server)
	appendAll(t, o, signal.H1, outcomesOf("A", 0, 1))
	later := outcome("B", 1)
	later.R[1][2] = maxR + 1
	for _, packed := range []string{"", "\x01later", string(pack(&later.Outcome)), "\x02short"} {
		server.Client().XAdd(t.Context(), &redis.XAddArgs{Stream: o.s.MarketOutcomesKey(signal.H1),
			Values: []any{"a", "B", "o", packed}})
	}
	appendAll(t, o, signal.H1, outcomesOf("A", 1, 2))
	if all, _, err := o.All(t.Context(), signal.H1); err != nil || len(all) != 2 {
		t.Errorf("read %v, %v", all, err)
	}
}

// TestOldOutcomesAreTrimmed fills the stream beyond its limit.
func TestOldOutcomesAreTrimmed(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	o := newStore(t, server)
	const n = MaxStored + 3000
	appendAll(t, o, signal.M1, outcomesOf("simulated*60/EURUSD", 0, n))
	all, whole, err := o.All(t.Context(), signal.M1)
	if err != nil || whole || len(all) < MaxStored || len(all) > MaxStored+500 {
		t.Fatalf("%d are kept, whole %v, %v", len(all), whole, err)
	}
	if last := all[len(all)-1]; last.Bar != outcome("", n-1).Bar {
		t.Errorf("the newest is %+v", last)
	}
	bytes := server.Client().MemoryUsage(t.Context(), o.s.MarketOutcomesKey(signal.M1), 0).Val()
	t.Logf("%d outcomes take %d bytes, %.1f each", len(all), bytes, float64(bytes)/float64(len(all)))
	if bytes > 12<<20 {
		t.Errorf("%d outcomes take %d bytes", len(all), bytes)
	}
}

func FuzzUnpack(f *testing.F) {
	for n := range 3 {
		o := outcome("A", n)
		f.Add(pack(&o.Outcome))
	}
	f.Add([]byte{version})
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := unpack(b)
		if err != nil {
			return
		}
		again, err := unpack(pack(&o))
		if err != nil || again != o {
			t.Errorf("%+v becomes %+v, %v", o, again, err)
		}
	})
}

// BenchmarkRead measures what a node that starts reads first.
func BenchmarkRead(b *testing.B) {
	o := newStore(b, redistest.New(b))
	for n := 0; n < MaxStored; n += MaxBatch {
		appendAll(b, o, signal.H1, outcomesOf("simulated*60/BTC", n, n+MaxBatch))
	}
	for b.Loop() {
		if all, _, err := o.All(b.Context(), signal.H1); err != nil || len(all) < MaxStored {
			b.Fatal(len(all), err)
		}
	}
}

// TestOutcomesThatBeginAgain checks that a read beyond the end of a stream fails, since it would wait for long.
func TestOutcomesThatBeginAgain(t *testing.T) {
	t.Parallel()
	o := newStore(t, redistest.New(t))
	appendAll(t, o, signal.H1, outcomesOf("A", 0, 2))
	_, to, err := o.Follow(t.Context(), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	beyond := map[signal.Timeframe]signal.Position{signal.H1: to[signal.H1].Plus(1), signal.D1: to[signal.H1]}
	if _, _, err := o.Follow(t.Context(), beyond, 0); !errors.Is(err, marketdata.ErrRestarted) {
		t.Errorf("beyond the end: %v", err)
	}
	beyond[signal.H1] = to[signal.H1]
	if _, _, err := o.Follow(t.Context(), beyond, 0); err != nil {
		t.Errorf("of a stream that does not exist: %v", err)
	}
	// A stream that a consumer has made has nothing to read yet.
	storetest.Must(t, o.s.RDB.XGroupCreateMkStream(t.Context(), o.s.MarketOutcomesKey(signal.D1), "readers", "$").Err())
	if _, _, err := o.Follow(t.Context(), beyond, 0); err != nil {
		t.Errorf("of an empty stream: %v", err)
	}
}

func TestTheStoreInsideAProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, 4, map[string][]string{
		"it is too slow for as much": {"TestOldOutcomesAreTrimmed"},
	})
}

func TestMain(m *testing.M) { storetest.Main(m) }
