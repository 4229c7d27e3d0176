package dashboard

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// newFinder returns a resumer on a journal whose events go to the ring directly, without
// a hub. There are listeners for alice and bob.
func newFinder(tb testing.TB, change func(*Options)) (*resumer, *journal) {
	j := newJournal()
	o := Options{Log: j, RingFrames: 1000}
	if change != nil {
		change(&o)
	}
	o = o.withDefaults()
	r := newResumer(newRing(o.RingFrames, o.RingBytes), o)
	j.hub = &Hub{o: o, ring: r.ring, resumer: r, listened: map[signal.AccountID]*listeners{alice: {}, bob: {}}}
	tb.Cleanup(r.close)
	return r, j
}

// findAfter finds what an account missed after a position.
func (r *resumer) findAfter(ctx context.Context, account signal.AccountID, p signal.Position) (replay, error) {
	return r.find(ctx, testPartition, account, everything, p.String())
}

// wantReplay fails the test unless find returns exactly these events.
func wantReplay(t *testing.T, r *resumer, sub *subscription, after signal.Position, want []signal.Position) {
	t.Helper()
	got, err := r.find(t.Context(), testPartition, alice, sub, after.String())
	if err != nil || !got.complete {
		t.Fatalf("resume after %s: complete %v, %v", after, got.complete, err)
	}
	var at []signal.Position
	for _, f := range got.frames {
		at = append(at, f.at)
	}
	if d := cmp.Diff(want, at); d != "" {
		t.Fatalf("resume after %s: %s", after, d)
	}
}

func wantUnknown(t *testing.T, r *resumer, id string) {
	t.Helper()
	got, err := r.find(t.Context(), testPartition, alice, everything, id)
	if got.complete || len(got.frames) > 0 || err != nil {
		t.Fatalf("resume after %s: %+v, %v", id, got, err)
	}
}

// several returns n events of alice, with one of bob between every two.
func several(n int) []signal.Event {
	var events []signal.Event
	for range n {
		events = append(events, created(alice, "BTC"), created(bob, "BTC"))
	}
	return events
}

// every returns every other position: those of alice among several.
func every(p []signal.Position) []signal.Position {
	var list []signal.Position
	for i := 0; i < len(p); i += 2 {
		list = append(list, p[i])
	}
	return list
}

func TestResumeFromTheRing(t *testing.T) {
	t.Parallel()
	r, j := newFinder(t, nil)
	p := every(j.append(several(5)...))
	wantReplay(t, r, everything, p[0], p[1:])
	wantReplay(t, r, everything, p[4], nil)
	if j.reads > 0 {
		t.Errorf("the log was read %d times", j.reads)
	}
}

func TestResumeFromTheLog(t *testing.T) {
	t.Parallel()
	r, j := newFinder(t, nil)
	past := every(j.recordPast(several(3000)...)) // the node starts
	// Nothing has been published yet.
	wantReplay(t, r, everything, past[2990], past[2991:])
	// A part of it has.
	live := every(j.append(several(3)...))
	wantReplay(t, r, everything, past[2995], slices.Concat(past[2996:], live))
	// Before what was read so far.
	wantReplay(t, r, everything, past[0], slices.Concat(past[1:], live))
	reads := j.reads
	wantReplay(t, r, everything, past[100], slices.Concat(past[101:], live))
	wantReplay(t, r, newSubscription(defaultChannels, []string{"ETH"}), past[7], nil)
	if j.reads != reads {
		t.Error("what was read is read again")
	}
	// There is a gap between what was read before and what the ring holds.
	more := every(j.append(several(2000)...))
	wantReplay(t, r, everything, past[2999], append(live, more...))
}

func TestEqualResumesShareARead(t *testing.T) {
	t.Parallel()
	r, j := newFinder(t, nil)
	past := every(j.recordPast(several(50)...))
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { wantReplay(t, r, everything, past[10], past[11:]) })
	}
	wg.Wait()
	if j.reads > 10 {
		t.Errorf("the log was read %d times", j.reads)
	}
}

