package agent

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// fakeLog keeps the appended changes. Positions have the bubble's time.
type fakeLog struct {
	mu      sync.Mutex
	changes []signal.Change
	took    time.Duration               // of each append
	refuse  func(c signal.Change) error // or nil
}

func (l *fakeLog) Append(_ context.Context, c signal.Change) (signal.Position, error) {
	if l.took > 0 {
		time.Sleep(l.took)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		if err := l.refuse(c); err != nil {
			return signal.Position{}, err
		}
	}
	l.changes = append(l.changes, kept(c))
	return signal.Position{MS: time.Now().UnixMilli(), Seq: 10}, nil
}

// kept returns a copy of c, whose memory the caller of Append may reuse.
func kept(c signal.Change) signal.Change {
	c.Events = slices.Clone(c.Events)
	for i := range c.Events {
		c.Events[i].Data = slices.Clone(c.Events[i].Data)
	}
	if c.Signal != nil {
		s := *c.Signal
		if c.Job != nil && c.Job.Signal == c.Signal {
			j := *c.Job
			j.Signal, c.Job = &s, &j
		}
		c.Signal = &s
	}
	return c
}

func (l *fakeLog) all() []signal.Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.changes)
}

// types returns the event types of each change.
func (l *fakeLog) types() (all [][]signal.EventType) {
	for _, c := range l.all() {
		var one []signal.EventType
		for _, e := range c.Events {
			one = append(one, e.Type)
		}
		all = append(all, one)
	}
	return all
}

var errAway = signal.Unavailable(errors.New("redis is away"))

// fakeMarket answers by functions; by default with a history of BTC. It is a History, too.
type fakeMarket struct {
	series func(ctx context.Context, asset string, tf signal.Timeframe) (market.Snapshot, error)
	news   func(asset string, since int64) ([]strategy.NewsItem, error)
}

func (m *fakeMarket) Series(ctx context.Context, asset string, tf signal.Timeframe) (market.Snapshot, error) {
	if m.series != nil {
		return m.series(ctx, asset, tf)
	}
	return history(), nil
}

func (m *fakeMarket) History(ctx context.Context, asset string, tf signal.Timeframe) (market.Snapshot, error) {
	return m.Series(ctx, asset, tf)
}

// seriesFunc returns f as a function for fakeMarket.series.
func seriesFunc(f func() (market.Snapshot, error)) func(context.Context, string, signal.Timeframe) (
	market.Snapshot, error) {
	return func(context.Context, string, signal.Timeframe) (market.Snapshot, error) { return f() }
}

// at returns a market whose snapshot is what seen points to.
func at(seen *market.Snapshot) *fakeMarket {
	return &fakeMarket{series: seriesFunc(func() (market.Snapshot, error) { return *seen, nil })}
}

// failing returns a market without prices.
func failing(err error) *fakeMarket {
	return &fakeMarket{series: seriesFunc(func() (market.Snapshot, error) { return market.Snapshot{}, err })}
}

func (m *fakeMarket) News(_ context.Context, asset string, since int64) ([]strategy.NewsItem, error) {
	if m.news == nil {
		return nil, nil
	}
	return m.news(asset, since)
}

// testBars returns n bars of an hour around a price of 67,000.
func testBars(n int) []marketdata.Bar {
	bars := make([]marketdata.Bar, n)
	last := 67000.0
	const hour = 3_600_000
	for i := range bars {
		x := float64(i)
		c := 67000 * math.Exp(0.05*math.Sin(x/37)+0.02*math.Cos(x/5.3)+0.004*math.Sin(x*1.7))
		open := int64(1_700_000_000_000-1_700_000_000_000%hour) + int64(i)*hour
		bars[i] = marketdata.Bar{OpenTime: open, CloseTime: open + hour, Open: last, Close: c,
			High: max(last, c) * 1.002, Low: min(last, c) * 0.998, Volume: 100 + 50*math.Abs(math.Sin(x))}
		last = c
	}
	return bars
}

var historyOfTests = testBars(1500)

func history() market.Snapshot {
	last := historyOfTests[len(historyOfTests)-1]
	return market.Snapshot{
		Asset: market.Asset{Symbol: "BTC", Class: assets.Crypto, TickSize: 0.001, AlwaysOpen: true},
		Bars:  historyOfTests, Last: marketdata.Tick{Price: last.Close, Time: last.CloseTime},
		Ticks: true, Source: "simulated", Compression: 60,
	}
}

