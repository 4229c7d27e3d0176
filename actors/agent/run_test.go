package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
)

type eventTypes = []signal.EventType

var (
	startedOnly = eventTypes{signal.AgentStarted}
	wholeRun    = eventTypes{signal.AgentStarted, signal.SignalCreated, signal.AgentCompleted}
	endOfRun    = eventTypes{signal.SignalCreated, signal.AgentCompleted}
	failedRun   = eventTypes{signal.AgentStarted, signal.AgentFailed}
	failedEnd   = eventTypes{signal.AgentFailed}
)

func (b *bench) expect(want ...eventTypes) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.log.types()); diff != "" {
		b.t.Error("appended events (-want +got):\n" + diff)
	}
}

func codeOf(err error) signal.ErrorCode {
	if e, ok := errors.AsType[*signal.RunError](err); ok {
		return e.Code
	}
	return ""
}

func TestShortRunIsOneAppend(t *testing.T) {
	withBench(t, Options{}, func(t *testing.T, b *bench) {
		b.log.took = time.Second // the append does not count
		req := request("btc")
		req.Reply = &signal.ReplyKey{Method: "POST", Path: "/v1/agents/trading/run", Key: "k"}
		got, err := b.agents.Run(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		b.expect(wholeRun)
		c := b.log.all()[0]
		if c.Due != nil || c.Ended != "" || c.Job != nil || c.Account != "acc_1" {
			t.Errorf("change is %+v", c)
		}
		s := got.Signal
		if s.CreatedAt != (signal.Position{MS: time.Now().UnixMilli()}).Time() || s.UpdatedAt != s.CreatedAt {
			t.Errorf("created %v, updated %v; want the time of the append, %v", s.CreatedAt, s.UpdatedAt, time.Now())
		}
		if d := s.ExpiresAt.Sub(s.CreatedAt); d != 24*time.Minute { // 24 bars of 1h, 60 times as fast
			t.Errorf("lives %v, want 24m", d)
		}
		stored := c.Signal
		if d := stored.ExpiresAt.Sub(stored.CreatedAt); d != 24*time.Minute {
			t.Errorf("is stored to live %v, want 24m", d)
		}
		if s.ID != stored.ID || s.Run != got.Run || s.Asset != "btc" || s.Sequence != 1 ||
			s.Confidence != s.FirstConfidence || s.Closing != nil {
			t.Errorf("signal is %+v", s)
		}
		if c.Reply == nil || c.Reply.Key != "k" || c.Reply.Status != 200 || c.Reply.Body != nil ||
			c.Reply.Header["X-Run-Id"] != string(got.Run) {
			t.Errorf("reply is %+v", c.Reply)
		}
		e := c.Events[1]
		if e.Asset != "btc" || e.Listing == nil || e.Listing.ID != s.ID || e.Agent != "" || e.Run != "" {
			t.Errorf("signal.created is %+v", e)
		}
		for _, i := range []int{0, 2} {
			if e := c.Events[i]; e.Agent != "trading" || e.Run != got.Run || e.Asset != "btc" || e.Strategy != "momentum" ||
				e.ID == "" {
				t.Errorf("event %d is %+v", i, e)
			}
		}
	})
}

func TestLongRunIsAnnounced(t *testing.T) {
	withBench(t, Options{}, func(t *testing.T, b *bench) {
		b.slow(2 * time.Second)
		begun := time.Now()
		got, err := b.run()
		if err != nil {
			t.Fatal(err)
		}
		b.expect(startedOnly, endOfRun)
		first, second := b.log.all()[0], b.log.all()[1]
		want := &signal.RunDue{Run: got.Run, Agent: "trading", At: begun.Add(45 * time.Second)}
		if diff := cmp.Diff(want, first.Due, cmp.Comparer(time.Time.Equal)); diff != "" {
			t.Error("due (-want +got):\n" + diff)
		}
		if second.Ended != got.Run || second.Due != nil || first.Ended != "" {
			t.Errorf("second change ends %q, want %q", second.Ended, got.Run)
		}
		if got.Signal.ID != second.Signal.ID || !got.Signal.CreatedAt.Equal(begun.Add(2*time.Second)) {
			t.Errorf("signal is %+v", got.Signal)
		}
	})
}

// TestAnnounceRace checks that runs that end when they are to be announced are recorded once
// each, with their events in order.
func TestAnnounceRace(t *testing.T) {
	withBench(t, Options{MaxConcurrent: 100}, func(t *testing.T, b *bench) {
		b.slow(5 * time.Millisecond) // exactly then
		b.log.took = time.Millisecond
		var runs sync.WaitGroup
		for range 100 {
			runs.Go(func() {
				if _, err := b.run(); err != nil {
					t.Error(err)
				}
			})
		}
		runs.Wait()
		published := map[signal.RunID]eventTypes{}
		created := 0
		for _, c := range b.log.all() {
			for _, e := range c.Events {
				if e.Type == signal.SignalCreated {
					created++
					continue
				}
				published[e.Run] = append(published[e.Run], e.Type)
			}
		}
		if len(published) != 100 || created != 100 {
			t.Errorf("%d runs, %d signals; want 100 of each", len(published), created)
		}
		for id, types := range published {
			if diff := cmp.Diff(eventTypes{signal.AgentStarted, signal.AgentCompleted}, types); diff != "" {
				t.Errorf("run %s (-want +got):\n%s", id, diff)
			}
		}
	})
}

func TestRunTimesOut(t *testing.T) {
	for name, ends := range map[string]bool{"computation ends": true, "computation continues": false} {
		t.Run(name, func(t *testing.T) {
			withBench(t, Options{}, func(t *testing.T, b *bench) {
				b.slow(time.Hour)
				if !ends {
					b.market.series = seriesFunc(func() (market.Snapshot, error) {
						time.Sleep(40 * time.Second)
						return history(), nil
					})
				}
				begun := time.Now()
				got, err := b.run()
				if codeOf(err) != signal.Timeout || got.Run == "" || got.Signal != nil {
					t.Errorf("run ended with %+v, %v; want TIMEOUT", got, err)
				}
				if d := time.Since(begun); d != 30*time.Second {
					t.Errorf("after %v, want 30s", d)
				}
				b.expect(startedOnly, failedEnd)
				if c := b.log.all()[1]; c.Ended != got.Run {
					t.Errorf("ended %q, want %q", c.Ended, got.Run)
				}
				time.Sleep(time.Minute) // the late result is dropped
				b.expect(startedOnly, failedEnd)
			})
		})
	}
}

// An agent that waits knows when the run ends, and can fail before with what it waited for.
func TestAgentsKnowTheEndOfTheRun(t *testing.T) {
	withBench(t, Options{}, func(t *testing.T, b *bench) {
		b.market.series = func(ctx context.Context, _ string, _ signal.Timeframe) (market.Snapshot, error) {
			end, _ := ctx.Deadline()
			time.Sleep(time.Until(end) - time.Second)
			return market.Snapshot{}, &signal.RunError{Code: signal.StaleData, Message: "too old"}
		}
		begun := time.Now()
		if _, err := b.run(); codeOf(err) != signal.StaleData || time.Since(begun) != 29*time.Second {
			t.Errorf("run ended with %v after %s; want STALE_DATA after 29 s", err, time.Since(begun))
		}
		b.expect(startedOnly, failedEnd)
	})
}

func TestClientGoesAway(t *testing.T) {
	withBench(t, Options{}, func(t *testing.T, b *bench) {
		b.slow(3 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.agents.Run(ctx, request("BTC")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
		time.Sleep(5 * time.Second)
		b.expect(startedOnly, endOfRun)
	})
}

func TestFailedRuns(t *testing.T) {
	stale := &signal.RunError{Code: signal.StaleData, Message: "too old", Retryable: true}
	panicking := &fakeMarket{series: seriesFunc(func() (market.Snapshot, error) { panic("secret") })}
	short := history()
	short.Bars = short.Bars[:200]
	for _, c := range []struct {
		name     string
		agent    signal.AgentID
		strategy string
		market   *fakeMarket
		want     signal.ErrorCode
		retry    bool
	}{
		{"stale data", "trading", "momentum", failing(stale), signal.StaleData, true},
		{"wrapped", "trading", "momentum", failing(fmt.Errorf("x: %w", stale)), signal.StaleData, true},
		{"foreign error", "trading", "momentum", failing(errors.New("secret")), signal.Internal, false},
		{"panic", "trading", "momentum", panicking, signal.Internal, false},
		{"too little history", "trading", "momentum", at(&short), signal.InsufficientHistory, false},
		{"no news", "trading", "sentiment", &fakeMarket{}, signal.InsufficientHistory, false},
		{"weather", "weather", "agriculture", &fakeMarket{}, signal.DataUnavailable, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			withBench(t, Options{}, func(t *testing.T, b *bench) {
				b.market.series = c.market.series
				req := request("BTC")
				req.Agent, req.Strategy = c.agent, c.strategy
				got, err := b.agents.Run(t.Context(), req)
				e, ok := errors.AsType[*signal.RunError](err)
				if !ok || e.Code != c.want || e.Retryable != c.retry || got.Run == "" {
					t.Fatalf("run %q ended with %v, want %s", got.Run, err, c.want)
				}
				if e.Message == "" || e.Message == "secret" {
					t.Errorf("message is %q", e.Message)
				}
				b.expect(failedRun)
				if ch := b.log.all()[0]; ch.Reply != nil || ch.Signal != nil {
					t.Errorf("a failed run stored %+v", ch)
				}
				// The agent continues.
				b.market.series = nil
				if c.agent == "trading" {
					if _, err := b.run(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

func TestStoreIsAway(t *testing.T) {
	for name, slow := range map[string]time.Duration{"short run": 0, "long run": time.Second} {
		t.Run(name, func(t *testing.T) {
			withBench(t, Options{}, func(t *testing.T, b *bench) {
				if slow > 0 {
					b.slow(slow)
				}
				b.log.refuse = func(signal.Change) error { return errAway }
				got, err := b.run()
				if signal.KindOf(err) != signal.KindUnavailable || got.Signal != nil {
					t.Errorf("got %+v, %v; want unavailable and no signal", got, err)
				}
				time.Sleep(5 * time.Second)
				if n := len(b.log.all()); n != 0 {
					t.Errorf("%d changes were appended", n)
				}
			})
		})
	}
}

// The log may still write a change whose append failed, so its memory must not be used for another run.
func TestMemoryOfAChangeInDoubtIsNotReused(t *testing.T) {
	withBench(t, Options{}, func(t *testing.T, b *bench) {
		var doubtful, want signal.Change
		b.log.refuse = func(c signal.Change) error {
			doubtful, want = c, kept(c)
			return errAway
		}
		if _, err := b.run(); signal.KindOf(err) != signal.KindUnavailable {
			t.Fatalf("got %v, want unavailable", err)
		}
		b.log.refuse = nil
		for range 20 {
			if _, err := b.run(); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want.Events, doubtful.Events); diff != "" || len(want.Events) != 3 {
			t.Errorf("other runs have changed its %d events (-want +got):\n%s", len(want.Events), diff)
		}
	})
}

// TestEndIsNotRecorded checks the answer if the announcement is stored and the end is not.
func TestEndIsNotRecorded(t *testing.T) {
	withBench(t, Options{}, func(t *testing.T, b *bench) {
		b.slow(time.Second)
		b.log.refuse = func(c signal.Change) error {
			if c.Ended != "" {
				return errAway
			}
			return nil
		}
		if got, err := b.run(); signal.KindOf(err) != signal.KindUnavailable || got.Signal != nil {
			t.Errorf("got %+v, %v; want unavailable", got, err)
		}
		b.expect(startedOnly)
	})
}

// TestSuspendedProcess checks that a process that was suspended beyond the run's due does not
// record the end: others have.
func TestSuspendedProcess(t *testing.T) {
	var mu sync.Mutex
	skew := time.Duration(0)
	now := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return time.Now().Add(skew)
	}
	withBench(t, Options{Now: now}, func(t *testing.T, b *bench) {
		b.market.series = seriesFunc(func() (market.Snapshot, error) {
			time.Sleep(time.Second)
			mu.Lock()
			skew = time.Minute
			mu.Unlock()
			return history(), nil
		})
		if _, err := b.run(); codeOf(err) != signal.Cancelled {
			t.Errorf("got %v, want CANCELLED", err)
		}
		b.expect(startedOnly)
	})
}

// A process that has lost Redis keeps the number of queued jobs for a while, and then has none.
func TestQueuedJobsThatCannotBeCounted(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	m := NewMetrics(r)
	m.jobsWaiting(3, nil)
	shown := func() (series int, value float64) {
		n, err := testutil.GatherAndCount(r, "agentsignal_jobs_waiting")
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			value = testutil.ToFloat64(m.waiting)
		}
		return n, value
	}
	for i := range maxFailedCounts {
		if n, value := shown(); n != 1 || value != 3 {
			t.Errorf("after %d failures there are %d series, the last with %v", i, n, value)
		}
		m.jobsWaiting(0, errors.New("away"))
	}
	if n, _ := shown(); n != 0 {
		t.Errorf("%d series are left", n)
	}
	m.jobsWaiting(2, nil)
	if n, value := shown(); n != 1 || value != 2 {
		t.Errorf("with Redis again %d series with %v", n, value)
	}
}

func TestMetrics(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	m := NewMetrics(r)
	if problems, err := testutil.GatherAndLint(r); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	// 11 strategies and 3 results, one with a fourth; 4 agents with 10 codes; 2 directions. One of each stands for those of
	// accounts.
	for name, want := range map[string]int{"runs_total": 34, "run_errors_total": 40, "signals_created_total": 8,
		"run_duration_seconds": 4, "runs_in_flight": 4} {
		if n, err := testutil.GatherAndCount(r, "agentsignal_"+name); n != want || err != nil {
			t.Errorf("%s has %d series (%v), want %d", name, n, err, want)
		}
	}
	withBench(t, Options{Metrics: m}, func(t *testing.T, b *bench) {
		if _, err := b.run(); err != nil {
			t.Fatal(err)
		}
		b.slow(time.Second)
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.run()
		}()
		time.Sleep(500 * time.Millisecond)
		if n := testutil.ToFloat64(m.inFlight.WithLabelValues("trading")); n != 1 {
			t.Errorf("%v runs in flight, want 1", n)
		}
		<-done
		b.log.refuse = func(signal.Change) error { return errAway }
		b.run()
		b.log.refuse = nil
		req := request("corn")
		req.Agent, req.Strategy = "weather", "agriculture"
		b.agents.Run(t.Context(), req)
		count := testutil.ToFloat64
		for name, c := range map[string]struct{ got, want float64 }{
			"completed": {count(m.runs.WithLabelValues("trading", "momentum", "completed")), 2},
			"lost":      {count(m.runs.WithLabelValues("trading", "momentum", "lost")), 1},
			"error":     {count(m.runs.WithLabelValues("weather", "agriculture", "error")), 1},
			"code":      {count(m.errors.WithLabelValues("weather", "DATA_UNAVAILABLE")), 1},
			"created": {count(m.created.WithLabelValues("trading", "long")) +
				count(m.created.WithLabelValues("trading", "short")), 2},
			"in flight": {count(m.inFlight.WithLabelValues("trading")), 0},
		} {
			if c.got != c.want {
				t.Errorf("%s: %v, want %v", name, c.got, c.want)
			}
		}
	})
}

// BenchmarkWarmRun is a run without a store: engine, strategy, payloads.
func BenchmarkWarmRun(b *testing.B) {
	for name, price := range map[string]func(i int) float64{
		"same price": func(int) float64 { return 67000 },
		"new price":  func(i int) float64 { return 67000 + float64(i%100_000)/1000 },
	} {
		b.Run(name, func(b *testing.B) {
			i := 0
			m := &fakeMarket{}
			m.series = seriesFunc(func() (market.Snapshot, error) {
				s := history()
				i++
				s.Last.Price = price(i)
				return s, nil
			})
			sys := engine.NewSystem(engine.Options{})
			agents := New(sys, Options{Log: noLog{}, Market: m, Metrics: NewMetrics(prometheus.NewRegistry())})
			req := request("BTC")
			b.ReportAllocs()
			before := cpuTime()
			for b.Loop() {
				if _, err := agents.Run(context.Background(), req); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
			agents.Drain(context.Background())
			sys.Shutdown(context.Background())
		})
	}
}

// cpuTime returns the CPU time of the process, which a busy machine disturbs less than the
// time by the clock.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

type noLog struct{}

func (noLog) Append(context.Context, signal.Change) (signal.Position, error) {
	return signal.Position{MS: 1795253400000}, nil
}

// TestALateRunIsNotRecorded: an append that begins shortly before others give the run up could end after that.
func TestALateRunIsNotRecorded(t *testing.T) {
	for left, late := range map[time.Duration]bool{lateMargin - time.Second: true, lateMargin + time.Second: false} {
		var skew atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }
		withBench(t, Options{Now: now}, func(t *testing.T, b *bench) {
			b.market.series = seriesFunc(func() (market.Snapshot, error) {
				time.Sleep(time.Second)
				skew.Store(int64(time.Until(b.log.all()[0].Due.At) - left))
				return history(), nil
			})
			_, err := b.run()
			if late && codeOf(err) != signal.Cancelled || !late && err != nil {
				t.Errorf("with %v left: %v", left, err)
			}
		})
	}
}

// Accounts name their agents, so that a metric has none of these names.
func TestOwnAgentsCountTogether(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	series := func() int {
		n, err := testutil.GatherAndCount(registry)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := series()
	for _, r := range []*run{
		{request: signal.RunRequest{Agent: "first", Strategy: "momentum"}},
		{request: signal.RunRequest{Agent: "second", Strategy: "x_y"}},
		{request: signal.RunRequest{Agent: "trading", Strategy: "momentum"}},
	} {
		m.runStarted(r.request.Agent)
		m.runEnded(r, &signal.Signal{Direction: signal.Long}, nil, time.Second)
		m.runStarted(r.request.Agent)
		m.runEnded(r, nil, &signal.RunError{Code: signal.Cancelled}, time.Second)
	}
	if after := series(); after != before {
		t.Errorf("%d series, want %d", after, before)
	}
	for _, c := range []struct {
		got  prometheus.Collector
		want float64
	}{
		{m.runs.WithLabelValues("own", "own", resultCompleted), 2},
		{m.runs.WithLabelValues("trading", "momentum", resultCompleted), 1},
		{m.errors.WithLabelValues("own", string(signal.Cancelled)), 2},
		{m.created.WithLabelValues("own", string(signal.Long)), 2},
		{m.inFlight.WithLabelValues("own"), 0},
	} {
		if got := testutil.ToFloat64(c.got); got != c.want {
			t.Errorf("%v is %v, want %v", c.got, got, c.want)
		}
	}
}
