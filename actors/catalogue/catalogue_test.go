package catalogue

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// fakeLog is a partition's log, both as Tail and as Records.
type fakeLog struct {
	mu      sync.Mutex
	events  []signal.Event
	scanned chan struct{} // nil, or received from before a pass ends
	headErr error
	scans   int
	open    int // signals in the partition
}

func (f *fakeLog) Partition(signal.AccountID) int { return 0 }

func (f *fakeLog) Head(context.Context, int) (signal.Position, error) {
	return signal.Position{}, f.headErr
}

func (f *fakeLog) Wait(context.Context, int, signal.Position) error { return nil }

func (f *fakeLog) ScanSignals(_ context.Context, _ int, each func(signal.LogEntry) error) error {
	f.mu.Lock()
	f.scans++
	events := slices.Clone(f.events)
	f.mu.Unlock()
	origin := map[signal.SignalID]signal.Position{}
	last := map[signal.SignalID]*signal.Event{} // also of closed signals: a pass may have read them before
	for i := range events {
		e := &events[i]
		l := e.Listing
		ulid, _ := signal.ULIDBytes(string(l.ID))
		entry := signal.LogEntry{Account: e.Account, Position: e.Position, ULID: ulid, Confidence: l.Confidence}
		switch e.Type {
		case signal.SignalCreated:
			origin[l.ID] = e.Position
			entry.Created, entry.Weather = l, e.Weather
			each(entry)
		case signal.SignalClosed:
			entry.Origin, entry.Closed = origin[l.ID], true
			each(entry)
		case signal.SignalUpdated:
			last[l.ID] = e
		}
	}
	for id, e := range last {
		ulid, _ := signal.ULIDBytes(string(id))
		each(signal.LogEntry{Account: e.Account, ULID: ulid, Origin: origin[id], Confidence: e.Listing.Confidence})
	}
	if f.scanned != nil {
		<-f.scanned
	}
	return nil
}

func (f *fakeLog) CountOpen(context.Context, int) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open, f.headErr
}

func (f *fakeLog) add(events ...signal.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, events...)
}

// model is a plain list with which the catalogue must agree.
type model struct {
	signals []signal.Listing
	initial []float64 // their confidences at creation
	places  []signal.Position
	byID    map[signal.SignalID]int
}

const acc = signal.AccountID("acc_01M7YQ1WTVKN9DZNWV9NV456V1")

// eventOf returns an event of a signal of acc.
func eventOf(p signal.Position, kind signal.EventType, l *signal.Listing) signal.Event {
	return signal.Event{Position: p, Account: acc, Type: kind, Listing: l}
}

