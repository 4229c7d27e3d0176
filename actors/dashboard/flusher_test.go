package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// tap is a socket that accepts as many bytes as the test gives it space for.
type tap struct {
	transport transport

	out    []byte
	space  int
	wide   bool
	ended  bool // finish or Close was called
	closed bool // Close was called
	limits int  // maximum bytes of one write; 0: no limit
}

func (s *tap) write(_ *rawWriter, b []byte) (int, error) {
	n := min(len(b), s.space)
	if s.limits > 0 {
		n = min(n, s.limits)
	}
	if n == 0 {
		return 0, errRefused
	}
	s.out, s.space = append(s.out, b[:n]...), s.space-n
	return n, nil
}

func (s *tap) listen(receiver) {}
func (s *tap) widen()          { s.wide, s.space = true, s.space+10_000 }
func (s *tap) finish()         { s.ended = true }
func (s *tap) Close()          { s.ended, s.closed = true, true }

// sent returns the messages, and the code of the close frame if there is one. It fails
// the test if the bytes are not whole frames.
func (s *tap) sent(tb testing.TB) (list []envelope, code int) {
	tb.Helper()
	if s.transport == eventStream {
		return s.sentEvents(tb)
	}
	for b := s.out; len(b) > 0; {
		header, n := 2, payloadLength(b)
		switch b[1] {
		case 126:
			header = 4
		case 127:
			header = 10
		}
		if len(b) < header+n || b[0]&finalBit == 0 {
			tb.Fatalf("%d bytes are left of a frame of %d", len(b), header+n)
		}
		payload := b[header : header+n]
		switch b[0] &^ finalBit {
		case opText:
			var e envelope
			if err := json.Unmarshal(payload, &e); err != nil {
				tb.Fatalf("message %q: %v", payload, err)
			}
			list = append(list, e)
		case opClose:
			code = int(payload[0])<<8 | int(payload[1])
		case opPing, opPong:
		default:
			tb.Fatalf("frame that begins with % x", b[:2])
		}
		b = b[header+n:]
	}
	return list, code
}

// bench is a flusher whose passes are made by the test.
type bench struct {
	tb      testing.TB
	hub     *Hub
	flusher *flusher
	journal *journal
}

func newBench(tb testing.TB, change func(*Options)) *bench {
	j := newJournal()
	o := Options{PartitionOf: partitionOf, Log: j}
	if change != nil {
		change(&o)
	}
	h := &Hub{o: o.withDefaults(), started: time.Now(),
		listened: map[signal.AccountID]*listeners{alice: {connections: 1}}}
	h.ring = newRing(h.o.RingFrames, h.o.RingBytes)
	h.resumer = newResumer(h.ring, h.o)
	h.prices = newPrices(h)
	h.names = newNamedAssets(h.o.MaxAssets)
	tb.Cleanup(h.resumer.close)
	f := newFlusher(h)
	h.flushers = []*flusher{f}
	j.hub = h
	return &bench{tb, h, f, j}
}

// attach returns an authenticated connection with the default subscription, whose tap
// has no space yet.
func (b *bench) attach() (*peer, *tap) { return b.attachWith("", 0) }

// attachWith returns a connection that was authenticated with a key, whose tap has space
// for some bytes.
func (b *bench) attachWith(key signal.KeyID, space int) (*peer, *tap) {
	return b.attachBy(webSocket, key, space)
}

// attachBy is attachWith by a transport.
func (b *bench) attachBy(by transport, key signal.KeyID, space int) (*peer, *tap) {
	s := &tap{transport: by, space: space}
	p := &peer{id: "con", transport: by, flusher: b.flusher, socket: s}
	p.reading.Store(true)
	b.flusher.post(attached{p})
	b.flusher.post(authenticated{peer: p, account: alice, key: key, sub: everything})
	return p, s
}

// pass makes a pass that also retries refused peers.
func (b *bench) pass() {
	b.flusher.writer.retryAt = 0
	b.flusher.work()
}

// settle makes passes until nothing is left to write.
func (b *bench) settle() {
	b.pass()
	for len(b.flusher.writer.ready)+len(b.flusher.writer.waiting) > 0 {
		b.pass()
	}
}

// model predicts what one connection must get.
type model struct {
	peer    *peer
	tap     *tap
	sub     *subscription
	sent    map[signal.Position]bool
	want    []string // ids, and the ref of each "subscribed"
	waiting *subscribed
}

