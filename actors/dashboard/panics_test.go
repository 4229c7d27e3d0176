package dashboard

import "testing"

// brokenOrder panics.
type brokenOrder struct{}

func (brokenOrder) apply(*flusher) { panic("broken order") }

// brokenSocket is a tap that panics at its next write.
type brokenSocket struct {
	tap
	broken bool
}

func (s *brokenSocket) write(w *rawWriter, b []byte) (int, error) {
	if s.broken {
		s.broken = false
		panic("broken socket")
	}
	return s.tap.write(w, b)
}

func TestAFlusherGoesOnAfterAPanic(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	first, _ := b.attach()
	broken := &brokenSocket{}
	broken.room = 1 << 20
	first.socket = broken
	_, other := b.attach()
	other.room = 1 << 20
	b.settle()
	b.flusher.post(brokenOrder{})
	want := b.journal.append(created(alice, "BTC"))
	broken.broken = true
	b.settle()
	want = append(want, b.journal.append(created(alice, "ETH"))...)
	b.settle()
	for name, s := range map[string]*tap{"a connection whose write panicked": &broken.tap, "another one": other} {
		events, _ := s.sent(t)
		var got []string
		for _, e := range events {
			if e.Type == "signal.new" {
				got = append(got, e.ID)
			}
		}
		if len(got) != 2 || got[0] != want[0].String() || got[1] != want[1].String() {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestAReaderThatPanicsEndsItsConnectionOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	p, s := b.attach()
	s.room = 1 << 20
	p.socket = panickingReader{p.socket}
	b.settle()
	p.read()
	b.settle()
	if n := len(b.flusher.peers); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}

// panickingReader panics when it is read from.
type panickingReader struct{ socket }

func (panickingReader) receive(func([]byte)) error { panic("at reading") }
