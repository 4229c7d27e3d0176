package leaves

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/signals"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// waitLimit bounds what waits for Redis, also on a busy machine.
const waitLimit = 30 * time.Second

// leafBench is the Merkle logs of a Redis of its own, with the log that writes signals, and the
// leases of two partitions.
type leafBench struct {
	testing.TB
	server *redistest.Server
	rdb    *redis.Client
	store  *Store
	leases *eventlog.Store
	log    *eventlog.Log
	epochs []int64
	keys   *record.Keys
}

func newLeafBench(tb testing.TB) *leafBench {
	tb.Helper()
	server := redistest.New(tb)
	c := storetest.Client(tb, redisclient.Options{URL: server.URL(), Partitions: 2, Timeout: waitLimit})
	b := &leafBench{TB: tb, server: server, rdb: server.Client(), store: New(c), leases: eventlog.New(c)}
	b.log = storetest.Closing(tb, eventlog.NewLog(b.leases, eventlog.LogOptions{AppendTimeout: waitLimit}))
	key, err := record.NewKey("")
	if err == nil {
		b.keys, err = record.ParseKeys(key)
	}
	if err != nil {
		tb.Fatal(err)
	}
	for p := range 2 {
		b.epochs = append(b.epochs, storetest.Take(tb, b.leases.Leases, p, "n1", time.Minute))
	}
	return b
}

// place is where a signal was created and closed.
type place struct {
	signal          *signal.Signal
	created, closed signal.Position
}

// create appends the creation of a signal, and its closing.
func (b *leafBench) create(account signal.AccountID, closed bool) place {
	b.Helper()
	s := storetest.Signal(account)
	at, err := b.log.Append(b.Context(), storetest.Created(s))
	if err != nil {
		b.Fatal(err)
	}
	p := place{signal: s, created: at}
	if closed {
		exit := 62900.125
		done := *s
		done.Sequence, done.Metadata, done.Confidence = 2, nil, .9
		done.Closing = &signal.Closing{Reason: signal.StopLoss, At: at.Time().Add(time.Second), ExitPrice: &exit}
		event := signal.Event{Type: signal.SignalClosed, Data: []byte(`{}`)}
		p.closed, err = b.log.Append(b.Context(), signal.Change{Account: account, Signal: &done,
			Events: []signal.Event{event}})
		if err != nil {
			b.Fatal(err)
		}
	}
	return p
}

// appendAll appends the leaves of a partition until there are no more.
func (b *leafBench) appendAll(s *Store, p int) (total int) {
	b.Helper()
	for more := true; more; {
		var n int
		var err error
		if n, more, err = s.AppendLeaves(b.Context(), p, b.epochs[p]); err != nil {
			b.Fatal(err)
		}
		total += n
	}
	return total
}

