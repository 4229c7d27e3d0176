package eventlog

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

//go:embed scripts/trim.lua
var trimText string

var trimScript = redis.NewScript(trimText)

const (
	// trimCall is how many entries one call removes at most, and so what says that
	// there are more.
	trimCall = 10_000
	// trimRounds bounds how often a log is trimmed in a row.
	trimRounds = 500
)

// TrimOptions say what logs keep.
type TrimOptions struct {
	Keep       time.Duration // of the event log; default 1 h
	MaxEntries int           // of the event log of a partition; default 1,000,000
	Retention  time.Duration // of the signal log; default 90 days
}

// Trimmer removes what the logs need not keep. The owner of a partition calls it
// now and then; whole nodes of a stream are removed, so some hundred entries more
// than necessary stay. Lists and replays do not depend on when it is called.
type Trimmer struct {
	store   *Store
	options TrimOptions
}

// NewTrimmer returns a trimmer of the logs of s.
func NewTrimmer(s *Store, o TrimOptions) *Trimmer {
	o.Keep = cmp.Or(o.Keep, time.Hour)
	o.MaxEntries = cmp.Or(o.MaxEntries, 1_000_000)
	o.Retention = cmp.Or(o.Retention, 90*24*time.Hour)
	return &Trimmer{store: s, options: o}
}

// TrimEvents removes the events of a partition that are too old or too many, but
// none behind the engine's stored position: those wait for their effect.
// KindConflict: another epoch holds the partition; 0 does not ask.
func (t *Trimmer) TrimEvents(ctx context.Context, partition int, epoch int64) error {
	keys := []string{redisclient.EventsKey(partition), redisclient.PositionKey(partition), redisclient.EpochKey(partition)}
	for range trimRounds {
		n, err := trimScript.Run(ctx, t.store.RDB, keys, t.options.Keep.Milliseconds(), t.options.MaxEntries, epoch).Int()
		if err != nil {
			return redisclient.Unavailable(fmt.Errorf("trim events of partition %d: %w", partition, err))
		}
		if n < 0 {
			return ErrNotOwner
		}
		// Nodes that are only partly too old stay, so a call may remove somewhat less.
		if n < trimCall/2 {
			return nil
		}
	}
	return nil
}

// TrimSignals removes the entries of a partition's signal log that are older than
// the retention and older than every open signal. A new signal is younger than
// both, so what comes meanwhile is in no danger and no epoch is compared.
func (t *Trimmer) TrimSignals(ctx context.Context, partition int, _ int64) error {
	s := t.store
	if err := s.SyncClock(ctx); err != nil {
		return redisclient.Unavailable(err)
	}
	safe := signal.Position{MS: s.Now().Add(-t.options.Retention).UnixMilli()}
	first, err := s.ReadRange(ctx, redisclient.SignalsKey(partition), "-", "+", 1)
	if err != nil {
		return redisclient.Unavailable(err)
	}
	if len(first) == 0 || first[0].Position.Compare(safe) >= 0 {
		return nil
	}
	err = s.EachOpen(ctx, partition, func(_, value []byte) error {
		created, _, err := codec.CutStamp(value)
		if err != nil {
			return fmt.Errorf("trim signals of partition %d: %w", partition, err)
		}
		if created.Compare(safe) < 0 {
			safe = created
		}
		return nil
	})
	if err != nil {
		return err
	}
	for range trimRounds {
		n, err := s.RDB.XTrimMinIDApprox(ctx, redisclient.SignalsKey(partition), safe.String(), 0).Result()
		if err != nil {
			return redisclient.Unavailable(fmt.Errorf("trim signals of partition %d: %w", partition, err))
		}
		if n < trimCall/2 {
			return nil
		}
	}
	return nil
}
