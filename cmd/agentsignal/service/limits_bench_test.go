package service

import (
	"context"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/http/limits"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// BenchmarkLimits compares a limiter that leases tokens with a question to Redis for each
// request: decision 33 has the figures.
func BenchmarkLimits(b *testing.B) {
	store, err := persistence.Open(persistence.Options{URL: redistest.New(b).URL(), Partitions: 4})
	commandtest.Must(b, err)
	b.Cleanup(func() { store.Client.Close() })
	quota := limits.Quota{Requests: 1_000_000, Period: time.Second}
	l := limits.New(store.Requests, limits.Options{Quotas: limits.Quotas{limits.Reads: quota}})
	b.Cleanup(func() { l.Close(context.Background()) })
	for name, take := range map[string]func() bool{
		"leased": func() bool { return l.Take(b.Context(), limits.Reads, "acc_1").Allowed },
		"asked": func() bool {
			n, _, err := store.Requests.TakeTokens(b.Context(), "reads", "acc_2", quota.Requests, quota.Period, 1, 0)
			return err == nil && n == 1
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if !take() {
						b.Error("a request is refused")
						return
					}
				}
			})
		})
	}
}