// total returns the number of acc's signals.
func total(t testing.TB, c *Catalogue) int {
	t.Helper()
	_, n, err := c.List(t.Context(), Query{Account: acc, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// builtIn returns the pairs of the built-in agents.
func builtIn() (pairs []names) {
	for _, a := range signal.Agents() {
		for _, s := range a.Strategies {
			pairs = append(pairs, names{a.ID, s})
		}
	}
	return pairs
}

// history makes n events of signals whose times are clustered.
func history(r *rand.Rand, n int, start time.Time) (*model, []signal.Event) {
	m := &model{byID: map[signal.SignalID]int{}}
	pairs := append(builtIn(),
		// Strategies and agents may have each other's names.
		names{"own", "momentum"}, names{"own", "own"}, names{"own", "alpha"}, names{"momentum", "alpha"},
		names{"texts", "blog_post"})
	assets := []string{"BTC", "btc", "BTCUSDT", "Eth", "ETH", "SOL", "standing desk", "ÄPFEL", "gold", "XAUUSD"}
	p := signal.Position{MS: start.UnixMilli()}
	var events []signal.Event
	for len(events) < n {
		if r.IntN(3) == 0 {
			p = signal.Position{MS: p.MS + int64(1+r.IntN(50))}
		}
		p.Seq += int64(1 + r.IntN(2))
		if len(m.signals) > 0 && r.IntN(4) == 0 {
			s := &m.signals[r.IntN(len(m.signals))]
			if s.Status == signal.Closed {
				continue
			}
			s.Confidence = float64(r.IntN(10001)) / confScale
			kind := signal.SignalUpdated
			if r.IntN(2) == 0 {
				s.Status, kind = signal.Closed, signal.SignalClosed
			}
			l := *s
			events = append(events, eventOf(p, kind, &l))
			if kind == signal.SignalClosed {
				s.Confidence = m.initial[m.byID[s.ID]]
			}
			continue
		}
		of := pick(r, pairs...)
		l := signal.Listing{
			ID: signal.NewSignalID(), Agent: of.agent, Asset: pick(r, assets...), Strategy: of.strategy,
			Direction: signal.Long, Confidence: float64(r.IntN(10001)) / confScale,
			Status: signal.Open, CreatedAt: p.Time(),
		}
		if r.IntN(2) == 0 {
			l.Direction = signal.Short
		}
		if of.agent != "seo" && of.agent != "texts" {
			price := r.Float64() * 1000
			l.Entry = &price
		}
		m.byID[l.ID] = len(m.signals)
		m.signals = append(m.signals, l)
		m.initial = append(m.initial, l.Confidence)
		m.places = append(m.places, p)
		created := l
		events = append(events, eventOf(p, signal.SignalCreated, &created))
	}
	return m, events
}

// catalogueName maps two assets to other names.
func catalogueName(asset string) string {
	switch strings.ToUpper(asset) {
	case "BTCUSDT":
		return "BTC"
	case "GOLD":
		return "XAUUSD"
	}
	return asset
}

// sameAsset reports whether a filter selects the asset of a signal. Subjects of content
// have one name only.
func sameAsset(filter string, s signal.Listing) bool {
	if s.Entry == nil {
		return strings.EqualFold(filter, s.Asset)
	}
	return strings.EqualFold(catalogueName(filter), catalogueName(s.Asset))
}

func (m *model) list(q Query) ([]signal.Listing, int) {
	found := []signal.Listing{}
	for _, s := range m.signals {
		if sees(q.View, s) && (q.Asset == "" || sameAsset(q.Asset, s)) && (q.Strategy == "" || q.Strategy == s.Strategy) &&
			(q.Agent == "" || q.Agent == s.Agent) && (q.Direction == "" || q.Direction == s.Direction) &&
			(q.Status == "" || q.Status == s.Status) && s.Confidence >= q.MinConfidence &&
			(q.Since.IsZero() || s.CreatedAt.After(q.Since)) {
			found = append(found, s)
		}
	}
	slices.SortStableFunc(found, func(a, b signal.Listing) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(string(b.ID), string(a.ID))
	})
	total := len(found)
	found = found[min(q.Offset, total):]
	return found[:min(q.Limit, len(found))], total
}

func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

func randomQuery(r *rand.Rand, m *model) Query {
	assets := []string{"", "", "", "bTc", "btcusdt", "ETH", "SOL", "Standing Desk", "ÄPFEL", "Gold", "xauusd", "none"}
	q := Query{Account: acc, View: pick(r, nil, nil, randomView(r)), Limit: 1 + r.IntN(100),
		Offset:    pick(r, 0, 0, r.IntN(50), r.IntN(len(m.signals)+5)),
		Asset:     pick(r, assets...),
		Strategy:  pick(r, "", "", "", "momentum", "breakout", "blog_post", "alpha", "own", "none"),
		Agent:     pick(r, signal.AgentID(""), "", "", "trading", "weather", "own", "momentum", "texts", "alpha", "none"),
		Direction: pick(r, signal.Direction(""), "", signal.Long, signal.Short),
		Status:    pick(r, signal.Status(""), "", signal.Open, signal.Closed)}
	switch r.IntN(4) {
	case 0:
		q.MinConfidence = float64(r.IntN(21)) / 20
	case 1:
		q.MinConfidence = float64(r.IntN(101)) / 100
	case 2:
		q.MinConfidence = r.Float64()
	}
	if r.IntN(3) == 0 {
		q.Since = m.signals[r.IntN(len(m.signals))].CreatedAt
	}
	return q
}

func options(start time.Time) Options {
	return Options{Name: catalogueName, Now: func() time.Time { return start.Add(24 * time.Hour) }}
}

func TestEveryQueryEqualsAPlainScan(t *testing.T) {
	t.Parallel()
	for name, count := range map[string]int{"below the index": 3000, "with the index": 3 * indexedRows} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, uint64(count)))
			start := time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)
			m, events := history(r, count, start)
			log := &fakeLog{events: events[:count/2]}
			c := New(log, log, 1, options(start))
			total(t, c)
			// The tail repeats what the pass has read, then publishes the rest. Cached
			// filters must be updated.
			c.Publish(0, events[count/3:count/2])
			repeated := []Query{
				{Account: acc, Limit: 30, MinConfidence: .4321},
				{Account: acc, Limit: 30, Direction: signal.Long, Status: signal.Open},
				{Account: acc, Limit: 30, Agent: "trading"},
				{Account: acc, Limit: 30, Agent: "own", Strategy: "momentum"},
				{Account: acc, Limit: 30, Strategy: "alpha"},
				{Account: acc, Limit: 30, Asset: "eth", MinConfidence: .9},
				{Account: acc, Limit: 30,
					View: signal.NewView(signal.Names{}, signal.NamesOf("btc", "STANDING desk"), signal.Names{})},
				{Account: acc, Limit: 30, Direction: signal.Short,
					View: signal.NewView(signal.NamesOf("own", "texts"), signal.Names{}, signal.NamesOf("alpha", "blog_post"))},
			}
			for chunk := range slices.Chunk(events[count/2:], 1000) {
				for _, q := range repeated {
					c.List(t.Context(), q)
				}
				c.Publish(0, chunk)
			}
			for _, q := range repeated {
				got, total, _ := c.List(t.Context(), q)
				if want, wantTotal := m.list(q); total != wantTotal || cmp.Diff(want, got) != "" {
					t.Errorf("%+v asked before and after: total %d, want %d", q, total, wantTotal)
				}
			}
			asked := []Query{}
			for i := range 300 {
				q := randomQuery(r, m)
				if i%3 == 2 { // again, perhaps from a cached set
					q = asked[len(asked)-1-r.IntN(min(len(asked), 2*keptSets))]
				}
				asked = append(asked, q)
				got, total, err := c.List(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				want, wantTotal := m.list(q)
				if total != wantTotal {
					t.Fatalf("total of %+v: got %d, want %d", q, total, wantTotal)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("page of %+v (-want +got):\n%s", q, diff)
				}
			}
			view := randomView(r)
			for i, s := range m.signals {
				if _, _, err := c.Find(t.Context(), acc, view, s.ID); (err == nil) != sees(view, s) ||
					err != nil && signal.KindOf(err) != signal.KindNotFound {
					t.Fatalf("Find(%s) by %s: %v", s.ID, view, err)
				}
				created, closed, err := c.Find(t.Context(), acc, nil, s.ID)
				if err != nil || created != m.places[i] || closed.IsZero() != (s.Status == signal.Open) {
					t.Fatalf("Find(%s) = %v, %v, %v; want created %v, status %s",
						s.ID, created, closed, err, m.places[i], s.Status)
				}
			}
		})
	}
}