// TestFlusherAgainstModel makes random steps: events are published and reach the ring
// before the flusher, subscriptions change with and without a resume that was searched
// earlier, clients accept few bytes. Each client must get exactly the messages of the
// model, in that order.
func TestFlusherAgainstModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 77))
			b := newBench(t, func(o *Options) { o.QueueMessages, o.QueueBytes, o.RingFrames = 1<<30, 1<<40, 1000 })
			m := &machine{bench: b, r: r}
			m.bench.journal.record(randomEvents(r, r.IntN(20))...)
			m.bench.journal.skip() // past events are in the log only
			for _, e := range m.bench.journal.events {
				m.posted = append(m.posted, newFrame(&e, nil)) // may be nil
			}
			for i := range 4 {
				p, s := b.attachBy(transport(i%2), "", 0)
				m.models = append(m.models, &model{peer: p, tap: s, sub: everything, sent: map[signal.Position]bool{}})
			}
			b.pass()
			for range 400 {
				m.step()
			}
			m.finish(t)
		})
		if t.Failed() {
			return // other seeds would only wait for the same fault
		}
	}
}

type machine struct {
	bench  *bench
	r      *rand.Rand
	models []*model
	posted []*frame   // all events that the flusher knows, and past ones
	held   *published // in the ring, but not yet posted
}

func (m *machine) step() {
	one := m.models[m.r.IntN(len(m.models))]
	switch m.r.IntN(10) {
	case 0, 1, 2:
		m.release()
		m.publish()
		if m.r.IntN(3) > 0 {
			m.release()
		}
	case 3, 4:
		one.tap.space += m.r.IntN(1500)
	case 5:
		one.tap.limits = m.r.IntN(300)
		m.bench.pass()
	case 6:
		m.bench.flusher.post(sendReply{one.peer, "pong", pongData{}})
	case 7:
		m.search(one)
	case 8:
		m.post(one)
	case 9:
		m.bench.pass()
	}
}

// publish adds an event to the log and the ring.
func (m *machine) publish() {
	e := randomEvent(m.r)
	at := m.bench.journal.record(e)[0]
	e.Position = at
	o := published{partition: testPartition, first: at, last: at}
	if f := newFrame(&e, nil); f != nil {
		o.frames = []*frame{f}
	}
	m.bench.hub.ring.add(testPartition, at, at, o.frames)
	m.held = &o
}

// release posts the held events to the flusher.
func (m *machine) release() {
	if m.held == nil {
		return
	}
	m.bench.flusher.post(*m.held)
	m.bench.journal.skip()
	for _, f := range m.held.frames {
		m.posted = append(m.posted, f)
		for _, one := range m.models {
			if f.account == alice && one.sub.matches(f) {
				one.want = append(one.want, f.at.String())
				one.sent[f.at] = true
			}
		}
	}
	m.held = nil
}

// search starts a change of the subscription.
func (m *machine) search(one *model) {
	if one.waiting != nil {
		return
	}
	sub, _ := randomSubscription(m.r)
	o := &subscribed{peer: one.peer, sub: sub, kind: "subscribed",
		reply: func(r *resumedData) any { return subscribedData{Resumed: r} }}
	if n := len(m.posted); n > 0 && m.r.IntN(4) > 0 {
		f := m.posted[m.r.IntN(n)]
		if f != nil && f.account == alice {
			if _, known := m.bench.hub.ring.floor(testPartition, alice); !known {
				m.release() // the search would wait for it
			}
			found, err := m.bench.hub.resumer.find(m.bench.tb.Context(), testPartition, alice, sub, f.at.String())
			if err != nil || !found.complete {
				m.bench.tb.Fatalf("search after %s: %+v, %v", f.at, found, err)
			}
			o.replay = &found
		}
	}
	one.waiting = o
}

// post posts the change to the flusher, unless a replay is in progress: then the
// connection's actor would wait.
func (m *machine) post(one *model) {
	o := one.waiting
	if o == nil {
		return
	}
	if m.bench.pass(); one.peer.replay != nil {
		return
	}
	one.waiting = nil
	m.bench.flusher.post(*o)
	one.want = append(one.want, "subscribed")
	one.sub = o.sub
	if o.replay == nil {
		return
	}
	for _, f := range m.posted {
		if f != nil && f.account == alice && f.at.Compare(o.replay.from) > 0 && o.sub.matches(f) && !one.sent[f.at] {
			one.want = append(one.want, f.at.String())
			one.sent[f.at] = true
		}
	}
}

