package eventlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

var trimScript = redisclient.Script(scripts, "trim")

const (
	// trimCall is how many entries one call removes at most. Whole nodes of the stream are
	// removed, so that a call after which there are more may remove somewhat fewer.
	trimCall = 10_000
	// trimRounds bounds how often a log is trimmed in a row.
	trimRounds = 500
)

// TrimOptions bound what the logs keep.
type TrimOptions struct {
	Keep       time.Duration // of the event log; default 1 h
	MaxEntries int           // of the event log of a partition; default 1,000,000
	Retention  time.Duration // of the signal log; default 90 days
}

// Trimmer removes what the logs need not keep, except for some hundred entries in the same
// node of a stream as younger ones. The owner of a partition calls it now and then. Lists and
// replays do not depend on when.
type Trimmer struct {
	store   *Store
	options TrimOptions
	added   []atomic.Int64 // how many events each log had had when it was last trimmed
}

// NewTrimmer returns a trimmer of the logs of s.
func NewTrimmer(s *Store, o TrimOptions) *Trimmer {
	o.Keep = cmp.Or(o.Keep, time.Hour)
	o.MaxEntries = cmp.Or(o.MaxEntries, 1_000_000)
	o.Retention = cmp.Or(o.Retention, 90*24*time.Hour)
	return &Trimmer{store: s, options: o, added: make([]atomic.Int64, s.Partitions())}
}

// TrimEvents removes the events of a partition that are too old or too many, but none after
// the owner's stored position: those wait for their effect. KindConflict: another epoch
// holds the partition; 0 is not compared. It logs that a log was deleted: what matters is kept elsewhere,
// so work goes on, but events that were not read yet are lost.
func (t *Trimmer) TrimEvents(ctx context.Context, partition int, epoch int64) error {
	log, err := t.store.ReadInfo(ctx, t.store.EventsKey(partition))
	if err != nil {
		return redisclient.Unavailable(err)
	}
	if before := t.added[partition].Swap(log.Added); before > log.Added && (log.Complete || !log.Exists) {
		t.store.Log.Warn("the event log was deleted, or Redis has lost events: streams and webhooks miss those not read before",
			"component", "persistence", "partition", partition)
	}
	keys := []string{t.store.EventsKey(partition), t.store.PositionKey(partition),
		t.store.EpochKey(partition)}
	keep, limit := t.options.Keep.Milliseconds(), t.options.MaxEntries
	for range trimRounds {
		n, err := trimScript.Run(ctx, t.store.RDB, keys, keep, limit, epoch).Int()
		if err == nil && n < 0 {
			return ErrNotOwner
		}
		if err != nil || n < trimCall/2 {
			return redisclient.Failed(err, "trim events of partition %d", partition)
		}
	}
	return nil
}

// TrimSignals removes the entries of a partition's signal log that are older than the
// retention and older than every open signal, but none that still needs its leaf. A new signal is younger than both, so no epoch
// is compared.
func (t *Trimmer) TrimSignals(ctx context.Context, partition int, _ int64) error {
	s := t.store
	if err := s.SyncClock(ctx); err != nil {
		return redisclient.Unavailable(err)
	}
	safe := signal.Position{MS: s.Now().Add(-t.options.Retention).UnixMilli()}
	first, err := s.ReadRange(ctx, s.SignalsKey(partition), "-", "+", 1)
	if err != nil {
		return redisclient.Unavailable(err)
	}
	if len(first) == 0 || first[0].Position.Compare(safe) >= 0 {
		return nil
	}
	upTo, err := t.leavesUpTo(ctx, partition)
	if err != nil {
		return err
	}
	if next := upTo.Plus(1); !upTo.IsZero() && next.Compare(safe) < 0 {
		safe = next
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
		n, err := s.RDB.XTrimMinIDApprox(ctx, s.SignalsKey(partition), safe.String(), 0).Result()
		if err != nil || n < trimCall/2 {
			return redisclient.Failed(err, "trim signals of partition %d", partition)
		}
	}
	return nil
}

// leavesUpTo returns the position up to which the signal log of partition p has leaves; zero if
// it has none, as before the first start of a version that makes them.
func (t *Trimmer) leavesUpTo(ctx context.Context, p int) (signal.Position, error) {
	text, err := t.store.RDB.Get(ctx, t.store.LeafHeadKey(p)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return signal.Position{}, redisclient.Failed(err, "read head of the log of partition %d", p)
	}
	head, err := codec.ParseLogHead(text)
	return head.UpTo, err
}