func TestSequenceNumbersThatDoNotFitARow(t *testing.T) {
	t.Parallel()
	log := &fakeLog{}
	now := time.Now()
	c := New(log, log, 1, options(now))
	total(t, c)
	l := signal.Listing{ID: signal.NewSignalID(), Asset: "BTC", Strategy: "momentum", Direction: signal.Long}
	created := signal.Position{MS: now.UnixMilli(), Seq: 70_000}
	closed := signal.Position{MS: now.UnixMilli(), Seq: 1 << 40}
	c.Publish(0, []signal.Event{eventOf(created, signal.SignalCreated, &l), eventOf(closed, signal.SignalClosed, &l)})
	gotCreated, gotClosed, err := c.Find(t.Context(), acc, nil, l.ID)
	if err != nil || gotCreated != created || gotClosed != closed {
		t.Errorf("Find = %v, %v, %v; want %v, %v", gotCreated, gotClosed, err, created, closed)
	}
}

// TestOpenSignalsAreCounted checks the count through creations, closings, trims and a
// second pass.
func TestOpenSignalsAreCounted(t *testing.T) {
	t.Parallel()
	f := &fakeLog{}
	start := time.UnixMilli(1_800_000_000_000).UTC()
	now := start
	o := options(start)
	o.Now, o.Retention = func() time.Time { return now }, time.Hour
	c := New(f, f, 1, o)
	const account = signal.AccountID("acc_1")
	var made []signal.Signal
	at := signal.Position{MS: start.UnixMilli()}
	publish := func(t signal.EventType, s *signal.Signal) {
		at = at.Plus(1)
		l := s.Listing()
		e := signal.Event{Account: s.Account, Position: at, Type: t, Listing: &l}
		f.add(e)
		c.Publish(0, []signal.Event{e})
	}
	create := func(a signal.AccountID) {
		s := signal.Signal{ID: signal.NewSignalID(), Account: a, Asset: "BTC", Strategy: "momentum",
			Direction: signal.Long, CreatedAt: at.Time()}
		made = append(made, s)
		publish(signal.SignalCreated, &s)
	}
	check := func(want int) {
		t.Helper()
		if got := c.Open(account); got != want {
			t.Errorf("%d open signals, want %d", got, want)
		}
	}
	create(account)
	create("acc_2")
	create(account)
	// Without a list before, the first call of Open starts the pass.
	for deadline := time.Now().Add(10 * time.Second); c.Open(account) != 2 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	check(2)
	create(account)
	check(3)
	publish(signal.SignalClosed, &made[0])
	publish(signal.SignalClosed, &made[0])
	publish(signal.SignalUpdated, &made[2])
	publish(signal.SignalClosed, &made[1])
	check(2)
	c.Gap(0)
	if _, total, err := c.List(t.Context(), Query{Account: account, Limit: 1}); total != 3 || err != nil {
		t.Fatalf("%d signals, %v", total, err)
	}
	check(2)
	for range 3 * blockRows {
		create(account)
	}
	check(2 + 3*blockRows)
	now = start.Add(2 * time.Hour)
	at = signal.Position{MS: now.UnixMilli()}
	create(account)
	c.Trim()
	if got := c.Open(account); got > blockRows {
		t.Errorf("%d open signals are counted after the others were dropped", got)
	}
	publish(signal.AccountDeleted, &made[0])
	check(0)
}