func TestResumesThatAreNotPossible(t *testing.T) {
	t.Parallel()
	r, j := newFinder(t, func(o *Options) { o.ReplayMessages, o.ReplayEntries = 20, 200 })
	past := j.recordPast(several(150)...)
	for _, id := range []string{"", "garbage", "-", "1-", "-1-0", "1-1", "0-0", "99999999999999-0", "1795253400000-0"} {
		wantUnknown(t, r, id)
	}
	reads := j.reads
	wantUnknown(t, r, past[1].String()) // another account's
	if j.reads > reads+1 {
		t.Errorf("another account's event costs %d reads", j.reads-reads)
	}
	wantUnknown(t, r, past[0].Plus(1000).String()) // no event
	wantUnknown(t, r, past[100].String())          // too many messages
	wantUnknown(t, r, past[0].String())            // too many entries
	recent := every(past[len(past)-10:])
	wantReplay(t, r, everything, recent[0], recent[1:]) // and yet this is possible
	live := j.append(several(3)...)
	wantUnknown(t, r, live[1].String())
	wantUnknown(t, r, live[5].Plus(1).String())

	j.mu.Lock()
	j.events = j.events[len(past)-4:] // trimmed
	j.mu.Unlock()
	r.backfills = map[signal.AccountID]*backfill{}
	wantUnknown(t, r, recent[0].String())

	r.now = func() time.Time { return time.Now().Add(time.Hour + time.Second) }
	wantUnknown(t, r, live[0].String()) // too old
}

// TestAResumeWaitsForTheTail checks that a node does not read events from a log of which
// it has published nothing: they could be published later.
func TestAResumeWaitsForTheTail(t *testing.T) {
	t.Parallel()
	r, j := newFinder(t, nil)
	past := every(j.record(several(3)...))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	got, err := r.findAfter(ctx, alice, past[0])
	if got.complete || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("before the tail has published anything: %+v, %v", got, err)
	}
	j.publish()
	wantReplay(t, r, everything, past[0], past[1:])
}

// TestConcurrentReadsAreBounded also checks that backfills are dropped after a minute
// without use.
func TestConcurrentReadsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, j := newFinder(t, nil)
		var now, peak atomic.Int64
		j.onRead = func(limit int) error {
			if limit == readPage {
				n := now.Add(1)
				for most := peak.Load(); n > most && !peak.CompareAndSwap(most, n); most = peak.Load() {
				}
				time.Sleep(time.Second)
				now.Add(-1)
			}
			return nil
		}
		const accounts = 3 * maxReads
		first := map[signal.AccountID]signal.Position{}
		for range accounts {
			a := signal.NewAccountID()
			first[a] = j.record(created(a, "BTC"))[0]
		}
		j.skip()
		var all sync.WaitGroup
		for account, p := range first {
			all.Go(func() {
				if got, err := r.findAfter(t.Context(), account, p); !got.complete || err != nil {
					t.Errorf("complete is %v, %v", got.complete, err)
				}
			})
		}
		all.Wait()
		if n := peak.Load(); n != maxReads {
			t.Errorf("%d concurrent reads, want %d", n, maxReads)
		}
		stock := func() (accounts, bytes int) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return len(r.backfills), r.held
		}
		if n, bytes := stock(); n != accounts || bytes == 0 {
			t.Errorf("%d accounts have %d bytes", n, bytes)
		}
		time.Sleep(keepRead + time.Second)
		synctest.Wait()
		if n, bytes := stock(); n > 0 || bytes > 0 {
			t.Errorf("%d accounts have %d bytes after a minute", n, bytes)
		}
	})
}

// TestEventsDuringASearchCount checks that with them a replay may exceed the limit.
func TestEventsDuringASearchCount(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *Options) { o.ReplayMessages = 3 })
	past := b.journal.recordPast(created(alice, "BTC"), created(alice, "BTC"), created(alice, "BTC"))
	found, err := b.hub.resumer.findAfter(t.Context(), alice, past[0])
	if err != nil || len(found.frames) != 2 {
		t.Fatalf("%d frames, %v", len(found.frames), err)
	}
	for n, want := range []bool{true, false} {
		b.journal.append(created(alice, "BTC"))
		b.pass()
		p, _ := b.attach()
		b.pass()
		if frames, ok := b.flusher.membership.missed(p, everything, &found); ok != want || want && len(frames) != 3+n {
			t.Errorf("%d events after the search: %d frames, %v", n+1, len(frames), ok)
		}
	}
}

