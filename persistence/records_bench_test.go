package persistence

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/jobs"
	"github.com/agentsignal/agentsignal/persistence/market"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

// newMarketBench returns a market on a server of the test's own, with the epoch of
// a feeder's term.
func newMarketBench(t *testing.T) (m *market.Store, rdb *redis.Client, epoch int64) {
	t.Helper()
	s, server := leaseStore(t)
	m = NewMarket(s)
	epoch, _, err := m.TakeLease(t.Context(), "node", time.Minute)
	if err != nil || epoch == 0 {
		t.Fatalf("take lease: epoch %d, %v", epoch, err)
	}
	return m, server.Client(), epoch
}

// marketBar returns the i-th bar of BTC, 1h.
func marketBar(i int64, closing float64) marketdata.AssetBar {
	open := 1_795_248_000_000 + i*3_600_000
	return marketdata.AssetBar{Asset: "BTC", Timeframe: signal.H1, Given: i%2 == 0, Bar: marketdata.Bar{OpenTime: open, CloseTime: open + 3_600_000,
		Open: 10, High: 20, Low: 5, Close: closing, Volume: 1.5, Flat: i%3 == 0}}
}

func newTestJob(account signal.AccountID, now time.Time) signal.Job {
	return signal.Job{ID: signal.NewJobID(), Run: signal.NewRunID(), Status: signal.JobQueued, CreatedAt: now.UTC().Truncate(time.Millisecond),
		Request: signal.RunRequest{Account: account, Agent: "seo", Asset: "Steh\"pult ü", Strategy: "blog_post", Timeframe: signal.H1,
			Risk: signal.LowRisk, Parameters: signal.Parameters{Keywords: []string{"a", strings.Repeat("ü", 100)}, Features: []string{"b"}, Locale: "de-DE"}}}
}

func testSchedule(account signal.AccountID) signal.Schedule {
	at := time.UnixMilli(1_800_000_000_000).UTC()
	return signal.Schedule{ID: signal.NewScheduleID(), Account: account, Agent: "trading", Assets: []string{"BTC", "ETH"}, Strategy: "momentum",
		Timeframe: signal.M5, Risk: signal.HighRisk, Every: 5 * time.Minute, MaxOpen: 3, Status: signal.ScheduleEnabled,
		NextRunAt: at, CreatedAt: at.Add(-time.Hour), UpdatedAt: at.Add(-time.Minute)}
}

// wantPostponed demands that an entry that could not be read is still there, and due later.
func wantPostponed(t *testing.T, s *Store, key, member string, until time.Time) {
	t.Helper()
	score, err := s.RDB.ZScore(t.Context(), key, member).Result()
	if want := until.Add(redisclient.UnreadableAfter); err != nil || codec.TimeOfMilli(int64(score)).Before(want) {
		t.Errorf("an entry of %s that cannot be read is due at %v, %v; want not before %v", key, codec.TimeOfMilli(int64(score)), err, want)
	}
}

// jobBench is a store with a log, for the tests of jobs.
type jobBench struct {
	t     *testing.T
	store *Store
	log   *eventlog.Log
}

// jobs returns the jobs as the named node sees them.
func (b *jobBench) jobs(node string, idle time.Duration) *jobs.Store {
	return NewJobs(b.store, node, jobs.Options{Idle: idle, Search: 20 * time.Millisecond})
}

func (b *jobBench) enqueue(j *jobs.Store, account signal.AccountID) signal.Job {
	b.t.Helper()
	job := newTestJob(account, b.store.Now())
	if err := j.Enqueue(b.t.Context(), job, 1000, nil); err != nil {
		b.t.Fatal(err)
	}
	return job
}

// next calls Next until it returns a job.
func (b *jobBench) next(j *jobs.Store) signal.Job {
	b.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		jobs, err := j.Next(b.t.Context(), 1)
		if err != nil {
			b.t.Fatal(err)
		}
		if len(jobs) > 0 {
			return jobs[0]
		}
	}
	b.t.Fatal("no job came")
	return signal.Job{}
}

// complete appends the end of job with a signal, and returns that.
func (b *jobBench) complete(job signal.Job) (*signal.Signal, error) {
	now := b.store.Now()
	s := testJobSignal(job, now)
	job.Status, job.Signal, job.CompletedAt, job.ExpiresAt = signal.JobCompleted, s, now, now.Add(time.Hour).Truncate(time.Millisecond)
	p, err := b.log.Append(b.t.Context(), signal.Change{Account: job.Request.Account, Signal: s, Job: &job, Events: []signal.Event{
		{Type: signal.AgentStarted, Agent: "trading", Run: job.Run, Data: []byte(`{}`)},
		{Type: signal.SignalCreated, Asset: s.Asset, Data: []byte(`{}`)},
		{Type: signal.AgentCompleted, Agent: "trading", Run: job.Run, Data: []byte(`{}`)}}})
	s.CreatedAt = p.Time()
	s.UpdatedAt = s.CreatedAt
	s.ExpiresAt = s.CreatedAt.Add(time.Hour)
	return s, err
}

func testJobSignal(job signal.Job, now time.Time) *signal.Signal {
	return &signal.Signal{ID: signal.NewSignalID(), Account: job.Request.Account, Agent: "trading", Run: job.Run, Asset: "BTC",
		Strategy: "momentum", Timeframe: signal.H1, Risk: signal.MediumRisk, Direction: signal.Short, Confidence: 0.4372,
		FirstConfidence: 0.4372, Levels: &signal.Levels{Entry: 100.5, Stop: 101, Target: 99.75},
		Metadata: json.RawMessage(`{"indicators":["x"],"reasoning":"y"}`), CreatedAt: now, ExpiresAt: now.Add(time.Hour), Sequence: 1}
}