// TestFewOpenSignalsAreNotRead checks that a node without lists reads a partition once one
// of its accounts may be near the limit, and not before.
func TestFewOpenSignalsAreNotRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		log := &fakeLog{open: 4}
		s := signal.Listing{ID: signal.NewSignalID(), Agent: "trading", Strategy: "momentum", Asset: "BTC"}
		log.add(eventOf(signal.Position{MS: now.UnixMilli()}, signal.SignalCreated, &s))
		o := options(now)
		o.MaxOpen = 10
		c := New(log, log, 1, o)
		check := func(open int, err error, wantScans, want int) {
			t.Helper()
			log.open, log.headErr = open, err
			for range 3 {
				c.Open(acc)
				time.Sleep(countEvery)
				synctest.Wait()
			}
			if got := c.Open(acc); log.scans != wantScans || got != want {
				t.Errorf("%d open: %d reads and %d counted, want %d and %d", open, log.scans, got, wantScans, want)
			}
			synctest.Wait()
		}
		check(4, nil, 0, 0)
		check(5, errors.New("away"), 0, 0)
		check(5, nil, 1, 1)
		check(0, nil, 1, 1) // it has been built and follows the log
	})
}

func TestFindOfMissingSignals(t *testing.T) {
	t.Parallel()
	log := &fakeLog{}
	now := time.Now()
	_, events := history(rand.New(rand.NewPCG(2, 2)), 10, now)
	log.add(events...)
	c := New(log, log, 1, options(now))
	for name, q := range map[string]struct {
		account signal.AccountID
		id      signal.SignalID
	}{
		"unknown id":      {acc, signal.NewSignalID()},
		"impossible id":   {acc, "sig_nonsense"},
		"another account": {"acc_01M7YQ1WTVKN9DZNWV9NV456V2", events[0].Listing.ID},
	} {
		if _, _, err := c.Find(t.Context(), q.account, nil, q.id); signal.KindOf(err) != signal.KindNotFound {
			t.Errorf("%s: got %v, want not found", name, err)
		}
	}
}