// TestTooFarIsReadOnce checks that a resume after a position too far in the past is
// refused without a read if the node has published the events, and after one read of the
// log otherwise.
func TestTooFarIsReadOnce(t *testing.T) {
	t.Parallel()
	bounded := func(o *Options) { o.ReplayEntries, o.RingFrames = 3*readPage, 100 }
	t.Run("seen", func(t *testing.T) {
		t.Parallel()
		r, j := newFinder(t, bounded)
		var p []signal.Position
		for range 10 {
			p = append(p, j.append(several(readPage/2)...)...)
		}
		for i := range 20 {
			wantUnknown(t, r, p[2*i].String())
		}
		if j.reads > 0 {
			t.Errorf("the log was read %d times", j.reads)
		}
		near := every(p[len(p)-2*readPage:])
		wantReplay(t, r, everything, near[0], near[1:])
	})
	t.Run("unseen", func(t *testing.T) {
		t.Parallel()
		r, j := newFinder(t, bounded)
		past := j.recordPast(several(5 * readPage)...)
		live := j.append(several(100)...)
		wantUnknown(t, r, past[0].String())
		reads := j.reads
		for i := 1; i < 20; i++ {
			wantUnknown(t, r, past[200*i].String())
		}
		if j.reads != reads {
			t.Errorf("the log was read %d times after it was known to be too long", j.reads-reads)
		}
		near := every(append(past[len(past)-2*readPage:], live...))
		wantReplay(t, r, everything, near[0], near[1:])
		// Published events are added to those counted by the read.
		for range 4 {
			j.append(several(readPage / 2)...)
		}
		r.backfills = map[signal.AccountID]*backfill{}
		reads = j.reads
		wantUnknown(t, r, near[0].String())
		if j.reads != reads {
			t.Errorf("the log was read %d times", j.reads-reads)
		}
	})
}

// TestEntryCountsNeverExceed compares with the true counts: exceed is never wrong when it
// reports true, and reports true if the limit is exceeded by two milestones or more.
func TestEntryCountsNeverExceed(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 3))
	for range 50 {
		x := newEntryCounts(time.Hour)
		const unseen = 40_000
		n := int64(unseen) // entry k is at millisecond k
		for n < unseen+60_000 {
			step := 1 + rnd.Int64N(700)
			n += step
			x.published(0, at(n), int(step))
			if rnd.IntN(40) == 0 {
				var list []milestone
				from := rnd.Int64N(n)
				for k := from; k < n; k += readPage {
					list = append(list, milestone{at(k), k - from})
				}
				x.read(0, list)
			}
			from, until, limit := rnd.Int64N(n), rnd.Int64N(n)+1, rnd.IntN(30_000)
			between := until - from
			exceeds := x.exceed(0, at(from), at(until), limit)
			if exceeds && between <= int64(limit) {
				t.Fatalf("%d entries after %d are more than %d", between, from, limit)
			}
			if !exceeds && from > unseen && between > int64(limit)+2*milestoneEvery+1400 {
				t.Fatalf("%d entries after %d are not more than %d", between, from, limit)
			}
			if got := x.exceed(0, at(from), signal.Position{}, limit); got && n-from <= int64(limit) {
				t.Fatalf("%d entries after %d, to the end, are more than %d", n-from, from, limit)
			}
		}
	}
	x := newEntryCounts(time.Hour)
	for k := range int64(3) {
		x.published(0, at(k), milestoneEvery)
	}
	for _, until := range []signal.Position{at(1), {}} {
		between := int(until.MS) * milestoneEvery
		if until.IsZero() {
			between = 2 * milestoneEvery
		}
		if x.exceed(0, at(0), until, between) || !x.exceed(0, at(0), until, between-1) {
			t.Errorf("%d entries until %v are more than %d, or no more than one less", between, until, between)
		}
	}
	x = newEntryCounts(time.Second)
	for k := range int64(100) {
		x.published(0, at(k*1000), milestoneEvery)
	}
	if k := len(x.parts[0].milestones); k > 3 {
		t.Errorf("%d milestones of 100 s are kept for 1 s", k)
	}
}