// finish lets all clients read and compares.
func (m *machine) finish(t *testing.T) {
	m.release()
	for _, one := range m.models {
		one.tap.space, one.tap.limits = 1<<40, 0
	}
	m.bench.settle()
	for i, one := range m.models {
		list, code := one.tap.sent(t)
		if code != 0 {
			t.Errorf("connection %d was closed with %d", i, code)
		}
		var got []string
		for _, e := range list {
			switch {
			case e.ID != "":
				got = append(got, e.ID)
			case e.Type == "subscribed":
				got = append(got, e.Type)
				if strings.Contains(string(e.Data), `"complete":false`) {
					t.Errorf("connection %d: reply %s", i, e.Data)
				}
			}
		}
		if d := cmp.Diff(one.want, got); d != "" {
			t.Errorf("connection %d: %s", i, d)
		}
	}
	for _, a := range m.bench.flusher.audiences.of {
		for _, c := range a.cohorts {
			if len(c.log) > 0 || c.lagging != 0 {
				t.Errorf("a cohort whose members got everything keeps %d bytes, %d lag", len(c.log), c.lagging)
			}
		}
	}
}

func TestSlowConsumerLearnsWhy(t *testing.T) {
	t.Parallel()
	for _, by := range []transport{webSocket, eventStream} {
		testSlowConsumer(t, by)
	}
}

func testSlowConsumer(t *testing.T, by transport) {
	b := newBench(t, func(o *Options) { o.QueueMessages = 5 })
	p, s := b.attachBy(by, "", 1<<20)
	b.settle()
	s.space = 10 // ends inside the first frame
	for range 5 {
		b.journal.append(created(alice, "BTC"))
	}
	b.pass()
	if b.pass(); p.overSince != 0 || p.closed.code != 0 {
		t.Fatal("over the limits with as much as they allow")
	}
	b.journal.append(created(alice, "BTC"))
	b.pass()
	if p.overSince == 0 || p.closed.code != 0 {
		t.Fatal("not over the limits, or closed at the first refusal")
	}
	p.overSince -= int64(retryAfter)
	b.pass()
	if p.closed != closeSlow {
		t.Fatal("not closed at the second refusal")
	}
	b.settle()
	if list, code := s.sent(t); code != closeSlow.code || !s.wide || !s.ended || len(list) == 0 {
		t.Errorf("%d messages, closed with %d, more room %v, ended %v", len(list), code, s.wide, s.ended)
	}
}

// sink is a socket that accepts everything, which must be what another one gets. It compares the ends of writes.
type sink struct {
	tap
	want *[]byte
	n    int // bytes so far
	bad  bool
}

func (s *sink) write(_ *rawWriter, b []byte) (int, error) {
	s.n += len(b)
	s.bad = s.bad || s.n > len(*s.want) || !bytes.HasSuffix((*s.want)[:s.n], b[max(0, len(b)-300):])
	return len(b), nil
}

