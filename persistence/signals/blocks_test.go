package signals

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

const (
	blockEpoch = 7
	blockFirst = 1_795_253_400_000
	// entriesABlock is small, so that a few blocks take more than one command to read.
	entriesABlock = 100
)

func newBlockBench(t *testing.T) *logBench {
	b := newLogBench(t, 4)
	b.store.blockEntries = entriesABlock
	b.rdb.Set(t.Context(), b.store.EpochKey(0), blockEpoch, 0)
	return b
}

// fillLog appends n creations to the signal log of partition 0, one a millisecond from first on.
// Every tenth entry is of a version that nothing here reads.
func (b *logBench) fillLog(first int64, n int) {
	b.Helper()
	pipe := b.rdb.Pipeline()
	s := storetest.Signal(storetest.AccountIn(b.store, 0))
	for i := range n {
		s.ID = signal.NewSignalID()
		record := string(codec.AppendRecord(nil, s, time.Time{}))
		if i%10 == 9 {
			record = "\x09\x01"
		}
		pipe.XAdd(b.Context(), &redis.XAddArgs{Stream: b.store.SignalsKey(0), ID: fmt.Sprint(first+int64(i), "-1"),
			Values: []string{"h", record, "m", "{}"}})
	}
	if _, err := pipe.Exec(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// compact makes all blocks that there are to make, and returns how many partition 0 has.
func (b *logBench) compact() int {
	b.Helper()
	for more := true; more; {
		var err error
		if more, err = b.store.Compact(b.Context(), 0, blockEpoch); err != nil {
			b.Fatal(err)
		}
	}
	return int(b.rdb.XLen(b.Context(), b.store.BlocksKey(0)).Val())
}

// scanned returns what a pass over partition 0 finds.
func (b *logBench) scanned() (entries []string) {
	b.Helper()
	if err := b.store.ScanSignals(b.Context(), 0, func(e signal.LogEntry) error {
		entries = append(entries, fmt.Sprint(e.ID, e.Position, e.Origin, e.Closed, e.Created != nil))
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	return entries
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	b := newBlockBench(t)
	ctx, key, log := t.Context(), b.store.BlocksKey(0), b.store.SignalsKey(0)
	const first = blockFirst
	compare := func(what string, blocks int) {
		t.Helper()
		if n := b.compact(); n != blocks {
			t.Errorf("%s: %d blocks, want %d", what, n, blocks)
		}
		got := b.scanned()
		kept := b.rdb.Dump(ctx, key).Val()
		b.rdb.Del(ctx, key)
		want := b.scanned() // from the log alone
		if kept != "" {
			b.rdb.RestoreReplace(ctx, key, 0, kept)
		}
		if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
			t.Errorf("%s: %d entries of the log are %d by blocks:\n%.2000s", what, len(want), len(got), diff)
		}
	}
	b.fillLog(first, entriesABlock-1)
	compare("too few for a block", 0)
	b.fillLog(first+entriesABlock-1, 1)
	compare("just enough", 1)
	b.fillLog(first+entriesABlock, 8*entriesABlock+5)
	compare("nine and a rest", 9)

	// They are read, not the log: the rest of the log is short of the first entries.
	before := b.scanned()
	b.rdb.XDel(ctx, log, fmt.Sprint(first+1, "-1"))
	if diff := cmp.Diff(before, b.scanned()); diff != "" {
		t.Errorf("the blocks are not read (-want +got):\n%.2000s", diff)
	}

	b.rdb.XTrimMinID(ctx, log, fmt.Sprint(first+entriesABlock/2))
	compare("the log begins within a block", 9)
	b.rdb.XTrimMinID(ctx, log, fmt.Sprint(first+entriesABlock+1))
	b.fillLog(first+9*entriesABlock+5, entriesABlock)
	compare("the log begins after a block", 9)
	second := b.rdb.XRange(ctx, key, "-", "+").Val()[1]
	b.rdb.XDel(ctx, key, second.ID)
	compare("a block is missing", 8)

	b.rdb.Del(ctx, log)
	if n := len(b.scanned()); n != 0 {
		t.Errorf("%d entries of a log that was deleted", n)
	}
	b.fillLog(first+20*entriesABlock, entriesABlock)
	compare("another log", 1)
	b.rdb.Del(ctx, log)
	b.fillLog(first, entriesABlock+1) // as from an earlier file
	compare("an earlier log", 1)
}

// What the maker of a block could not decode is read from the log: a later version may decode it.
func TestMarksInBlocks(t *testing.T) {
	t.Parallel()
	b := newBlockBench(t)
	b.fillLog(blockFirst, 5)
	want := b.scanned()
	w := codec.NewBlockWriter(signal.Position{})
	for i := range int64(5) {
		w.Add(&signal.LogEntry{Position: signal.Position{MS: blockFirst + i, Seq: 1}})
	}
	block, err := w.Encode()
	if err != nil {
		t.Fatal(err)
	}
	b.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: b.store.BlocksKey(0), ID: w.Last().String(), Values: []any{"h", block}})
	if diff := cmp.Diff(want, b.scanned()); diff != "" || len(want) == 0 {
		t.Errorf("%d entries (-want +got):\n%s", len(want), diff)
	}
}

func TestDamagedBlocksAreMadeAgain(t *testing.T) {
	t.Parallel()
	b := newBlockBench(t)
	ctx, key := t.Context(), b.store.BlocksKey(0)
	b.fillLog(blockFirst, 2*entriesABlock)
	b.compact()
	want := b.scanned()
	blocks := b.rdb.XRange(ctx, key, "-", "+").Val()
	b.rdb.Del(ctx, key)
	for i, e := range blocks {
		block := []byte(e.Values["h"].(string))
		block[len(block)/2] ^= byte(i) // the second one is damaged
		if err := b.rdb.XAdd(ctx, &redis.XAddArgs{Stream: key, ID: e.ID, Values: []any{"h", block}}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	err := b.store.ScanSignals(ctx, 0, func(signal.LogEntry) error { return nil })
	if signal.KindOf(err) != signal.KindUnavailable {
		t.Errorf("a damaged block: %v", err)
	}
	if diff := cmp.Diff(want, b.scanned()); diff != "" {
		t.Errorf("the next pass (-want +got):\n%.2000s", diff)
	}
}

func TestWhoMayCompact(t *testing.T) {
	t.Parallel()
	b := newBlockBench(t)
	ctx := t.Context()
	b.rdb.Set(ctx, b.store.EpochKey(0), blockEpoch+1, 0)
	b.fillLog(blockFirst, 3*entriesABlock+entriesABlock/2)
	if _, err := b.store.Compact(ctx, 0, blockEpoch); signal.KindOf(err) != signal.KindConflict {
		t.Errorf("an old epoch: %v", err)
	}
	b.rdb.Set(ctx, b.store.EpochKey(0), blockEpoch, 0)
	b.rdb.HSet(ctx, b.store.EraseKey(0), "acc", "4 0 0 ")
	if n := b.compact(); n != 0 {
		t.Errorf("%d blocks were made while an account is being erased", n)
	}
	b.rdb.Del(ctx, b.store.EraseKey(0))
	if n := b.compact(); n != 3 {
		t.Errorf("%d blocks after that, want 3", n)
	}
	// The end of an erasing has removed them.
	b.rdb.Del(ctx, b.store.BlocksKey(0))
	if n := b.compact(); n != 3 {
		t.Errorf("%d blocks were made again, want 3", n)
	}
	// Another owner knows from the last block how many entries are behind it, and reads none.
	b.fillLog(blockFirst+5*entriesABlock, entriesABlock/2-1)
	b.rdb.Set(ctx, b.store.EpochKey(0), blockEpoch+1, 0)
	b.rdb.ConfigResetStat(ctx)
	if more, err := b.store.Compact(ctx, 0, blockEpoch+1); more || err != nil {
		t.Errorf("a new owner with too few entries: more %v, %v", more, err)
	}
	if strings.Contains(b.rdb.Info(ctx, "commandstats").Val(), "cmdstat_xrange:") {
		t.Error("a new owner has read the log")
	}
	b.rdb.Set(ctx, b.store.EpochKey(0), blockEpoch, 0)
	b.fillLog(blockFirst+6*entriesABlock, 1)
	if n := b.compact(); n != 4 {
		t.Errorf("%d blocks with one entry more, want 4", n)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := b.store.Compact(cancelled, 0, blockEpoch); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that has ended: %v", err)
	}
}