// bench is Agents with fakes on a real engine, inside a bubble.
type bench struct {
	t      *testing.T
	log    *fakeLog
	market *fakeMarket
	jobs   *fakeJobs
	agents *Agents
	sys    *engine.System
}

// withBench calls f with a bench inside a bubble.
func withBench(t *testing.T, o Options, f func(t *testing.T, b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, o)
		defer b.close()
		f(t, b)
	})
}

// newBench starts the agents; close ends them.
func newBench(t *testing.T, o Options) *bench {
	t.Helper()
	b := &bench{t: t, log: &fakeLog{}, market: &fakeMarket{}, jobs: &fakeJobs{},
		sys: engine.NewSystem(engine.Options{})}
	o.Log, o.Market = b.log, b.market
	if o.Jobs == nil {
		o.Jobs = b.jobs
	}
	b.agents = New(b.sys, o)
	return b
}

func (b *bench) close() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := b.agents.Drain(ctx); err != nil {
		b.t.Error(err)
	}
	if err := b.sys.Shutdown(ctx); err != nil {
		b.t.Error(err)
	}
}

// run runs a request for BTC.
func (b *bench) run() (Outcome, error) { return b.agents.Run(b.t.Context(), request("BTC")) }

// submit queues a run.
func (b *bench) submit(req signal.RunRequest) signal.Job {
	b.t.Helper()
	job, err := b.agents.Submit(b.t.Context(), req, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return job
}

// work runs the job workers until the returned function is called.
func (b *bench) work() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := b.agents.Work(ctx); err != nil {
			b.t.Error(err)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// workFor runs the job workers for d.
func (b *bench) workFor(d time.Duration) {
	stop := b.work()
	time.Sleep(d)
	stop()
}

// slow makes the market answer after d, or when the run's context ends.
func (b *bench) slow(d time.Duration) {
	b.market.series = func(ctx context.Context, _ string, _ signal.Timeframe) (market.Snapshot, error) {
		select {
		case <-time.After(d):
			return history(), nil
		case <-ctx.Done():
			return market.Snapshot{}, &signal.RunError{Code: signal.DataUnavailable, Cause: ctx.Err()}
		}
	}
}

func request(asset string) signal.RunRequest {
	return signal.RunRequest{Account: "acc_1", Agent: "trading", Asset: asset, Strategy: "momentum",
		Timeframe: signal.H1, Risk: signal.MediumRisk}
}

// fakeJobs keeps jobs in memory.
type fakeJobs struct {
	mu       sync.Mutex
	queued   []signal.Job
	replies  []*signal.Reply
	failing  error
	waiting  int64
	nextSize []int // the limits given to Next
	done     []signal.JobID
}

func (j *fakeJobs) Enqueue(_ context.Context, job signal.Job, _ int, reply *signal.Reply) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failing != nil {
		return j.failing
	}
	j.queued, j.replies = append(j.queued, job), append(j.replies, reply)
	return nil
}

func (j *fakeJobs) Job(context.Context, signal.AccountID, signal.JobID) (signal.Job, error) {
	return signal.Job{}, signal.NotFound("job")
}

func (j *fakeJobs) Jobs(context.Context, signal.AccountID, signal.JobStatus, int, int) ([]signal.Job, int, error) {
	return nil, 0, nil
}

func (j *fakeJobs) Next(ctx context.Context, limit int) ([]signal.Job, error) {
	j.mu.Lock()
	j.nextSize = append(j.nextSize, limit)
	if j.failing != nil {
		defer j.mu.Unlock()
		return nil, j.failing
	}
	n := min(limit, len(j.queued))
	taken := slices.Clone(j.queued[:n])
	j.queued = j.queued[n:]
	j.mu.Unlock()
	for i := range taken {
		taken[i].Attempt++
		taken[i].Status, taken[i].StartedAt = signal.JobRunning, time.Now()
	}
	if len(taken) == 0 {
		backoff.Sleep(ctx, 50*time.Millisecond)
	}
	return taken, nil
}

func (j *fakeJobs) Done(job signal.Job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.done = append(j.done, job.ID)
}

func (j *fakeJobs) Waiting(context.Context) (int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.waiting, nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
