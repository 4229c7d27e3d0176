package leaves

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

var (
	appendScript          = redisclient.Script(scripts, "append")
	checkpointStoreScript = redisclient.Script(scripts, "checkpoint_store")
	countersignScript     = redisclient.Script(scripts, "countersign")
	eraseScript           = redisclient.Script(scripts, "erase")
)

const (
	// maxBatch is how many entries of the signal log one append takes at most.
	maxBatch = 500
	// maxKnown bounds the accounts that are remembered for a partition.
	maxKnown = 10_000
)

// Appender appends the leaves of owned partitions.
type Appender struct {
	*redisclient.Client
	appenders []appender // by partition
	reads     sync.Pool  // of *read
	entries   *entries
	signed    *signed
}

// read is the memory of a read of the signal log.
type read struct {
	buffer  redisclient.Buffer
	entries []redisclient.Entry
}

// appender appends to the log of one partition under one epoch. It remembers the edge of the log
// and the accounts.
type appender struct {
	mu sync.Mutex // held while leaves are appended
	s  *Appender

	partition int
	epoch     int64
	tree      *record.Tree // nil until it is loaded, and after a failure
	head      codec.LogHead
	known     map[signal.AccountID]codec.LeafAccount // without a salt: its record is not readable
}

// AppendLeaves appends the leaves of the next entries of the signal log of partition p to its
// Merkle log, and returns how many, and whether there may be more. KindConflict: another epoch
// holds the partition.
func (s *Appender) AppendLeaves(ctx context.Context, p int, epoch int64) (n int, more bool, err error) {
	a := &s.appenders[p]
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.epoch != epoch {
		a.s, a.partition, a.epoch, a.tree = s, p, epoch, nil
	}
	n, more, err = a.append(ctx)
	if err != nil {
		a.tree, a.known = nil, nil // what is stored may differ from what is remembered
	}
	return n, more, err
}

func (a *appender) append(ctx context.Context) (n int, more bool, err error) {
	if a.tree == nil {
		if err := a.load(ctx); err != nil {
			return 0, false, err
		}
	}
	r := a.s.reads.Get().(*read)
	defer a.s.reads.Put(r)
	key := a.s.SignalsKey(a.partition)
	entries, err := a.s.ReadRangeInto(ctx, &r.buffer, r.entries, key, a.start(), "+", maxBatch)
	if err != nil {
		return 0, false, redisclient.Unavailable(err)
	}
	r.entries = entries
	if len(entries) == 0 {
		return 0, false, nil
	}
	b, err := a.batch(ctx, entries)
	if err != nil {
		return 0, false, err
	}
	stored, err := appendScript.Run(ctx, a.s.RDB, b.keys, b.args...).Int()
	switch {
	case err != nil:
		return 0, false, redisclient.Failed(err, "append leaves in partition %d", a.partition)
	case stored == 0:
		return 0, false, eventlog.ErrNotOwner
	case stored < 0: // a batch whose reply was lost
		a.tree = nil
		return 0, true, nil
	}
	a.head = b.head
	return len(entries), len(entries) == maxBatch, nil
}

// start returns where to read the signal log.
func (a *appender) start() string {
	if a.head.Size == 0 {
		return "-"
	}
	return "(" + a.head.UpTo.String()
}

// load reads the head and the edge of the log.
func (a *appender) load(ctx context.Context) error {
	head, err := logHead(ctx, a.s.Client, a.partition)
	if err != nil {
		return err
	}
	tree, err := record.LoadTree(head.Size, func(level int, n int64) ([]byte, error) {
		tile, err := a.s.RDB.Get(ctx, a.s.TileKey(a.partition, level, n)).Bytes()
		if err != nil {
			return nil, redisclient.Failed(err, "read tile %d of level %d in partition %d", n, level, a.partition)
		}
		return tile, nil
	})
	if err != nil {
		return err
	}
	if root, err := tree.Head(); err != nil || head.Size > 0 && root.Hash != head.Root {
		return errors.Join(fmt.Errorf("the tiles of partition %d do not have the root of its %d leaves",
			a.partition, head.Size), err)
	}
	a.head, a.tree, a.known = head, tree, map[signal.AccountID]codec.LeafAccount{}
	return nil
}

// logHead returns the head of the log of partition p.
func logHead(ctx context.Context, c *redisclient.Client, p int) (codec.LogHead, error) {
	text, err := c.RDB.Get(ctx, c.LeafHeadKey(p)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return codec.LogHead{}, redisclient.Failed(err, "read head of the log of partition %d", p)
	}
	return codec.ParseLogHead(text)
}

// EraseAccount removes the salt of an account, without which its leaves can never be opened. It stays
// counted, and so do its signals by their tallies.
func (s *Appender) EraseAccount(ctx context.Context, p int, account signal.AccountID, gone record.Tallies) error {
	head, err := logHead(ctx, s.Client, p)
	if err != nil {
		return err
	}
	all, err := record.ParseTallies(head.Gone)
	if err != nil {
		return err
	}
	keys := []string{s.LeafAccountsKey(p), s.LeafHeadKey(p)}
	n, err := eraseScript.Run(ctx, s.RDB, keys, string(account), head.Gone, all.Plus(gone).String()).Int()
	if err == nil && n < 0 {
		err = errors.New("another erasing has counted signals meanwhile")
	}
	return redisclient.Failed(err, "erase salt in partition %d", p)
}
