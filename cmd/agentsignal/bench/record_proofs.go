package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// builtBatch is how many leaves of a built log are written at once.
const builtBatch = 1 << 14

// builtLog is a large Merkle log. Only the signals that are proved exist: the other leaves are
// hashes of numbers.
type builtLog struct {
	*rig
	partition int
	account   signal.AccountID
	salted    codec.LeafAccount
	size      int64
	step      int64 // one of this many leaves is that of a signal
	started   time.Time
	head      tlog.Tree
}

// provedSignals measures proving signals one after the other, of places all over a log of so many
// leaves.
func (b *bench) provedSignals(ctx context.Context, leaves int64, proved int) (err error) {
	if leaves < int64(proved) {
		return fmt.Errorf("--leaves is %d: must be at least %d", leaves, proved)
	}
	r, err := newRig(ctx, 0)
	if err != nil {
		return err
	}
	defer r.end(ctx, &err)
	account := signal.NewAccountID()
	l := &builtLog{
		rig:       r,
		partition: r.store.Client.Partition(account),
		account:   account,
		salted:    codec.LeafAccount{Salt: make([]byte, record.SaltSize)},
		size:      leaves,
		step:      leaves / int64(proved),
		started:   time.Now().Truncate(time.Second).Add(-90 * 24 * time.Hour),
	}
	start := time.Now()
	bytes, err := l.build(ctx)
	if err != nil {
		return err
	}
	b.row("a log built for proofs", "%d leaves of one partition in %s, %.1f bytes of Redis a leaf", leaves,
		short(time.Since(start)), float64(bytes)/float64(leaves))
	var taken, reads []time.Duration
	for _, i := range rand.Perm(proved) {
		index := int64(i) * l.step
		start := time.Now()
		leaf, err := r.store.Leaves.OpenLeaf(ctx, l.partition, account, l.position(index), l.head)
		taken = append(taken, time.Since(start))
		start = time.Now()
		if err == nil {
			err = r.store.Client.RDB.Get(ctx, r.store.Client.LeafHeadKey(l.partition)).Err()
		}
		reads = append(reads, time.Since(start))
		if err == nil {
			err = tlog.CheckRecord(leaf.Proof, l.head.N, l.head.Hash, index, record.LeafHash(leaf.Salt, leaf.Text))
		}
		if err != nil {
			return fmt.Errorf("proof of leaf %d: %w", index, err)
		}
	}
	b.row("proof of a signal (target p99 5 ms)", "%s", latencies(taken))
	b.row("one GET of the same Redis", "%s", latencies(reads))
	return nil
}

// position returns where the entry of a leaf is in the signal log.
func (l *builtLog) position(index int64) signal.Position {
	return signal.Position{MS: l.started.UnixMilli() + index/4, Seq: index % 4}
}

// build writes the signals that are proved and then the log, and returns by how many bytes the log
// has made Redis grow.
func (l *builtLog) build(ctx context.Context) (int64, error) {
	hashes, err := l.writeSignals(ctx)
	if err != nil {
		return 0, err
	}
	memory := func() (int64, error) { return l.store.Client.MemoryUsed(ctx) }
	return during(memory, func() error { return l.writeLog(ctx, hashes) })
}

// writeSignals writes the signals that are proved and returns the hashes of their leaves.
func (l *builtLog) writeSignals(ctx context.Context) (map[int64]tlog.Hash, error) {
	hashes := map[int64]tlog.Hash{}
	pipe := l.store.Client.RDB.Pipeline()
	for index := int64(0); index < l.size; index += l.step {
		at := l.position(index)
		header := codec.AppendRecord(nil, l.newSignal(l.account, "BTC"), at.Time())
		stored, err := codec.DecodeRecord(at, header, nil)
		if err != nil {
			return nil, err
		}
		place := l.place(index)
		hashes[index] = record.LeafHash(l.salted.Salt, record.Text(stored, record.Counts{Created: place.Created}))
		pipe.Do(ctx, "XADD", l.rig.store.Client.SignalsKey(l.partition), at.String(), "h", header)
	}
	return hashes, redisclient.Execute(ctx, pipe)
}

// place returns what the store keeps to find a leaf.
func (l *builtLog) place(index int64) codec.LeafPlace {
	return codec.LeafPlace{Index: index, Created: index + 1}
}

// writeLog writes what the store keeps of the log.
func (l *builtLog) writeLog(ctx context.Context, hashes map[int64]tlog.Hash) (err error) {
	tree := &record.Tree{}
	for index := int64(0); index < l.size; {
		pipe := l.store.Client.RDB.Pipeline()
		batch := make([]tlog.Hash, 0, builtBatch)
		for ; index < l.size && len(batch) < builtBatch; index++ {
			hash, ok := hashes[index]
			if !ok {
				hash = tlog.RecordHash(binary.BigEndian.AppendUint64(nil, uint64(index)))
			}
			batch = append(batch, hash)
			pipe.Do(ctx, "XADD", l.rig.store.Client.LeavesKey(l.partition), l.position(index).String(), "h",
				codec.AppendLeafPlace(nil, l.place(index)))
		}
		for _, piece := range tree.Append(batch) {
			key := l.rig.store.Client.TileKey(l.partition, piece.Level, piece.Tile)
			pipe.SetRange(ctx, key, int64(piece.Offset), string(piece.Hashes))
		}
		if err := redisclient.Execute(ctx, pipe); err != nil {
			return err
		}
	}
	if l.head, err = tree.Head(); err != nil {
		return err
	}
	head := codec.LogHead{Size: l.size, Root: l.head.Hash, UpTo: l.position(l.size - 1)}
	pipe := l.store.Client.RDB.Pipeline()
	pipe.HSet(ctx, l.rig.store.Client.LeafAccountsKey(l.partition), string(l.account), codec.AppendLeafAccount(nil, l.salted))
	pipe.Set(ctx, l.rig.store.Client.LeafHeadKey(l.partition), head.String(), 0)
	return redisclient.Execute(ctx, pipe)
}