func TestEventsDuringThePassAreKept(t *testing.T) {
	t.Parallel()
	now := time.Now()
	m, events := history(rand.New(rand.NewPCG(3, 3)), 200, now)
	log := &fakeLog{events: events[:100], scanned: make(chan struct{})}
	c := New(log, log, 1, options(now))
	done := make(chan error)
	for range 3 {
		go func() {
			_, _, err := c.List(context.Background(), Query{Account: acc, Limit: 1})
			done <- err
		}()
	}
	log.scanned <- struct{}{} // received once the pass has read its entries
	// The pass may or may not have ended: in both cases no event may be lost.
	c.Publish(0, events[90:])
	for range 3 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if n := total(t, c); n != len(m.signals) {
		t.Errorf("total: got %d, want %d", n, len(m.signals))
	}
	if log.scans != 1 {
		t.Errorf("three first callers made %d passes, want 1", log.scans)
	}
}

func TestGapRebuildsThePartition(t *testing.T) {
	t.Parallel()
	now := time.Now()
	m, events := history(rand.New(rand.NewPCG(4, 4)), 100, now)
	log := &fakeLog{events: events[:50]}
	c := New(log, log, 1, options(now))
	total(t, c)
	log.add(events[50:]...) // never published: the tail lost them
	c.Gap(0)
	if n := total(t, c); n != len(m.signals) {
		t.Errorf("total after a gap: got %d, want %d", n, len(m.signals))
	}
}

func TestRetentionCutsListsToTheMillisecond(t *testing.T) {
	t.Parallel()
	start := time.Now().UTC().Truncate(time.Millisecond)
	m, events := history(rand.New(rand.NewPCG(5, 5)), 3*blockRows, start)
	log := &fakeLog{events: events}
	cut := m.signals[2*blockRows].CreatedAt
	c := New(log, log, 1, Options{Retention: time.Hour, Now: func() time.Time { return cut.Add(time.Hour) }})
	want, wantTotal := m.list(Query{Account: acc, Limit: 50, Since: cut})
	for _, trimmed := range []bool{false, true} {
		got, total, err := c.List(t.Context(), Query{Account: acc, Limit: 50})
		if err != nil || total != wantTotal || cmp.Diff(want, got) != "" {
			t.Errorf("trimmed %v: total %d, want %d, %v", trimmed, total, wantTotal, err)
		}
		if _, _, err := c.Find(t.Context(), acc, nil, m.signals[0].ID); signal.KindOf(err) != signal.KindNotFound {
			t.Errorf("trimmed %v: a signal past retention is found: %v", trimmed, err)
		}
		c.Trim()
	}
	if held := c.Size(); held > len(m.signals)-blockRows {
		t.Errorf("after Trim %d of %d rows are held", held, len(m.signals))
	}
	cut = cut.Add(time.Hour)
	c.Trim()
	if held := c.Size(); held != 0 {
		t.Errorf("%d rows are held of an account whose signals are all past retention", held)
	}
	next := events[len(events)-1]
	next.Position.MS, next.Type = cut.UnixMilli()+1, signal.SignalCreated
	c.Publish(0, []signal.Event{next})
	if n := total(t, c); n != 1 {
		t.Errorf("a signal of that account after Trim: total %d", n)
	}
}

