package leaves

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

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
	// monthSlack is how long after its end a month gets its leaf if the account is silent: clocks differ.
	monthSlack = 24 * time.Hour
)

// Appender appends the leaves of owned partitions.
type Appender struct {
	*redisclient.Client
	appenders []appender // by partition
	reads     sync.Pool  // of *read
	entries   *entries
	signed    *signed

	// Cost returns the cost of an entry or an exit of an asset, as a share of the price, for the sums of months. It is set before
	// the first leaf; nil: none.
	Cost func(asset string) float64
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
	known     map[signal.AccountID]*account
	cursor    uint64 // of sweep
	swept     string // no account has a running month before this one
}

// AppendLeaves appends the leaves of the next entries of the signal log of partition p to its
// Merkle log, and returns how many, and whether there may be more. Without entries it appends the leaves of months that
// are over. KindConflict: another epoch holds the partition.
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
		more, err := a.sweep(ctx, record.MonthOf(time.Now().Add(-monthSlack)))
		return 0, more, err
	}
	b, err := a.batch(ctx, entries)
	if err != nil {
		return 0, false, err
	}
	stored, err := a.store(ctx, b)
	if err != nil || !stored {
		return 0, err == nil, err
	}
	return len(entries), len(entries) == maxBatch, nil
}

// store stores a batch. It returns false if the log had another head, as after a batch whose reply was lost.
func (a *appender) store(ctx context.Context, b *batch) (bool, error) {
	stored, err := appendScript.Run(ctx, a.s.RDB, b.keys, b.args...).Int()
	switch {
	case err != nil:
		return false, redisclient.Failed(err, "append leaves in partition %d", a.partition)
	case stored == 0:
		return false, eventlog.ErrNotOwner
	case stored < 0:
		a.tree = nil
		return false, nil
	}
	a.head = b.head
	return true, nil
}

// sweep appends the leaves of months before the given one for accounts that have been silent since, some accounts at a
// time, and reports whether there may be more.
func (a *appender) sweep(ctx context.Context, before string) (bool, error) {
	if a.swept >= before || a.head.Size == 0 {
		return false, nil
	}
	page, next, err := a.s.RDB.HScan(ctx, a.s.LeafAccountsKey(a.partition), a.cursor, "", maxBatch).Result()
	if err != nil {
		return false, redisclient.Failed(err, "read accounts of leaves in partition %d", a.partition)
	}
	b := &batch{head: a.head}
	var ended []signal.AccountID
	for i := 0; i+1 < len(page); i += 2 { // with some accounts twice
		id := signal.AccountID(page[i])
		if a.known[id] == nil {
			if a.known[id], err = decodeAccount([]byte(page[i+1])); err != nil {
				a.known[id] = &account{}
			}
		}
		if known := a.known[id]; a.endMonth(b, id, before, record.NewHasher(known.Salt)) {
			ended = append(ended, id)
		}
	}
	if len(ended) > 0 {
		if err := a.complete(b, ended); err != nil {
			return false, err
		}
		if stored, err := a.store(ctx, b); err != nil || !stored {
			return err == nil, err
		}
	}
	if a.cursor = next; next == 0 {
		a.swept = before
	}
	if len(a.known) > maxKnown {
		clear(a.known)
	}
	return next != 0, nil
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
	a.cursor = 0
	a.head, a.tree, a.known = head, tree, map[signal.AccountID]*account{}
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

// EraseAccount removes the salt of an account, without which its leaves can never be opened, and its months. It stays
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
	keys := []string{s.LeafAccountsKey(p), s.LeafHeadKey(p), s.LeafMonthsKey(p)}
	n, err := eraseScript.Run(ctx, s.RDB, keys, string(account), head.Gone, all.Plus(gone).String()).Int()
	if err == nil && n < 0 {
		err = errors.New("another erasing has counted signals meanwhile")
	}
	return redisclient.Failed(err, "erase salt in partition %d", p)
}
