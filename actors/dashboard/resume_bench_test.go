package dashboard

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// processorTime returns the CPU time that the process has used so far.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkResumeTooFar resumes at a position before 330,000 entries of a log, which are
// too many, on a node that has published them and on one that started after them.
func BenchmarkResumeTooFar(b *testing.B) {
	const entries, each = 330_000, 500
	store, err := persistence.Open(persistence.Options{URL: redistest.New(b).URL()})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Client.Close()
	log := eventlog.NewLog(store.Logs, eventlog.LogOptions{})
	defer log.Close(context.Background())
	var all []signal.Event
	for range entries / each {
		events := make([]signal.Event, each)
		for i := range events {
			events[i] = signal.Event{Account: alice, ID: signal.NewEventID(), Type: signal.SystemNotification,
				Data: fmt.Appendf(nil, `{"message":"%0300d","severity":"info"}`, i)}
		}
		at, err := log.Append(b.Context(), signal.Change{Account: alice, Events: events})
		if err != nil {
			b.Fatal(err)
		}
		for i := range events {
			events[i].Position = at.Plus(i)
		}
		all = append(all, events...)
	}
	partition := store.Client.Partition(alice)
	for _, published := range []int{len(all), 1} {
		b.Run(fmt.Sprintf("published=%d", published), func(b *testing.B) {
			o := Options{Log: redisLog{store.Logs, nil}, Now: store.Client.Now, PartitionOf: store.Client.Partition,
				RingFrames: 1000}
			o = o.withDefaults()
			ring := newRing(o.RingFrames, o.RingBytes)
			h := &Hub{o: o, ring: ring, resumer: newResumer(ring, o)}
			b.Cleanup(h.resumer.close)
			for rest := all[len(all)-published:]; len(rest) > 0; rest = rest[min(each, len(rest)):] {
				h.Publish(partition, rest[:min(each, len(rest))])
			}
			start, i := processorTime(b), 0
			for b.Loop() {
				id := all[i%1000].Position.String()
				got, err := h.resumer.find(b.Context(), partition, alice, everything, id)
				if err != nil || got.complete {
					b.Fatalf("%+v, %v", got.complete, err)
				}
				i++
			}
			b.ReportMetric(float64((processorTime(b)-start).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}