// sign signs and stores the next checkpoint.
func (b *leafBench) sign() *record.Signed {
	b.Helper()
	heads, err := b.store.LogHeads(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	root := &record.Tree{}
	if last, err := b.store.Checkpoint(b.Context()); err == nil {
		if root, err = b.store.RootTree(b.Context(), last.Root); err != nil {
			b.Fatal(err)
		}
	}
	heads.At = time.Now().UTC().Truncate(time.Second)
	c, pieces, err := b.keys.Sign(root, *heads)
	if err == nil {
		err = b.store.StoreCheckpoint(b.Context(), b.epochs[0], c, nil, pieces)
	}
	if err != nil {
		b.Fatal(err)
	}
	stored, err := b.store.Checkpoint(b.Context())
	if err != nil || !reflect.DeepEqual(stored, c) {
		b.Fatalf("the stored checkpoint is %+v, %v, want %+v", stored, err, c)
	}
	v, err := note.NewVerifier(b.keys.Public()[0])
	if err != nil {
		b.Fatal(err)
	}
	if _, err := verify.Open(stored.Note, v); err != nil {
		b.Fatal(err)
	}
	return c
}

// open returns what the leaf at a position says, verified.
func (b *leafBench) open(c *record.Signed, account signal.AccountID, at signal.Position) (*verify.Leaf, *verify.Recorded) {
	b.Helper()
	p := b.store.Partition(account)
	l, err := b.store.OpenLeaf(b.Context(), p, account, at, c.Logs[p])
	if err != nil {
		b.Fatal(err)
	}
	e, err := c.Holds(l)
	if err != nil {
		b.Fatalf("%s: %v", l.Text, err)
	}
	return l, e
}

// wantWhole checks that the leaves of a partition are those of its signal log, in its order.
func (b *leafBench) wantWhole(p int) {
	b.Helper()
	entries := b.rdb.XRange(b.Context(), b.store.SignalsKey(p), "-", "+").Val()
	places := b.rdb.XRange(b.Context(), b.store.LeavesKey(p), "-", "+").Val()
	if len(entries) != len(places) {
		b.Fatalf("%d leaves for %d entries", len(places), len(entries))
	}
	for i := range entries {
		place, err := codec.DecodeLeafPlace([]byte(places[i].Values["h"].(string)))
		if err != nil || place.Index != int64(i)+place.Months || places[i].ID != entries[i].ID {
			b.Fatalf("leaf %d is %v of %s, %v; want it of %s", i, place, places[i].ID, err, entries[i].ID)
		}
	}
	head, err := logHead(b.Context(), b.store.Client, p)
	if err != nil || head.Size != int64(len(entries))+head.Months || head.UpTo.String() != entries[len(entries)-1].ID {
		b.Fatalf("head %v, %v of %d entries", head, err, len(entries))
	}
}

func TestLeavesOfSignals(t *testing.T) {
	t.Parallel()
	b := newLeafBench(t)
	mine, other := storetest.AccountIn(b.store, 1), storetest.AccountIn(b.store, 1)
	var places []place
	for range 100 { // more than a tile
		places = append(places, b.create(mine, true))
		b.create(other, false)
	}
	if n := b.appendAll(b.store, 1); n != 300 {
		t.Errorf("%d leaves were appended, want 300", n)
	}
	b.wantWhole(1)
	older := b.sign()
	late := b.create(mine, true)
	if _, err := b.store.OpenLeaf(t.Context(), 1, mine, late.created, older.Logs[1]); !errors.Is(err, ErrNotSigned) {
		t.Errorf("a leaf that is not appended: %v", err)
	}
	b.appendAll(New(b.store.Client), 1) // by another process, which knows nothing
	if _, err := b.store.OpenLeaf(t.Context(), 1, mine, late.created, older.Logs[1]); !errors.Is(err, ErrNotSigned) {
		t.Errorf("a leaf that is not signed: %v", err)
	}
	c := b.sign()
	b.consistent(older, c)
	var entries []*verify.Recorded
	for i, p := range append(places, late) {
		created, e := b.open(c, mine, p.created)
		entries = append(entries, e)
		if e.Kind != "created" || e.Signal != string(p.signal.ID) || e.Created != int64(i+1) || e.Closed != int64(i) {
			t.Fatalf("creation %d is %s", i, created.Text)
		}
		if !strings.Contains(created.Text, `"initial_confidence":0.4372,"entry_price":64250.125,`) {
			t.Fatalf("creation %d is %s", i, created.Text)
		}
		closed, e := b.open(c, mine, p.closed)
		entries = append(entries, e)
		if e.Kind != "closed" || e.Closed != int64(i+1) || !strings.Contains(closed.Text, `"final_confidence":0.9,`) {
			t.Fatalf("closing %d is %s", i, closed.Text)
		}
	}
	if _, last, err := c.Complete(entries); err != nil || last.Closed != 101 {
		t.Errorf("all: %+v %v", last, err)
	}
	if _, err := b.store.OpenLeaf(t.Context(), 1, other, places[0].created, c.Logs[1]); err == nil {
		t.Error("an account opens the leaf of another")
	}
	tile, err := b.store.Tile(t.Context(), 1, tlog.Tile{H: record.TileHeight, L: 0, N: 1, W: 46})
	if err != nil || len(tile) != 46*tlog.HashSize {
		t.Errorf("tile of %d bytes, %v", len(tile), err)
	}
	_, err = b.store.Tile(t.Context(), 1, tlog.Tile{H: record.TileHeight, L: 0, N: 1, W: 47})
	storetest.WantKind(t, "a tile that is not there yet", err, signal.KindNotFound)
}

// TestLeavesAreReadByTheirEntries checks what scorecards read of leaves, over several pages.
func TestLeavesAreReadByTheirEntries(t *testing.T) {
	t.Parallel()
	b := newLeafBench(t)
	type leaf struct {
		at            signal.Position
		index, signed int64
	}
	mine, other := storetest.AccountIn(b.store, 1), storetest.AccountIn(b.store, 1)
	var want []leaf
	var places []place
	for range eventlog.ScanEntries / 2 {
		places = append(places, b.create(mine, true), b.create(other, false))
	}
	for _, p := range places[:4] {
		want = append(want, leaf{p.created, int64(len(want)), 0})
		if p.closed != (signal.Position{}) {
			want = append(want, leaf{p.closed, int64(len(want)), 0})
		}
	}
	read := func(from, to signal.Position) (got []leaf) {
		err := signals.New(b.leases).EachLeaf(t.Context(), mine, from, to, func(at signal.Position, index, signed int64) {
			got = append(got, leaf{at, index, signed})
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	last := places[len(places)-1].created
	if got := read(places[0].created, last); got != nil {
		t.Errorf("before there are leaves: %v", got)
	}
	b.appendAll(b.store, 1)
	if got := read(places[0].created, places[3].created); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	got := read(places[1].created, last)
	for i, l := range got {
		if l.index != int64(i)+2 {
			t.Fatalf("leaf %d is %+v", i, l)
		}
	}
	if n := eventlog.ScanEntries/2*3 - 2; len(got) != n || got[n-1].at != last {
		t.Errorf("%d leaves, want %d up to %v", len(got), n, last)
	}
	size := b.sign().Logs[1].N
	late := b.create(mine, true)
	b.appendAll(New(b.store.Client), 1)
	if got := read(late.closed, late.closed); !slices.Equal(got, []leaf{{late.closed, size + 1, size}}) {
		t.Errorf("a closing after a checkpoint of %d leaves: %v", size, got)
	}
}

// TestLeavesAreAppendedOnce has several processes of one owner append at the same time, some of
// which do not get the reply.
func TestLeavesAreAppendedOnce(t *testing.T) {
	t.Parallel()
	b := newLeafBench(t)
	account := storetest.AccountIn(b.store, 0)
	var work sync.WaitGroup
	for range 4 {
		s := New(b.store.Client)
		work.Go(func() {
			for i := range 40 {
				// Redis may fail to answer in time: that must not change what is stored.
				_, _, err := s.AppendLeaves(b.Context(), 0, b.epochs[0])
				if err != nil && signal.KindOf(err) != signal.KindUnavailable {
					t.Error(err)
				}
				if i%7 == 3 { // it ends, and another one begins with what is stored
					s = New(b.store.Client)
				}
				if i%5 == 2 { // the last batch was stored and its reply lost: it is sent again
					s.appenders[0].head = codec.LogHead{}
				}
			}
		})
	}
	for range 100 {
		b.create(account, true)
	}
	work.Wait()
	b.appendAll(b.store, 0)
	b.wantWhole(0)
}

func TestAFormerOwnerAppendsNothing(t *testing.T) {
	t.Parallel()
	b := newLeafBench(t)
	account := storetest.AccountIn(b.store, 0)
	b.create(account, true)
	b.appendAll(b.store, 0)
	before := b.sign()
	former := b.epochs[0]
	storetest.Must(t, b.leases.Leases.ReleaseLease(t.Context(), 0, "n1", former))
	b.epochs[0] = storetest.Take(t, b.leases.Leases, 0, "n2", time.Minute)
	b.create(account, true)
	_, _, err := b.store.AppendLeaves(t.Context(), 0, former)
	storetest.WantError(t, err, signal.KindConflict, signal.CodeNotOwner)
	next, pieces, _ := b.keys.Sign(&record.Tree{}, before.Heads)
	err = b.store.StoreCheckpoint(t.Context(), former, next, nil, pieces)
	storetest.WantError(t, err, signal.KindConflict, signal.CodeNotOwner)
	if n := b.rdb.XLen(t.Context(), b.store.LeavesKey(0)).Val(); n != 2 {
		t.Errorf("%d leaves, want 2", n)
	}
	b.appendAll(b.store, 0)
	b.wantWhole(0)
}

func TestAnUnreadableEntryHasALeaf(t *testing.T) {
	t.Parallel()
	b := newLeafBench(t)
	account := storetest.AccountIn(b.store, 0)
	bad := b.create(account, false).created.Plus(1)
	err := b.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: b.store.SignalsKey(0), ID: bad.String(),
		Values: []string{"h", "\x07nonsense"}}).Err()
	if err != nil {
		t.Fatal(err)
	}
	p := b.create(account, false)
	b.appendAll(b.store, 0)
	b.wantWhole(0)
	if _, e := b.open(b.sign(), account, p.created); e.Created != 2 {
		t.Errorf("the next leaf is %+v", e)
	}
	storetest.Must(t, b.rdb.HSet(t.Context(), b.store.LeafAccountsKey(0), string(account), "\x07x").Err())
	b.create(account, false)
	if n := b.appendAll(New(b.store.Client), 0); n != 1 {
		t.Errorf("%d leaves without a salt", n)
	}
	b.wantWhole(0)
}

func TestTilesThatWereChangedAreRefused(t *testing.T) {
	t.Parallel()
	b := newLeafBench(t)
	account := storetest.AccountIn(b.store, 0)
	first := b.create(account, true)
	b.create(account, true)
	b.appendAll(b.store, 0)
	c := b.sign()
	storetest.Must(t, b.rdb.SetRange(t.Context(), b.store.TileKey(0, 0, 0), 70, "forged").Err())
	if _, err := b.store.OpenLeaf(t.Context(), 0, account, first.created, c.Logs[0]); err == nil {
		t.Error("a leaf is proved by forged hashes")
	}
	b.create(account, true)
	if _, _, err := New(b.store.Client).AppendLeaves(t.Context(), 0, b.epochs[0]); err == nil {
		t.Error("leaves are appended to a forged log")
	}
}

func TestErasedSaltsOpenNothing(t *testing.T) {
	t.Parallel()
	b := newLeafBench(t)
	account := storetest.AccountIn(b.store, 0)
	p := b.create(account, true)
	b.appendAll(b.store, 0)
	c := b.sign()
	b.open(c, account, p.created)
	storetest.Must(t, b.store.EraseAccount(t.Context(), 0, account, record.Tallies{{Agent: "trading", Signals: 3, Won: 1}}))
	_, err := b.store.OpenLeaf(t.Context(), 0, account, p.created, c.Logs[0])
	storetest.WantKind(t, "a leaf without its salt", err, signal.KindNotFound)
	if heads, err := b.store.LogHeads(t.Context()); err != nil || !slices.Equal(heads.Logs, c.Logs) ||
		c.Accounts != 1 || c.Erased != 0 || heads.Accounts != 1 || heads.Erased != 1 {
		t.Errorf("heads %+v, %v; they were %+v", heads, err, c.Heads)
	}
	// Again, as after a crash.
	storetest.Must(t, b.store.EraseAccount(t.Context(), 0, account, record.Tallies{{Agent: "trading", Signals: 3}}))
	b.create(storetest.AccountIn(b.store, 0), true)
	b.create(storetest.AccountIn(b.store, 1), false)
	for p := range 2 {
		b.appendAll(b.store, p)
	}
	if after := b.sign(); after.Accounts != 3 || after.Erased != 1 || after.Gone != "trading=3/1/0" {
		t.Errorf("%d accounts, %d of them erased with %q, want 3 and 1", after.Accounts, after.Erased, after.Gone)
	} else {
		b.consistent(c, after)
	}
}

func TestNoCheckpointYet(t *testing.T) {
	t.Parallel()
	b := newLeafBench(t)
	_, err := b.store.Checkpoint(t.Context())
	storetest.WantKind(t, "no checkpoint", err, signal.KindNotFound)
	c := b.sign() // of nothing
	if c.Size() != 0 {
		t.Errorf("%+v", c)
	}
	b.create(storetest.AccountIn(b.store, 1), false)
	b.appendAll(b.store, 1)
	if n, err := b.store.CountLeaves(t.Context()); n != 1 || err != nil {
		t.Errorf("%d leaves, %v", n, err)
	}
	b.consistent(c, b.sign())
}

// TestTheRootLogHasAnEntryForEachCheckpoint, and proves each of them.
func TestTheRootLogHasAnEntryForEachCheckpoint(t *testing.T) {
	t.Parallel()
	b := newLeafBench(t)
	accounts := []signal.AccountID{storetest.AccountIn(b.store, 0), storetest.AccountIn(b.store, 1)}
	var signed []*record.Signed
	for i := range 300 { // more than a tile
		for range i % 4 {
			b.create(accounts[i%2], true)
		}
		b.appendAll(b.store, i%2)
		signed = append(signed, b.sign())
	}
	newest := signed[len(signed)-1]
	texts, err := b.store.Entries(t.Context(), 0, len(signed), newest.Checkpoint)
	storetest.Must(t, err)
	for i, c := range signed {
		if texts[i] != c.Entry.Text {
			t.Fatalf("entry %d is %s, and was signed as %s", i, texts[i], c.Entry.Text)
		}
		if i%37 > 0 {
			continue
		}
		at, err := b.store.CheckpointAt(t.Context(), c.Root.N, newest)
		storetest.Must(t, err)
		if at.Root != c.Root || !reflect.DeepEqual(at.Heads, c.Heads) {
			t.Errorf("checkpoint %d is %+v, and was %+v", c.Root.N, at.Checkpoint, c.Checkpoint)
		}
		b.consistent(c, newest)
	}
	tile, err := b.store.RootTile(t.Context(), tlog.Tile{H: record.TileHeight, L: 0, N: 1, W: 44})
	if err != nil || len(tile) != 44*tlog.HashSize {
		t.Errorf("a tile of %d bytes, %v", len(tile), err)
	}
	for _, size := range []int64{0, 301} {
		_, err := b.store.CheckpointAt(t.Context(), size, newest)
		storetest.WantKind(t, "a checkpoint that there is not", err, signal.KindNotFound)
	}
	// A checkpoint whose reply was lost, and one after a root log that was rolled back.
	root, err := b.store.RootTree(t.Context(), signed[298].Root)
	storetest.Must(t, err)
	c, pieces, err := b.keys.Sign(root, newest.Heads)
	storetest.Must(t, err)
	if err := b.store.StoreCheckpoint(t.Context(), b.epochs[0], c, nil, pieces); err == nil ||
		!strings.Contains(err.Error(), "the root log has not 299 entries") {
		t.Errorf("a second checkpoint of 300 entries: %v", err)
	}
}

// consistent checks the proof that a checkpoint begins with an older one.
func (b *leafBench) consistent(older, newer *record.Signed) {
	b.Helper()
	g, err := b.store.Growth(b.Context(), older.Checkpoint, newer.Checkpoint)
	if err == nil {
		err = g.Consistent(older.Checkpoint, newer.Checkpoint)
	}
	if err != nil {
		b.Error(err)
	}
}

// BenchmarkAppendLeaves reports what a leaf takes.
func BenchmarkAppendLeaves(b *testing.B) {
	l := newLeafBench(b)
	const batch = 500
	account := storetest.AccountIn(l.store, 0)
	header := codec.AppendRecord(nil, storetest.Signal(account), time.Now())
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		for j := range batch {
			l.rdb.XAdd(b.Context(), &redis.XAddArgs{Stream: l.store.SignalsKey(0),
				ID: fmt.Sprintf("%d-%d", 1795253400000+i*100, j), Values: []any{"h", header}})
		}
		b.StartTimer()
		l.appendAll(l.store, 0)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/leaf")
}

func TestNewestCountersignedCheckpointIsKept(t *testing.T) {
	t.Parallel()
	b := newLeafBench(t)
	store := func(key string, size int64, more string) {
		t.Helper()
		text := fmt.Sprintf("name\n%d\nroot\n\n%s", size, more)
		signed := record.Countersigned{Key: key, Size: size, Note: []byte(text)}
		storetest.Must(t, b.store.StoreCountersigned(t.Context(), signed))
	}
	want := func(key, more string) {
		t.Helper()
		all, err := b.store.Countersigned(t.Context())
		if err != nil || !strings.HasSuffix(all[key], "\n\n"+more) {
			t.Errorf("of %s %q is stored, %v; want %s", key, all[key], err, more)
		}
	}
	store("first", 9, "a")
	store("second", 100, "b")
	want("first", "a")
	store("first", 10, "c")
	want("first", "c")
	store("first", 9, "d")
	want("first", "c")
	store("first", 10, "e") // again, with a signature by another key
	want("first", "e")
	want("second", "b")
}

// TestShortenedLogsAreFound, and trimming or erasing entries shortens no log.
func TestShortenedLogsAreFound(t *testing.T) {
	t.Parallel()
	b := newLeafBench(t)
	rdb := b.store.RDB
	want := func(what string, want ...int) {
		t.Helper()
		if got, err := b.store.Shortened(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: shortened are %v, %v; want %v", what, got, err, want)
		}
	}
	want("nothing is there")
	account := signal.NewAccountID()
	p := b.store.Partition(account)
	key := b.store.SignalsKey(p)
	var all []place
	for range 3 {
		all = append(all, b.create(account, false))
	}
	b.appendAll(b.store, p)
	want("all is there")
	rdb.XDel(t.Context(), key, all[2].created.String())
	want("one is erased")
	rdb.XTrimMaxLen(t.Context(), key, 0)
	want("all are trimmed")
	rdb.Del(t.Context(), key)
	want("the log is deleted", p)
	b.create(account, true)
	b.appendAll(b.store, p)
	want("it goes on", p)
}

func TestTheStoreInsideAProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, 5, map[string][]string{
		"it is too slow for as much":           {"TestLeavesOfSignals", "TestLeavesAreAppendedOnce"},
		"its XINFO STREAM lacks entries-added": {"TestShortenedLogsAreFound"},
	})
}

func TestMain(m *testing.M) { storetest.Main(m) }
