package service

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

const risksEvery = 30 * time.Second

// risks watches for what puts the data in Redis at risk.
type risks struct {
	store     *persistence.Store
	log       *slog.Logger
	found     atomic.Pointer[[]string] // nil until the first look
	shortened atomic.Pointer[[]int]    // partitions whose signal logs were shortened, by the last look that could read them
}

// run looks for risks until ctx ends, and logs when they begin and end.
func (r *risks) run(ctx context.Context) error {
	var logged []string
	look := func() { logged = r.look(ctx, logged) }
	panics.Guard(r.log, panics.Background, look)
	return every(ctx, r.log, risksEvery, look)
}

// list returns the risks of the last look.
func (r *risks) list() []string {
	if found := r.found.Load(); found != nil {
		return *found
	}
	return nil
}

// look looks for risks and logs what differs from what is logged. It returns what
// is logged now: also that Redis refuses changes, of which /readyz warns by itself.
func (r *risks) look(ctx context.Context, logged []string) []string {
	risks, err := r.store.Client.Servers.Risks(ctx)
	if err != nil {
		return logged // others report that Redis does not answer
	}
	if shortened, err := r.store.Leaves.Shortened(ctx); err == nil {
		r.shortened.Store(&shortened)
	} else {
		r.log.Warn("signal logs cannot be compared with the record", "component", "persistence", "err", err)
	}
	if shortened := r.shortened.Load(); shortened != nil {
		for _, n := range *shortened {
			risks = append(risks, fmt.Sprintf("The signal log of partition %d was deleted or replaced: signals that the "+
				"record has are missing in lists. Restore Redis from a backup; \"agentsignal audit\" counts what is missing.", n))
		}
	}
	r.found.Store(&risks)
	found := slices.Clip(risks)
	if reason, _ := redisclient.Refusal(r.store.Client.Readiness.Check(ctx)); reason != "" {
		found = append(found, "Redis refuses changes: "+reason+".")
	}
	for _, risk := range found {
		if !slices.Contains(logged, risk) {
			r.log.Warn("data are at risk", "component", "persistence", "reason", risk)
		}
	}
	for _, risk := range logged {
		if !slices.Contains(found, risk) {
			r.log.Info("data are no longer at risk", "component", "persistence", "reason", risk)
		}
	}
	return found
}
