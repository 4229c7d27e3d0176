package signals

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
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

// blockBench is a log of partition 0, whose blocks are small.
type blockBench struct {
	*logBench
	random *rand.Rand
	open   []signal.Position
}

func newBlockBench(t *testing.T) *blockBench {
	b := newLogBench(t, 4)
	b.store.blockEntries = entriesABlock
	b.rdb.Set(t.Context(), b.store.EpochKey(0), blockEpoch, 0)
	return &blockBench{logBench: b, random: rand.New(rand.NewPCG(1, 2))}
}

// fillLog appends n entries to the signal log of partition 0, one a millisecond from first on: trading,
// weather and content signals, of which half are closed later. Every tenth entry is of a version
// that nothing here reads.
func (b *blockBench) fillLog(first int64, n int) {
	b.Helper()
	pipe := b.rdb.Pipeline()
	account, metadata := storetest.AccountIn(b.store, 0), []string{"{}", "7 is not a form", `{"tau":1}`, `{"prior":0.25}`}
	for i := range n {
		s := storetest.Signal(account)
		at := signal.Position{MS: first + int64(i), Seq: 1 + b.random.Int64N(3)}
		record, m := "", "{}"
		switch kind := b.random.IntN(6); {
		case i%10 == 9:
			record = "\x09\x01"
		case kind < 3 && len(b.open) > 0:
			k := b.random.IntN(len(b.open))
			s.Closing = &signal.Closing{Reason: signal.Expired}
			if gain := float64(b.random.IntN(3) - 1); b.random.IntN(4) > 0 {
				s.Closing.PnLAbsolute = &gain
			}
			record = string(codec.AppendClosed([]byte(fmt.Sprint(b.open[k], " ", at, " ")), s))
			b.open = slices.Delete(b.open, k, k+1)
		case kind == 3:
			s.Agent, s.Levels = "seo", nil
			fallthrough
		default:
			if kind > 3 {
				s.Agent, s.Weather = "weather", &signal.Outlook{Commodity: "corn", Likelihood: b.random.Float64()}
				m = metadata[b.random.IntN(len(metadata))]
			}
			record = string(codec.AppendRecord(nil, s, time.Time{}))
			b.open = append(b.open, at)
		}
		pipe.XAdd(b.Context(), &redis.XAddArgs{Stream: b.store.SignalsKey(0), ID: at.String(),
			Values: []string{"h", record, "m", m}})
	}
	if _, err := pipe.Exec(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// compact makes all blocks that there are to make, and returns how many partition 0 has.
func (b *blockBench) compact() int {
	b.Helper()
	for more := true; more; {
		var err error
		if more, err = b.store.Compact(b.Context(), 0, blockEpoch); err != nil {
			b.Fatal(err)
		}
	}
	return int(b.rdb.XLen(b.Context(), b.store.BlocksKey(0)).Val())
}

// scanned returns what a pass over partition 0 finds, for lists and for the fit of weather slopes.
func (b *blockBench) scanned() []string {
	b.Helper()
	return append(b.listed(), b.fitted(signal.Position{})...)
}

func (b *blockBench) listed() (entries []string) {
	b.Helper()
	if err := b.store.ScanSignals(b.Context(), 0, func(e signal.LogEntry) error {
		entries = append(entries, fmt.Sprint(e.ULID, e.Position, e.Origin, e.Closed, e.Created != nil))
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	return entries
}

// fitted returns what the fit finds after a position, and up to where.
func (b *blockBench) fitted(after signal.Position) (entries []string) {
	b.Helper()
	upTo, err := b.store.EachWeatherEntry(b.Context(), 0, after, func(e *signal.WeatherEntry) {
		entries = append(entries, fmt.Sprintf("%+v", *e))
	})
	if err != nil {
		b.Fatal(err)
	}
	return append(entries, fmt.Sprint("up to ", upTo))
}

// fromLog returns what a pass finds without blocks.
func (b *blockBench) fromLog(pass func() []string) []string {
	b.Helper()
	key := b.store.BlocksKey(0)
	kept := b.rdb.Dump(b.Context(), key).Val()
	b.rdb.Del(b.Context(), key)
	entries := pass()
	if kept != "" {
		b.rdb.RestoreReplace(b.Context(), key, 0, kept)
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
		got, want := b.scanned(), b.fromLog(b.scanned)
		if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
			t.Errorf("%s: %d entries of the log are %d by blocks:\n%.2000s", what, len(want), len(got), diff)
		}
		for n := int64(0); n < 20*entriesABlock; n += entriesABlock*3/2 - 1 {
			later := func() []string { return b.fitted(signal.Position{MS: first + n, Seq: 2}) }
			if diff := cmp.Diff(b.fromLog(later), later()); diff != "" {
				t.Errorf("%s, after %d ms (-want +got):\n%.2000s", what, n, diff)
			}
		}
	}
	b.fillLog(first, entriesABlock-1)
	compare("too few for a block", 0)
	b.fillLog(first+entriesABlock-1, 1)
	compare("just enough", 1)
	b.fillLog(first+entriesABlock, 8*entriesABlock+5)
	compare("nine and a rest", 9)

	// They are read, not the log: what the log no longer has beyond its first entry is found.
	before := b.scanned()
	entries := b.rdb.XRange(ctx, log, "-", "+").Val()
	var erased []string
	for _, e := range entries[1 : 2*entriesABlock] {
		if e.Values["h"] != "\x09\x01" && e.Values["m"] != "7 is not a form" { // those are marks
			erased = append(erased, e.ID)
		}
	}
	b.rdb.XDel(ctx, log, erased...)
	if diff := cmp.Diff(before, b.scanned()); diff != "" {
		t.Errorf("the blocks are not read (-want +got):\n%.2000s", diff)
	}
	b.rdb.Del(ctx, key) // as the end of an erasing
	compare("an account was erased", (9*entriesABlock+5-len(erased))/entriesABlock)

	blocks := b.rdb.XRange(ctx, key, "-", "+").Val()
	n := len(blocks)
	b.rdb.XTrimMinID(ctx, log, fmt.Sprint(first+3*entriesABlock-2))
	compare("the log begins within a block", n)
	b.rdb.XTrimMinID(ctx, log, blocks[1].ID)
	b.rdb.XDel(ctx, log, blocks[1].ID)
	b.fillLog(first+9*entriesABlock+5, entriesABlock)
	compare("the log begins after a block", n-1)
	second := b.rdb.XRange(ctx, key, "-", "+").Val()[1]
	b.rdb.XDel(ctx, key, second.ID)
	compare("a block is missing", n-2)

	b.rdb.Del(ctx, log)
	if got := b.scanned(); len(got) != 1 || got[0] != "up to 0-0" {
		t.Errorf("a log that was deleted has %d entries", len(got))
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
	b.fillLog(blockFirst, 40)
	want := b.scanned()
	w := codec.NewBlockWriter(signal.Position{})
	for _, e := range b.rdb.XRange(t.Context(), b.store.SignalsKey(0), "-", "+").Val() {
		at, _ := signal.ParsePosition(e.ID)
		w.Add(&signal.LogEntry{Position: at})
		w.AddWeather(&signal.WeatherEntry{Position: at})
	}
	lists, weather, err := w.Encode()
	if err != nil {
		t.Fatal(err)
	}
	b.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: b.store.BlocksKey(0), ID: w.Last().String(),
		Values: []any{"h", lists, "m", weather}})
	if diff := cmp.Diff(want, b.scanned()); diff != "" || len(want) == 0 {
		t.Errorf("%d entries (-want +got):\n%s", len(want), diff)
	}

	b.fillLog(blockFirst+40, entriesABlock-40)
	b.rdb.Del(t.Context(), b.store.BlocksKey(0))
	b.compact()
	marks := [2]int{}
	b.changeBlocks(func(_ int, part string, packed []byte) []byte {
		block, err := codec.OpenBlock(packed, nil)
		if err != nil {
			t.Fatal(err)
		}
		if part == "h" {
			block.Each(func(e *signal.LogEntry) error {
				if e.Account == "" {
					marks[0]++
				}
				return nil
			})
			return packed
		}
		block.EachWeather(func(e *signal.WeatherEntry) error {
			if e.Created.IsZero() && e.Prior == 0 {
				marks[1]++
			}
			return nil
		})
		return packed
	})
	if marks[0] != entriesABlock/10 || marks[1] <= marks[0] { // some metadata are not readable, either
		t.Errorf("the maker has left %d and %d marks", marks[0], marks[1])
	}
}

// changeBlocks replaces the parts of blocks by what change returns for them.
func (b *blockBench) changeBlocks(change func(i int, part string, packed []byte) []byte) {
	b.Helper()
	key := b.store.BlocksKey(0)
	blocks := b.rdb.XRange(b.Context(), key, "-", "+").Val()
	b.rdb.Del(b.Context(), key)
	for i, e := range blocks {
		values := []any{"n", e.Values["n"]}
		for _, part := range []string{"h", "m"} {
			values = append(values, part, change(i, part, []byte(e.Values[part].(string))))
		}
		if err := b.rdb.XAdd(b.Context(), &redis.XAddArgs{Stream: key, ID: e.ID, Values: values}).Err(); err != nil {
			b.Fatal(err)
		}
	}
}

// A pass goes on from the log, and the owner makes the blocks again.
func TestDamagedBlocks(t *testing.T) {
	t.Parallel()
	b := newBlockBench(t)
	key := b.store.BlocksKey(0)
	b.fillLog(blockFirst, 3*entriesABlock+7)
	want := b.scanned()
	writer, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for name, damage := range map[string]func([]byte) []byte{
		"a bit is changed": func(packed []byte) []byte {
			packed[len(packed)/2] ^= 1
			return packed
		},
		"its last entry is cut short": func(packed []byte) []byte {
			plain, err := reader.DecodeAll(packed[1:], nil)
			if err != nil {
				t.Fatal(err)
			}
			return writer.EncodeAll(plain[:len(plain)-1], packed[:1])
		},
	} {
		for _, damaged := range []string{"h", "m"} {
			if n := b.compact(); n != 3 {
				t.Fatalf("%d blocks, want 3", n)
			}
			b.changeBlocks(func(i int, part string, packed []byte) []byte {
				if i == 1 && part == damaged {
					return damage(packed)
				}
				return packed
			})
			if diff := cmp.Diff(want, b.scanned()); diff != "" {
				t.Errorf("%s of part %s (-want +got):\n%.2000s", name, damaged, diff)
			}
			if n := b.rdb.XLen(t.Context(), key).Val(); n != 0 {
				t.Errorf("%s of part %s: %d blocks are left", name, damaged, n)
			}
		}
	}
}

// During an upgrade two builds own the partition in turns.
func TestBlocksOfOtherBuilds(t *testing.T) {
	t.Parallel()
	b := newBlockBench(t)
	ctx, key, log := t.Context(), b.store.BlocksKey(0), b.store.SignalsKey(0)
	epoch := int64(blockEpoch)
	// takeOver is a new owner of this build. It returns how many blocks it has made.
	takeOver := func() (made int) {
		epoch++
		b.rdb.Set(ctx, b.store.EpochKey(0), epoch, 0)
		for more := true; more; made++ {
			var err error
			if more, err = b.store.Compact(ctx, 0, epoch); err != nil {
				t.Fatal(err)
			}
		}
		return made - 1
	}
	agrees := func(what string) {
		t.Helper()
		if diff := cmp.Diff(b.fromLog(b.scanned), b.scanned()); diff != "" {
			t.Errorf("%s (-want +got):\n%.2000s", what, diff)
		}
	}
	b.fillLog(blockFirst, 3*entriesABlock)
	if n := takeOver(); n != 3 {
		t.Fatalf("%d blocks, want 3", n)
	}

	// A later build has made both parts of the last one, or changed one of them.
	b.fillLog(blockFirst+3*entriesABlock, 2*entriesABlock)
	for _, changed := range []string{"h", "m", "hm"} {
		b.changeBlocks(func(i int, part string, packed []byte) []byte {
			if i > 0 && strings.Contains(changed, part) {
				packed[0] = 2
			}
			return packed
		})
		before := b.rdb.XRange(ctx, key, "-", "+").Val()
		agrees("a later build has changed " + changed)
		if n := takeOver(); n != 0 {
			t.Errorf("%d blocks are made behind those of a later build", n)
		}
		if diff := cmp.Diff(before, b.rdb.XRange(ctx, key, "-", "+").Val()); diff != "" {
			t.Errorf("the blocks of a later build are not left alone: %.2000s", diff)
		}
	}
	// It does not come back.
	b.rdb.XTrimMinID(ctx, log, fmt.Sprint(blockFirst+3*entriesABlock+1))
	if takeOver(); b.rdb.Exists(ctx, key).Val() != 0 {
		t.Error("the blocks of a later build are kept longer than the log")
	}
	if n := takeOver(); n != 1 {
		t.Errorf("%d blocks are made after them, want 1", n)
	}
	agrees("after the later build")
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