// In a burst of 10,000 signals one of a thousand clients does not read. It is closed once it is behind by the limit.
// The others have all signals after the pass that follows on each part of the burst, whatever the slow one does.
func TestABurstWithASlowReader(t *testing.T) {
	t.Parallel()
	const others, parts, part = 999, 20, 500
	b := newBench(t, nil)
	_, reference := b.attachWith("", 1<<30) // the first, so that what it gets is known when the others get it
	slow, stuck := b.attachWith("", 1<<20)
	var sinks []*sink
	for range others - 1 {
		s := &sink{want: &reference.out}
		p := &peer{id: "con", flusher: b.flusher, socket: s}
		p.reading.Store(true)
		b.flusher.post(attached{p})
		b.flusher.post(authenticated{peer: p, account: alice, sub: everything})
		sinks = append(sinks, s)
	}
	b.settle()
	for _, s := range sinks {
		s.n, s.bad = len(reference.out), false // each has a welcome of its own
	}
	stuck.space = 1000 // some signals, and a part of one
	var want []string
	for range parts {
		events := make([]signal.Event, part)
		for i := range events {
			events[i] = created(alice, "BTC")
		}
		for _, p := range b.journal.append(events...) {
			want = append(want, p.String())
		}
		if slow.overSince != 0 {
			slow.overSince -= int64(retryAfter) // it had the time to read
		}
		b.settlePart()
		for i, s := range sinks {
			if s.bad || s.n != len(reference.out) {
				t.Fatalf("client %d has %d of %d bytes after %d signals, differing: %v", i, s.n, len(reference.out),
					len(want), s.bad)
			}
		}
	}
	ids := func(tap *tap) (list []string, code int) {
		messages, code := tap.sent(t)
		for _, e := range messages[1:] { // after the welcome
			list = append(list, e.ID)
		}
		return list, code
	}
	if got, code := ids(reference); !slices.Equal(got, want) || code != 0 {
		t.Errorf("a client has %d of %d signals, closed with %d", len(got), len(want), code)
	}
	b.settle()
	if got, code := ids(stuck); code != closeSlow.code || len(got) == 0 || !slices.Equal(got, want[:len(got)]) {
		t.Errorf("the slow client has %d signals, closed with %d", len(got), code)
	}
}

// settlePart makes a pass after which some peers still wait.
func (b *bench) settlePart() {
	b.pass()
	for len(b.flusher.writer.ready) > 0 {
		b.pass()
	}
}

func TestClosingCompletesTheFrameUnderWay(t *testing.T) {
	t.Parallel()
	for _, by := range []transport{webSocket, eventStream} {
		testClosingCompletesTheFrame(t, by)
	}
}

func testClosingCompletesTheFrame(t *testing.T, by transport) {
	for _, test := range []string{"log", "replay", "private"} {
		b := newBench(t, nil)
		first := b.journal.append(created(alice, "BTC"))[0]
		p, s := b.attachBy(by, "", 1<<20)
		b.settle()
		s.space = 10
		switch test {
		case "log":
			b.journal.append(created(alice, "BTC"), created(alice, "BTC"))
		case "replay":
			b.journal.append(created(alice, "BTC"))
			s.space = 1 << 20
			b.settle()
			p.sent = nil
			found, err := b.hub.resumer.findAfter(t.Context(), alice, first)
			if err != nil {
				t.Fatal(err)
			}
			reply := encodeReply("subscribed", subscribedData{Resumed: &resumedData{1, true}}, time.Now())
			s.space = by.size(reply, signal.Position{}) + 10
			b.flusher.post(subscribed{peer: p, sub: everything, replay: &found, kind: "subscribed",
				reply: func(r *resumedData) any { return subscribedData{Resumed: r} }})
		case "private":
			b.flusher.post(sendReply{p, "pong", pongData{}})
			b.flusher.post(sendReply{p, "pong", pongData{}})
		}
		b.settlePart()
		b.flusher.post(sendReply{p, "pong", pongData{}})
		b.flusher.post(closeConn{p, closeErrors})
		s.space = 1 << 20
		b.settle()
		if _, code := s.sent(t); code != closeErrors.code || !s.ended {
			t.Errorf("%s: closed with %d", test, code)
		}
	}
}

// slow is a socket that accepts everything, after a while.
type slow struct {
	tap
	writes int
}

func (s *slow) write(w *rawWriter, b []byte) (int, error) {
	s.writes++
	time.Sleep(5 * time.Millisecond)
	return s.tap.write(w, b)
}

func TestFramesGatherDuringAPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		f := b.flusher
		s := &slow{tap: tap{space: 1 << 30}}
		p := &peer{id: "con", flusher: f, socket: s}
		f.post(attached{p})
		f.post(authenticated{peer: p, account: alice, sub: everything})
		go f.run()
		synctest.Wait()
		time.Sleep(time.Second) // the welcome is written
		s.writes = 0
		for ms := range int64(101) {
			e := created(alice, "BTC")
			e.Position = signal.Position{MS: 1 + ms}
			b.hub.Publish(testPartition, []signal.Event{e})
			time.Sleep(time.Millisecond)
		}
		f.post(halted{})
		<-f.done
		if list, _ := s.sent(t); len(list) != 102 || s.writes > 22 {
			t.Errorf("%d messages by %d writes, want 102 by 22 at most", len(list), s.writes)
		}
	})
}
