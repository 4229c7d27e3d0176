package agent

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestSubmit(t *testing.T) {
	withBench(t, Options{}, func(t *testing.T, b *bench) {
		job, err := b.agents.Submit(t.Context(), request("BTC"), func(j signal.Job) *signal.Reply {
			return &signal.Reply{Status: 200, Body: []byte(j.ID)}
		})
		if err != nil {
			t.Fatal(err)
		}
		if job.Status != signal.JobQueued || job.ID == "" || job.Run == "" || job.Attempt != 0 ||
			!job.CreatedAt.Equal(time.Now()) {
			t.Errorf("job is %+v", job)
		}
		if len(b.jobs.queued) != 1 || b.jobs.queued[0].ID != job.ID ||
			string(b.jobs.replies[0].Body) != string(job.ID) {
			t.Errorf("queued %+v with reply %+v", b.jobs.queued, b.jobs.replies)
		}
		b.jobs.failing = tooManyRuns("full")
		if _, err := b.agents.Submit(t.Context(), request("BTC"), nil); signal.KindOf(err) != signal.KindTooMany {
			t.Errorf("full queue: %v, want too many", err)
		}
	})
}

func TestJobIsRun(t *testing.T) {
	for name, c := range map[string]struct {
		slow time.Duration
		want []eventTypes
	}{
		"short": {0, []eventTypes{wholeRun}},
		"long":  {time.Second, []eventTypes{startedOnly, endOfRun}},
	} {
		t.Run(name, func(t *testing.T) {
			m := NewMetrics(prometheus.NewRegistry())
			withBench(t, Options{Metrics: m}, func(t *testing.T, b *bench) {
				if c.slow > 0 {
					b.slow(c.slow)
				}
				req := request("BTC")
				req.Reply = &signal.ReplyKey{Key: "k"}
				job := b.submit(req)
				b.jobs.waiting = 7
				b.workFor(5 * time.Second)
				b.expect(c.want...)
				changes := b.log.all()
				last := changes[len(changes)-1]
				j := last.Job
				if j == nil || j.Status != signal.JobCompleted || j.ID != job.ID || j.Attempt != 1 ||
					j.Signal != last.Signal || j.CompletedAt.IsZero() ||
					j.ExpiresAt.Sub(j.CompletedAt) != 24*time.Hour {
					t.Errorf("stored job is %+v", j)
				}
				if len(b.jobs.done) != 1 || b.jobs.done[0] != job.ID {
					t.Errorf("done with %v, want %s", b.jobs.done, job.ID)
				}
				for _, ch := range changes {
					if ch.Due != nil || ch.Ended != "" || ch.Reply != nil {
						t.Errorf("change of a job is %+v", ch)
					}
					for _, e := range ch.Events {
						if e.Type != signal.SignalCreated && e.Run != job.Run {
							t.Errorf("event of run %s, want %s", e.Run, job.Run)
						}
					}
				}
				if n := testutil.ToFloat64(m.waiting); n != 7 {
					t.Errorf("%v jobs wait, want 7", n)
				}
				if n := testutil.CollectAndCount(m.wait); n != 1 {
					t.Errorf("job_wait_seconds has %d series", n)
				}
			})
		})
	}
}

// TestJobWorkers checks that as many jobs run at once as there are workers, whatever the
// limit of synchronous runs.
func TestJobWorkers(t *testing.T) {
	withBench(t, Options{JobWorkers: 3, MaxConcurrent: 1}, func(t *testing.T, b *bench) {
		var mu sync.Mutex
		now, peak := 0, 0
		b.market.series = seriesFunc(func() (market.Snapshot, error) {
			mu.Lock()
			now++
			peak = max(peak, now)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			now--
			mu.Unlock()
			return history(), nil
		})
		for range 9 {
			b.submit(request("BTC"))
		}
		b.workFor(10 * time.Second)
		if peak != 3 {
			t.Errorf("%d jobs ran at once, want 3", peak)
		}
		if n := len(b.log.all()); n != 18 {
			t.Errorf("%d changes, want 18", n)
		}
		for _, n := range b.jobs.nextSize {
			if n < 1 || n > 3 {
				t.Errorf("asked for %d jobs", n)
			}
		}
	})
}

func TestFailedJob(t *testing.T) {
	withBench(t, Options{}, func(t *testing.T, b *bench) {
		req := request("corn")
		req.Agent, req.Strategy = "weather", "agriculture"
		b.submit(req)
		b.workFor(time.Second)
		b.expect(failedRun)
		j := b.log.all()[0].Job
		if j.Status != signal.JobFailed || j.Error == nil || j.Error.Code != signal.DataUnavailable || j.Signal != nil {
			t.Errorf("job is %+v", j)
		}
	})
}

