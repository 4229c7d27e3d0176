package limits

import (
	stdcmp "cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fakeStore holds buckets like the real store, by the clock of the bubble.
type fakeStore struct {
	mu    sync.Mutex
	full  map[string]time.Time
	calls int
	wants []int
	err   error
	delay time.Duration
}

func (f *fakeStore) TakeTokens(ctx context.Context, class, who string, quota int, period time.Duration,
	want, back int) (int, time.Duration, error) {
	f.mu.Lock()
	f.calls++
	delay := f.delay
	f.mu.Unlock()
	time.Sleep(delay)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := stdcmp.Or(f.err, ctx.Err()); err != nil {
		return 0, 0, err
	}
	if f.full == nil {
		f.full = map[string]time.Time{}
	}
	f.wants = append(f.wants, want)
	each, now, key := float64(period)/float64(quota), time.Now(), class+":"+who
	full := f.full[key].Add(-time.Duration(each * float64(back)))
	if full.Before(now) {
		full = now
	} else if longest := now.Add(period); full.After(longest) {
		full = longest
	}
	given := max(0, min(want, int(math.Floor(float64(period-full.Sub(now))/each+1e-6))))
	full = full.Add(time.Duration(each * float64(given)))
	f.full[key] = full
	return given, full.Sub(now), nil
}

// A client that leaves while its request is being counted does not end the request to
// the store, after which this process would count alone for a while.
func TestAClientThatLeavesDoesNotStopTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{delay: 100 * time.Millisecond}
		l := New(store, Options{Quotas: tenAnHour})
		ctx, leave := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer leave()
		l.Take(ctx, Runs, "acc_1")
		time.Sleep(200 * time.Millisecond)
		store.counted()
		l.Take(t.Context(), Runs, "acc_2")
		if n := store.counted(); n != 1 || l.failing.Load() {
			t.Errorf("the store is asked %d times for the next one, failing: %v; want once, and no failure", n,
				l.failing.Load())
		}
	})
}

// set changes how the store answers.
func (f *fakeStore) set(err error, delay time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.delay = err, delay
}

// counted returns the number of requests to the store since the last call.
func (f *fakeStore) counted() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.calls
	f.calls = 0
	return n
}

// owed returns the number of used tokens of a bucket.
func (f *fakeStore) owed(key string, q Quota) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return int(math.Round(float64(time.Until(f.full[key])) / q.each()))
}

var tenAnHour = Quotas{Runs: {10, time.Hour}, Reads: {3000, time.Hour}, Writes: {}, Failures: {5, time.Hour}}

func TestQuotaIsAllowedAtOnceAndNoMore(t *testing.T) {
	for _, with := range []string{"store", "no store"} {
		t.Run(with, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var store Store
				if with == "store" {
					store = &fakeStore{}
				}
				l := New(store, Options{Quotas: tenAnHour})
				for i := range 10 {
					d := l.Take(t.Context(), Runs, "acc_1")
					want := Decision{Class: Runs, Allowed: true, Limit: 10, Window: time.Hour, Remaining: 9 - i,
						Reset: time.Duration(i+1) * 6 * time.Minute}
					if i == 9 {
						want.Reset = 6 * time.Minute // until the next one
					}
					if diff := cmp.Diff(want, d); diff != "" {
						t.Errorf("request %d (-want +got):\n%s", i+1, diff)
					}
				}
				want := Decision{Class: Runs, Limit: 10, Window: time.Hour, Reset: 6 * time.Minute,
					RetryAfter: 6 * time.Minute}
				if diff := cmp.Diff(want, l.Take(t.Context(), Runs, "acc_1")); diff != "" {
					t.Errorf("request 11 (-want +got):\n%s", diff)
				}
				if d := l.Take(t.Context(), Runs, "acc_2"); !d.Allowed {
					t.Error("another account is refused")
				}
				if d := l.Take(t.Context(), Reads, "acc_1"); !d.Allowed {
					t.Error("another class is refused")
				}
				time.Sleep(6*time.Minute - time.Millisecond)
				if d := l.Take(t.Context(), Runs, "acc_1"); d.Allowed {
					t.Error("a token comes early")
				}
				time.Sleep(time.Millisecond)
				if d := l.Take(t.Context(), Runs, "acc_1"); !d.Allowed || d.Remaining != 0 {
					t.Errorf("after 6 minutes: %+v", d)
				}
				time.Sleep(2 * time.Hour)
				if d := l.Take(t.Context(), Runs, "acc_1"); d.Remaining != 9 {
					t.Errorf("after 2 hours %d remain, want 9", d.Remaining)
				}
			})
		})
	}
}

func TestLeasedTokensCostNoQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		l := New(store, Options{Quotas: tenAnHour})
		for i := range 3000 {
			if d := l.Take(t.Context(), Reads, "acc_1"); !d.Allowed || d.Remaining != 2999-i {
				t.Fatalf("request %d: %+v", i+1, d)
			}
		}
		if d := l.Take(t.Context(), Reads, "acc_1"); d.Allowed {
			t.Error("more than the quota is allowed")
		}
		most := 0
		for _, n := range store.wants {
			most = max(most, n)
		}
		if store.wants[0] != 1 || most != 150 {
			t.Errorf("leases begin with %d and grow to %d, want 1 and 150 (5 %%)", store.wants[0], most)
		}
		// 1, 2, 4 … 128 and then 150 each, and one more request that gets no token.
		if n := store.counted(); n > 30 {
			t.Errorf("%d questions for 3001 requests", n)
		}
		for range 100 {
			l.Take(t.Context(), Reads, "acc_1")
		}
		if n := store.counted(); n != 0 {
			t.Errorf("%d questions about a bucket that is empty", n)
		}
	})
}

func TestUnusedTokensAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		l := New(store, Options{Quotas: tenAnHour})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Run(ctx) }()
		for range 130 { // leases of 1, 2, 4, 8, 16, 32, 64: three are left of the last, 128
			l.Take(t.Context(), Reads, "acc_1")
		}
		q := tenAnHour[Reads]
		if n := store.owed("reads:acc_1", q); n != 255 {
			t.Fatalf("%d tokens are taken, want 255", n)
		}
		time.Sleep(2 * time.Second)
		if n := store.owed("reads:acc_1", q); n < 127 || n > 130 {
			t.Errorf("%d tokens are taken after the lease, want those used", n)
		}
		if d := l.Take(t.Context(), Reads, "acc_1"); d.Remaining < 2868 || d.Remaining > 2871 {
			t.Errorf("%d remain, want 3000 but 131", d.Remaining)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestUnusedTokensAreGivenBackWithoutRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		l := New(store, Options{Quotas: tenAnHour})
		for range 130 {
			l.Take(t.Context(), Reads, "acc_1")
		}
		time.Sleep(2 * time.Second)
		l.Take(t.Context(), Reads, "acc_1")
		synctest.Wait()
		if n := store.owed("reads:acc_1", tenAnHour[Reads]); n < 128 || n > 131 {
			t.Errorf("%d tokens are taken, want 131", n)
		}
	})
}

func TestProcessesShareABucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		allowed := 0
		a, b := New(store, Options{Quotas: tenAnHour}), New(store, Options{Quotas: tenAnHour})
		for range 20 {
			for _, l := range []*Limiter{a, b} {
				if l.Take(t.Context(), Runs, "acc_1").Allowed {
					allowed++
				}
			}
		}
		if allowed != 10 {
			t.Errorf("two processes allow %d, want 10", allowed)
		}
	})
}

func TestManyAtOnceGetTheQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{delay: time.Millisecond}
		l := New(store, Options{Quotas: Quotas{Logins: {20, time.Hour}}})
		var mu sync.Mutex
		var wg sync.WaitGroup
		allowed := 0
		for range 200 {
			wg.Go(func() {
				if l.Take(context.Background(), Logins, "192.0.2.1").Allowed {
					mu.Lock()
					allowed++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if allowed != 20 {
			t.Errorf("%d of 200 at once are allowed, want 20", allowed)
		}
		if n := store.counted(); n > 5 {
			t.Errorf("they ask the store %d times", n)
		}
	})
}

func TestStoreThatFailsIsLeftAlone(t *testing.T) {
	for name, broken := range map[string]struct {
		err   error
		delay time.Duration
	}{"refuses": {errors.New("away"), 0}, "hangs": {nil, time.Minute}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &fakeStore{}
				l := New(store, Options{Quotas: tenAnHour})
				for range 3 {
					l.Take(t.Context(), Runs, "acc_1")
				}
				time.Sleep(2 * time.Second)
				store.counted()
				store.set(broken.err, broken.delay)
				start := time.Now()
				for i := range 7 { // the known state is used
					if d := l.Take(t.Context(), Runs, "acc_1"); !d.Allowed || d.Remaining != 6-i {
						t.Errorf("request %d: %+v", i+4, d)
					}
				}
				if d := l.Take(t.Context(), Runs, "acc_1"); d.Allowed || d.RetryAfter < 5*time.Minute {
					t.Errorf("over the quota: %+v", d)
				}
				if d := l.Take(t.Context(), Runs, "acc_2"); !d.Allowed || d.Remaining != 9 {
					t.Errorf("a new account: %+v", d)
				}
				if took := time.Since(start); took > askTimeout {
					t.Errorf("ten requests take %v", took)
				}
				if n := store.counted(); n != 1 {
					t.Errorf("the store is asked %d times, want once", n)
				}
				time.Sleep(retryStore)
				l.Take(t.Context(), Runs, "acc_3")
				if n := store.counted(); n != 1 {
					t.Errorf("after a second the store is asked %d times, want once", n)
				}
				store.set(nil, 0)
				time.Sleep(retryStore)
				if d := l.Take(t.Context(), Runs, "acc_4"); !d.Allowed || store.counted() != 1 {
					t.Error("a store that answers again is not asked")
				}
				time.Sleep(2 * time.Minute) // requests that hung have ended
			})
		})
	}
}

func TestRequestThatEndsIsDecidedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{delay: 100 * time.Millisecond}
		l := New(store, Options{Quotas: tenAnHour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		start := time.Now()
		if d := l.Take(ctx, Runs, "acc_1"); !d.Allowed || time.Since(start) != time.Millisecond {
			t.Errorf("%+v after %v", d, time.Since(start))
		}
		time.Sleep(time.Second)
	})
}

func TestQuotasChangeAtRunTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(&fakeStore{}, Options{Quotas: tenAnHour})
		for range 11 {
			l.Take(t.Context(), Runs, "acc_1")
		}
		if d := l.Take(t.Context(), Writes, "acc_1"); !d.Allowed || d.Limit != 0 {
			t.Errorf("a class that is off: %+v", d)
		}
		l.SetQuotas(Quotas{Runs: {100, time.Second}, Writes: {2, time.Minute}})
		// The bucket is still empty, but fills up within the new period.
		if d := l.Take(t.Context(), Runs, "acc_1"); d.Allowed || d.Reset > time.Second {
			t.Errorf("at once after the change: %+v", d)
		}
		time.Sleep(time.Second)
		if d := l.Take(t.Context(), Runs, "acc_1"); !d.Allowed || d.Limit != 100 || d.Window != time.Second ||
			d.Remaining != 99 {
			t.Errorf("after the change: %+v", d)
		}
		if d := l.Take(t.Context(), Writes, "acc_1"); !d.Allowed || d.Remaining != 1 {
			t.Errorf("switched on: %+v", d)
		}
		if d := l.Take(t.Context(), Reads, "acc_1"); d.Limit != 3000 || d.Window != time.Minute {
			t.Errorf("a class that is not named has no default: %+v", d)
		}
	})
}

func TestPeekCountsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		l := New(store, Options{Quotas: tenAnHour})
		for range 20 {
			if d := l.Peek(Failures, "192.0.2.1"); !d.Allowed || d.Remaining != 5 {
				t.Fatalf("nothing has failed: %+v", d)
			}
		}
		for range 5 {
			if d := l.Peek(Failures, "192.0.2.1"); !d.Allowed {
				t.Fatalf("%+v", d)
			}
			l.Take(t.Context(), Failures, "192.0.2.1")
		}
		store.counted()
		if d := l.Peek(Failures, "192.0.2.1"); d.Allowed || d.RetryAfter != 12*time.Minute {
			t.Errorf("after 5 failures: %+v", d)
		}
		if d := l.Peek(Failures, "192.0.2.2"); !d.Allowed {
			t.Errorf("another address: %+v", d)
		}
		if n := store.counted(); n != 0 {
			t.Errorf("peeking asks the store %d times", n)
		}
	})
}

func TestAddressesOfOneNetworkCountTogether(t *testing.T) {
	t.Parallel()
	for who, want := range map[string]string{
		"acc_01M7YQ1WE0AE67Z5NHCJZHQ5XV": "acc_01M7YQ1WE0AE67Z5NHCJZHQ5XV", "192.0.2.1": "192.0.2.1", "": "",
		"2001:db8::1": "2001:db8::/64", "2001:db8:0:0:ffff::2": "2001:db8::/64", "2001:db8:0:1::1": "2001:db8:0:1::/64",
		"::ffff:192.0.2.1": "::ffff:192.0.2.1", "fe80::1%eth0": "fe80::/64", "not:an:address": "not:an:address",
	} {
		if got := network(who); got != want {
			t.Errorf("%q counts as %q, want %q", who, got, want)
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		l := New(store, Options{Quotas: Quotas{Logins: {20, time.Minute}}, Buckets: 320})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Run(ctx) }()
		for i := range 5000 {
			l.Take(t.Context(), Logins, fmt.Sprintf("198.51.%d.%d", i/256, i%256))
		}
		if n := l.size(); n > 320 {
			t.Errorf("%d buckets are remembered, want at most 320", n)
		}
		// A full bucket is removed.
		time.Sleep(2 * time.Minute)
		if n := l.size(); n != 0 {
			t.Errorf("%d buckets are remembered, though all are full", n)
		}
		cancel()
		<-done
	})
}

