package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/persistence"
)

const (
	recordTurns = 5
	// recordLag is more than the time within which the leaves of a run are appended.
	recordLag     = 1200 * time.Millisecond
	recordSignals = 200_000 // whose leaves are appended at once
)

// recordBenchmark is the benchmark record.
type recordBenchmark struct {
	*report
}

// measure measures what the Merkle log adds to runs, and what a leaf takes.
func (b *recordBenchmark) measure(ctx context.Context) error {
	run, err := b.recordedRuns(ctx)
	if err != nil {
		return err
	}
	leaf, err := b.appendedLeaves(ctx, recordSignals)
	if err != nil {
		return err
	}
	b.row("CPU of a leaf to that of a run (target 0.05)", "%.3f", leaf/run)
	return nil
}

// recordedService is a service with or without the record, and the figures of its turns.
type recordedService struct {
	*rig
	server *server
	load   *load
	runs   []float64 // a second
	cpu    []float64 // microseconds a run, of the service
	redis  []float64 // microseconds a run, of Redis
}

// recordedRuns measures runs with and without the record. Each service has a Redis of its own, and
// they take turns, so that a machine that slows down favours neither. It returns the microseconds of
// CPU of a run without the record.
func (b *recordBenchmark) recordedRuns(ctx context.Context) (cpu float64, err error) {
	with, err := newRecordedService(ctx)
	if err != nil {
		return 0, err
	}
	defer with.end(ctx, &err)
	without, err := newRecordedService(ctx, "--unrecorded")
	if err != nil {
		return 0, err
	}
	defer without.end(ctx, &err)
	for turn := range recordTurns {
		pair := []*recordedService{with, without}
		if turn%2 == 1 {
			pair[0], pair[1] = without, with
		}
		if err := cmp.Or(b.turn(ctx, pair[0]), b.turn(ctx, pair[1])); err != nil {
			return 0, err
		}
	}
	if err := with.checkLeaves(ctx, true); err != nil {
		return 0, err
	}
	if err := without.checkLeaves(ctx, false); err != nil {
		return 0, err
	}
	b.row("runs with the record, 128 connections", "%s", with)
	b.row("runs without it", "%s", without)
	rates, costs := make([]float64, recordTurns), make([]float64, recordTurns)
	for i := range rates {
		rates[i] = with.runs[i] / without.runs[i]
		costs[i] = (with.cpu[i] + with.redis[i]) / (without.cpu[i] + without.redis[i])
	}
	b.row("ratio of runs/s (target at least 0.95)", "%.3f, turns %.3f", median(slices.Clone(rates)), rates)
	b.row("ratio of CPU a run (target at most 1.05)", "%.3f, turns %.3f", median(slices.Clone(costs)), costs)
	return median(slices.Clone(without.cpu)) + median(slices.Clone(without.redis)), nil
}

// newRecordedService starts a service of this program, the only one that can leave the record out.
func newRecordedService(ctx context.Context, flags ...string) (*recordedService, error) {
	r, err := newRig(ctx, runAccounts)
	if err != nil {
		return nil, err
	}
	s := &recordedService{rig: r}
	s.server, err = r.serveBy(ctx, ownProgram, append([]string{"serve"}, flags...), "AGENTSIGNAL_REDIS_TIMEOUT=20s")
	if err == nil {
		s.load = r.runLoad(s.server)
		err = s.load.warm(ctx)
	}
	if err != nil {
		r.end(ctx, &err)
		return nil, err
	}
	return s, nil
}

// turn measures runs of one of the services. Runs that are not measured come first, so that the
// appends of their leaves stand for those that follow the measured ones.
func (b *recordBenchmark) turn(ctx context.Context, s *recordedService) error {
	var rate float64
	var taken []time.Duration
	var redis time.Duration
	if _, _, err := s.load.run(ctx, runConnections, recordLag, 0); err != nil {
		return err
	}
	used, err := during(s.server.cpu, func() (err error) {
		redis, err = during(s.redisCPU, func() (err error) {
			rate, taken, err = s.load.run(ctx, runConnections, b.window, 0)
			return err
		})
		return err
	})
	if err != nil {
		return err
	}
	s.runs = append(s.runs, rate)
	s.cpu = append(s.cpu, microseconds(used, len(taken)))
	s.redis = append(s.redis, microseconds(redis, len(taken)))
	time.Sleep(recordLag) // before the turn of the other service
	return nil
}

// String returns the medians of all turns.
func (s *recordedService) String() string {
	return fmt.Sprintf("%.0f/s, CPU %.1f us the service, %.1f us Redis", median(slices.Clone(s.runs)),
		median(slices.Clone(s.cpu)), median(slices.Clone(s.redis)))
}

// checkLeaves returns an error unless a service with the record, and only such a one, has leaves.
func (s *recordedService) checkLeaves(ctx context.Context, want bool) error {
	n, err := s.store.Leaves.CountLeaves(ctx)
	if err == nil && n > 0 != want {
		err = fmt.Errorf("the service has %d leaves", n)
	}
	return err
}

// appendedLeaves measures appending the leaves of many new signals at once, and returns the microseconds
// of CPU of a leaf.
func (b *recordBenchmark) appendedLeaves(ctx context.Context, signals int) (cpu float64, err error) {
	r, err := newRig(ctx, runAccounts)
	if err != nil {
		return 0, err
	}
	defer r.end(ctx, &err)
	if err := r.signals.openMany(ctx, r.ids, signals); err != nil {
		return 0, err
	}
	var redis, used, took time.Duration
	leaves := 0
	memory := func() (int64, error) { return r.store.Client.Servers.MemoryUsed(ctx) }
	self := func() (time.Duration, error) { return processorTime(os.Getpid()) }
	bytes, err := during(memory, func() (err error) {
		used, err = during(self, func() (err error) {
			redis, err = during(r.redisCPU, func() (err error) {
				start := time.Now()
				leaves, err = appendLeaves(ctx, r.store)
				took = time.Since(start)
				return err
			})
			return err
		})
		return err
	})
	if err == nil && leaves != signals {
		err = fmt.Errorf("%d signals have %d leaves", signals, leaves)
	}
	if err != nil {
		return 0, err
	}
	b.row("leaves appended at once", "%.0f/s, CPU %.2f us this process, %.2f us Redis", float64(leaves)/took.Seconds(),
		microseconds(used, leaves), microseconds(redis, leaves))
	b.row("a leaf", "%.1f bytes of Redis", float64(bytes)/float64(leaves))
	return microseconds(used+redis, leaves), nil
}

// appendLeaves appends the leaves of all signals, as the owner of all partitions, and returns how
// many.
func appendLeaves(ctx context.Context, store *persistence.Store) (int, error) {
	leaves := 0
	for p := range store.Client.Partitions() {
		epoch, _, err := store.Logs.Leases.TakeLease(ctx, p, "bench", time.Minute)
		if err != nil {
			return 0, err
		}
		if epoch == 0 {
			return 0, errors.New("another node owns a partition")
		}
		for more := true; more; {
			var n int
			if n, more, err = store.Leaves.AppendLeaves(ctx, p, epoch); err != nil {
				return 0, err
			}
			leaves += n
		}
	}
	return leaves, nil
}