// TestBytesOfBackfillsAreBounded checks that unused backfills are dropped for a new one,
// which is refused if it alone is too large.
func TestBytesOfBackfillsAreBounded(t *testing.T) {
	t.Parallel()
	const each = 100
	r, j := newFinder(t, func(o *Options) { o.ReplayBytes = 100_000 })
	first := map[signal.AccountID]signal.Position{}
	carol := signal.NewAccountID()
	for account, bytes := range map[signal.AccountID]int{alice: 200, bob: 300, carol: 2000} {
		e := bulky(bytes)
		e.Account = account
		first[account] = j.record(slices.Repeat([]signal.Event{e}, each)...)[0]
	}
	j.skip()
	find := func(account signal.AccountID, want bool) {
		t.Helper()
		got, err := r.findAfter(t.Context(), account, first[account])
		if err != nil || got.complete != want || want && len(got.frames) != each-1 {
			t.Fatalf("complete is %v with %d frames, want %v; %v", got.complete, len(got.frames), want, err)
		}
	}
	check := func(accounts ...signal.AccountID) {
		t.Helper()
		held := 0
		for account, b := range r.backfills {
			for _, f := range b.frames {
				held += len(f.text) + frameOverhead
			}
			if len(b.frames) > 0 && !slices.Contains(accounts, account) {
				t.Errorf("%d frames of %s are kept", len(b.frames), account)
			}
		}
		if r.held != held || held > 100_000 || held == 0 != (len(accounts) == 0) {
			t.Errorf("%d bytes are counted, %d are held", r.held, held)
		}
	}
	find(alice, true)
	check(alice)
	find(bob, true) // not both
	check(bob)
	find(carol, false)
	check()
	find(alice, true)
	check(alice)
	j.fail = errors.New("out of order")
	if _, err := r.findAfter(t.Context(), bob, first[bob]); !errors.Is(err, j.fail) {
		t.Error(err)
	}
	j.fail = nil
	check(alice)
	// A failure after the first pages frees their bytes.
	pages := 0
	j.onRead = func(limit int) error {
		if limit == readPage {
			if pages++; pages > 1 {
				return errors.New("out of order")
			}
		}
		return nil
	}
	if got, err := r.findAfter(t.Context(), bob, first[bob]); got.complete || err == nil {
		t.Errorf("complete is %v, %v", got.complete, err)
	}
	check()
	r.close()
	check()
}

func TestResumeWhenTheLogCannotBeRead(t *testing.T) {
	t.Parallel()
	r, j := newFinder(t, nil)
	past := j.recordPast(several(3)...)
	j.fail = errors.New("out of order")
	if got, err := r.findAfter(t.Context(), alice, past[0]); got.complete || !errors.Is(err, j.fail) {
		t.Errorf("%+v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := r.take(alice)
	select {
	case b.turn <- struct{}{}:
	default:
		t.Fatal("a read that failed keeps its turn")
	}
	if _, err := r.findAfter(ctx, alice, past[0]); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for a turn: %v", err)
	}
	<-b.turn
	r.release(alice, b)
	j.fail = nil
	wantReplay(t, r, everything, past[0], every(past)[1:])
}

// However a resume ends, later ones of the account and of others may read.
func TestResumesGiveTheirTurnBack(t *testing.T) {
	t.Parallel()
	r, j := newFinder(t, func(o *Options) { o.ReplayEntries = 200 })
	past := j.recordPast(several(150)...)
	for _, c := range []struct {
		name string
		from signal.Position
		fail error
	}{
		{"a failed read", past[200], errors.New("out of order")},
		{"too many entries", past[0], nil},
		{"no such event", past[0].Plus(1000), nil},
		{"a resume", past[200], nil},
	} {
		j.fail = c.fail
		if _, err := r.findAfter(t.Context(), alice, c.from); !errors.Is(err, c.fail) {
			t.Fatalf("%s: %v", c.name, err)
		}
		b := r.take(alice)
		if len(b.turn) != 0 || len(r.reads) != 0 || b.users != 1 {
			t.Fatalf("%s: %d turns and %d reads are kept, by %d", c.name, len(b.turn), len(r.reads), b.users-1)
		}
		r.release(alice, b)
	}
}

// TestTrimmingDuringARead drops the beginning of the log between two reads.
func TestTrimmingDuringARead(t *testing.T) {
	t.Parallel()
	r, j := newFinder(t, nil)
	past := j.recordPast(several(readPage)...) // two pages
	for reads := range 3 {                     // before the first page, the second page, the final check
		j.onRead = func(int) error {
			if reads--; reads < -1 {
				j.events = j.events[len(j.events)-3:]
			}
			return nil
		}
		wantUnknown(t, r, past[0].String())
		if j.events = j.events[:0]; len(r.backfills[alice].frames) > 0 {
			t.Error("frames of a log with a gap are kept")
		}
		past = j.recordPast(several(readPage)...)
	}
}