// TestJobTriedTooOften checks that a fourth attempt is not made.
func TestJobTriedTooOften(t *testing.T) {
	withBench(t, Options{}, func(t *testing.T, b *bench) {
		removed := request("BTC")
		removed.Agent = "removed"
		b.jobs.queued = []signal.Job{
			{ID: "job_1", Run: "run_1", Request: request("BTC"), Attempt: 2},
			{ID: "job_2", Run: "run_2", Request: request("BTC"), Attempt: 3},
			{ID: "job_3", Run: "run_3", Request: removed},
		}
		b.workFor(time.Second)
		for _, c := range b.log.all() {
			want := signal.JobFailed
			if c.Job.ID == "job_1" {
				want = signal.JobCompleted
			}
			if c.Job.Status != want || want == signal.JobFailed && c.Job.Error.Code != signal.Cancelled {
				t.Errorf("%s ended with %s, %v; want %s", c.Job.ID, c.Job.Status, c.Job.Error, want)
			}
		}
		if n := len(b.log.all()); n != 3 {
			t.Errorf("%d changes, want 3", n)
		}
	})
}

// TestJobWhileStoreIsAway checks that the outcome of a job is kept until the store is back.
func TestJobWhileStoreIsAway(t *testing.T) {
	withBench(t, Options{}, func(t *testing.T, b *bench) {
		back := time.Now().Add(10 * time.Second)
		b.log.refuse = func(signal.Change) error {
			if time.Now().Before(back) {
				return errAway
			}
			return nil
		}
		b.submit(request("BTC"))
		b.workFor(20 * time.Second)
		b.expect(wholeRun)
	})
}

// TestJobIsLost checks that the outcome of a job that another process took is dropped.
func TestJobIsLost(t *testing.T) {
	withBench(t, Options{}, func(t *testing.T, b *bench) {
		refusals := 0
		b.log.refuse = func(signal.Change) error {
			refusals++
			return &signal.Error{Kind: signal.KindConflict, Code: "job_lost", Message: "another worker holds the job"}
		}
		b.submit(request("BTC"))
		b.workFor(20 * time.Second)
		if len(b.jobs.done) != 1 {
			t.Errorf("done with %v, want the one job", b.jobs.done)
		}
		if refusals != 1 {
			t.Errorf("the outcome was appended %d times, want once", refusals)
		}
	})
}

// TestDrainLeavesJobs checks that a process that ends leaves its jobs to others, without an
// outcome.
func TestDrainLeavesJobs(t *testing.T) {
	withBench(t, Options{}, func(t *testing.T, b *bench) {
		b.slow(20 * time.Second)
		b.submit(request("BTC"))
		b.workFor(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := b.agents.Drain(ctx); err != nil {
			t.Error(err)
		}
		b.expect(startedOnly)
		if _, err := b.agents.Submit(t.Context(), request("BTC"), nil); signal.KindOf(err) != signal.KindUnavailable {
			t.Errorf("a job after the drain: %v, want unavailable", err)
		}
	})
}

// TestDrainEndsWork checks that Work returns once it takes a job of drained agents, although its
// context has not ended: it must not wait for the count of queued jobs.
func TestDrainEndsWork(t *testing.T) {
	withBench(t, Options{Metrics: NewMetrics(prometheus.NewRegistry())}, func(t *testing.T, b *bench) {
		b.submit(request("BTC"))
		must(t, b.agents.Drain(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := b.agents.Work(ctx); err != nil || ctx.Err() != nil {
			t.Errorf("work ended with %v; the context with %v, want none", err, ctx.Err())
		}
	})
}

func TestWorkSurvivesErrors(t *testing.T) {
	withBench(t, Options{}, func(t *testing.T, b *bench) {
		b.submit(request("BTC"))
		b.jobs.failing = errors.New("away")
		stop := b.work()
		time.Sleep(3500 * time.Millisecond)
		b.jobs.mu.Lock()
		if n := len(b.jobs.nextSize); n != 4 {
			t.Errorf("asked %d times in 3.5 s, want 4", n)
		}
		b.jobs.failing = nil
		b.jobs.mu.Unlock()
		time.Sleep(2 * time.Second)
		stop()
		b.expect(wholeRun)
	})
}