func TestDeletedAccountIsDropped(t *testing.T) {
	t.Parallel()
	now := time.Now()
	_, events := history(rand.New(rand.NewPCG(6, 6)), 100, now)
	log := &fakeLog{events: events}
	c := New(log, log, 1, options(now))
	total(t, c)
	c.Publish(0, []signal.Event{{Account: acc, Type: signal.AccountDeleted}})
	if n := total(t, c); n != 0 {
		t.Errorf("total of a deleted account: %d", n)
	}
}

func TestRedisUnavailable(t *testing.T) {
	t.Parallel()
	log := &fakeLog{headErr: signal.Unavailable(errors.New("connection refused"))}
	c := New(log, log, 1, Options{})
	if _, _, err := c.List(t.Context(), Query{Account: acc, Limit: 1}); signal.KindOf(err) != signal.KindUnavailable {
		t.Errorf("got %v, want unavailable", err)
	}
}

func TestConcurrentReadersAndTail(t *testing.T) {
	t.Parallel()
	start := time.Now()
	m, events := history(rand.New(rand.NewPCG(7, 7)), indexedRows+4000, start)
	log := &fakeLog{}
	c := New(log, log, 1, options(start))
	total(t, c)
	published := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(8, uint64(i)))
			last := 0
			for open := true; open; {
				select {
				case <-published:
					open = false
				default:
				}
				c.List(context.Background(), randomQuery(r, m))
				_, total, _ := c.List(context.Background(), Query{Account: acc, Limit: 1})
				if total < last {
					t.Errorf("the total fell from %d to %d", last, total)
					return
				}
				last = total
			}
			if last != len(m.signals) {
				t.Errorf("after all events the total is %d, want %d", last, len(m.signals))
			}
		})
	}
	for chunk := range slices.Chunk(events, 500) {
		c.Publish(0, chunk)
	}
	close(published)
	wg.Wait()
}

func TestCloseWaitsForThePass(t *testing.T) {
	t.Parallel()
	f := &fakeLog{scanned: make(chan struct{})}
	c := New(f, f, 1, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.List(ctx, Query{Account: "acc_1"}) // its pass outlives it
	closed := make(chan error, 1)
	go func() { closed <- c.Close(t.Context()) }()
	select {
	case <-closed:
		t.Fatal("Close did not wait")
	case f.scanned <- struct{}{}:
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	f.scanned = nil
	c = New(f, f, 1, Options{})
	c.Close(t.Context())
	_, _, err := c.List(t.Context(), Query{Account: "acc_1"})
	wantUnavailable(t, "a list after Close", err, "this node is about to stop")
}

// wantUnavailable checks that an error asks the caller to try again and says what is the case.
func wantUnavailable(t *testing.T, what string, err error, text string) {
	t.Helper()
	e, ok := errors.AsType[*signal.Error](err)
	if !ok || e.Kind != signal.KindUnavailable || e.RetryAfter == 0 || !strings.HasPrefix(e.Message, text) {
		t.Errorf("%s: %v, want unavailable: %s", what, err, text)
	}
}

// A list whose pass is under way, or has lost events, is being read.
func TestListThatIsBeingRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const reading = "the list of signals is being read"
		f := &fakeLog{scanned: make(chan struct{})}
		c := New(f, f, 1, Options{})
		left, leave := context.WithCancel(t.Context())
		leave()
		_, _, err := c.List(left, Query{Account: acc})
		wantUnavailable(t, "a list whose caller has left", err, reading)
		answer := make(chan error)
		go func() {
			_, _, err := c.List(t.Context(), Query{Account: acc})
			answer <- err
		}()
		synctest.Wait()
		c.Gap(0)
		f.scanned <- struct{}{}
		wantUnavailable(t, "a list whose pass has lost events", <-answer, reading)
	})
}