func TestTakeFromManySides(t *testing.T) {
	t.Parallel()
	store := &fakeStore{}
	l := New(store, Options{Buckets: 64})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 500 {
				who := fmt.Sprint("acc_", (i*j)%97)
				if d := l.Take(ctx, Reads, who); d.Allowed && d.Limit != 3000 && d.Limit != 30 {
					t.Errorf("%+v", d)
				}
				l.Peek(Reads, who)
				if j%100 == 0 {
					l.SetQuotas(Quotas{Reads: {30 + 2970*(j/100%2), time.Minute}})
					l.sweep(ctx)
				}
			}
		})
	}
	wg.Wait()
	cancel()
	<-done
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	l := New(nil, Options{Quotas: Quotas{Reads: {1_000_000, time.Second}}})
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() { l.Take(ctx, Reads, "acc_1") }); n != 0 {
		t.Errorf("%v allocations a request", n)
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	now := time.Unix(1795253406, 0)
	for name, c := range map[string]struct {
		decision Decision
		want     http.Header
	}{
		"refused": {
			decide(Runs, Quota{600, time.Minute}, false, 0, 100*time.Millisecond),
			http.Header{"Ratelimit-Policy": {`"runs";q=600;w=60`}, "Ratelimit": {`"runs";r=0;t=1`},
				"X-Ratelimit-Limit":     {"600"},
				"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"1795253407"}, "Retry-After": {"1"}},
		},
		"refused for long": {
			decide(Registrations, Quota{5, time.Hour}, false, 0, 719*time.Second+1),
			http.Header{"Ratelimit-Policy": {`"registrations";q=5;w=3600`}, "Ratelimit": {`"registrations";r=0;t=720`},
				"X-Ratelimit-Limit":     {"5"},
				"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"1795254126"}, "Retry-After": {"720"}},
		},
		"allowed": {
			decide(Reads, Quota{3000, time.Minute}, true, 2999, 20*time.Millisecond),
			http.Header{"Ratelimit-Policy": {`"reads";q=3000;w=60`}, "Ratelimit": {`"reads";r=2999;t=1`},
				"X-Ratelimit-Limit":     {"3000"},
				"X-Ratelimit-Remaining": {"2999"}, "X-Ratelimit-Reset": {"1795253407"}},
		},
		"off": {Decision{Class: Runs, Allowed: true}, http.Header{}},
	} {
		h := http.Header{}
		c.decision.Write(h, now)
		if d := cmp.Diff(c.want, h); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func BenchmarkTake(b *testing.B) {
	l := New(nil, Options{Quotas: Quotas{Reads: {1_000_000, time.Second}}})
	ctx := b.Context()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.Take(ctx, Reads, "acc_01M7YQ1WE0AE67Z5NHCJZHQ5XV")
		}
	})
}

// TestScrapesAndPagesAreCountedHere: the metrics must be available without the store, and pages cost it nothing.
func TestScrapesAndPagesAreCountedHere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		for _, class := range []Class{Scrapes, Pages} {
			l := New(store, Options{Quotas: Quotas{class: {2, time.Minute}}})
			for i, want := range []bool{true, true, false, false} {
				if d := l.Take(t.Context(), class, "192.0.2.1"); d.Allowed != want {
					t.Errorf("request %d: %+v", i, d)
				}
			}
			time.Sleep(30 * time.Second)
			if d := l.Take(t.Context(), class, "192.0.2.1"); !d.Allowed {
				t.Errorf("half a minute later: %+v", d)
			}
		}
		if store.calls != 0 {
			t.Errorf("the store is asked %d times", store.calls)
		}
	})
}

// TestAShorterPeriodCountsAtOnce: a used-up quota of an hour must not keep the bucket of
// a quota of a second empty for an hour.
func TestAShorterPeriodCountsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := New(nil, Options{Quotas: Quotas{Reads: {5, time.Hour}}})
		for range 6 {
			l.Take(t.Context(), Reads, "acc_1")
		}
		l.SetQuotas(Quotas{Reads: {5, time.Second}})
		if d := l.Take(t.Context(), Reads, "acc_1"); d.Allowed || d.RetryAfter != time.Second {
			t.Errorf("what was used up is not: %+v", d)
		}
		time.Sleep(time.Second)
		if d := l.Take(t.Context(), Reads, "acc_1"); !d.Allowed {
			t.Errorf("a second later: %+v", d)
		}
	})
}

func TestARefusalNamesATimeToComeBack(t *testing.T) {
	t.Parallel()
	d := decide(Reads, Quota{5, time.Second}, false, 0, 0)
	h := http.Header{}
	d.Write(h, time.Now())
	if d.RetryAfter != time.Second || h.Get("Retry-After") != "1" {
		t.Errorf("%+v, Retry-After %q", d, h.Get("Retry-After"))
	}
}

func TestCloseWaitsForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{delay: 100 * time.Millisecond}
		l := New(store, Options{Quotas: Quotas{Reads: Quota{Requests: 2, Period: time.Minute}}})
		leaving, leave := context.WithCancel(t.Context())
		go l.Take(leaving, Reads, "acc_1")
		synctest.Wait()
		leave()
		begun := time.Now()
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took != 100*time.Millisecond {
			t.Errorf("Close returned after %v", took)
		}
		for i, want := range []bool{true, true, false} {
			if d := l.Take(t.Context(), Reads, "acc_2"); d.Allowed != want {
				t.Errorf("request %d after Close: %+v", i, d)
			}
		}
		if store.calls != 1 {
			t.Errorf("the store was asked %d times", store.calls)
		}
	})
}
