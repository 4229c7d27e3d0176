package market

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// tapeKept is for how many milliseconds ticks are remembered, as long as the stream
// keeps them.
const tapeKept = 900_000

// tickStreams is how many streams of ticks there are.
const tickStreams = 2

// tapes remembers the ticks of all assets as they were read from the two streams, by
// source: for those who ask for an asset later than its ticks came, and for alerts
// that began before.
type tapes struct {
	read   chan struct{} // closed when what was in the streams at first has been read
	unread atomic.Int32  // how many streams that is not true of

	mu    sync.Mutex // held while ticks are sent to actors, and while a watch is added
	of    map[tapeKey]*tape
	swept int64 // when tapes of assets that trade no more were looked for
}

func newTapes() *tapes {
	s := &tapes{read: make(chan struct{})}
	s.unread.Store(tickStreams)
	return s
}

// caughtUp notes that what was in a stream at first has been read.
func (s *tapes) caughtUp() {
	if s.unread.Add(-1) == 0 {
		close(s.read)
	}
}

// tapeKey names an asset by its key, and who gave the ticks.
type tapeKey struct{ asset, source string }

// tape are the ticks of an asset, ascending by time.
type tape struct {
	ticks []marketdata.Tick
	first int   // of those that are kept
	noted int64 // when the newest was written, by the clock of Redis
}

// note remembers t, which was written at a time. One that is older than the newest is of
// no use; missed reports whether some may be missing before it. Called with mu held.
func (s *tapes) note(key tapeKey, t marketdata.Tick, at int64, missed bool) {
	if at-s.swept > tapeKept {
		s.swept = at
		maps.DeleteFunc(s.of, func(_ tapeKey, p *tape) bool { return at-p.noted > tapeKept })
	}
	p := s.of[key]
	if p == nil {
		if len(s.of) >= assets.Max {
			return
		}
		if s.of == nil {
			s.of = make(map[tapeKey]*tape)
		}
		p = &tape{}
		s.of[key] = p
	}
	p.noted = at
	if missed {
		// Some are missing before it: bars hold more of that time.
		p.ticks, p.first = nil, 0
	}
	if n := len(p.ticks); n > p.first && t.Time < p.ticks[n-1].Time {
		return
	}
	p.ticks = append(p.ticks, t)
	for t.Time-p.ticks[p.first].Time > tapeKept {
		p.first++
	}
	if p.first > len(p.ticks)/2 {
		p.ticks = append([]marketdata.Tick(nil), p.ticks[p.first:]...)
		p.first = 0
	}
}

// newest returns the newest tick, or false if there is none. Called with mu held.
func (s *tapes) newest(key tapeKey) (marketdata.Tick, bool) {
	if p := s.of[key]; p != nil && len(p.ticks) > p.first {
		return p.ticks[len(p.ticks)-1], true
	}
	return marketdata.Tick{}, false
}

// upTo returns the ticks up to a time. Nobody may change them.
func (s *tapes) upTo(key tapeKey, at int64) []marketdata.Tick {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.of[key]
	if p == nil {
		return nil
	}
	end := len(p.ticks)
	for end > p.first && p.ticks[end-1].Time > at {
		end--
	}
	return p.ticks[p.first:end:end]
}

// clear forgets the ticks of a stream: some behind them were missed.
func (s *tapes) clear(stream marketdata.TickStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.of, func(key tapeKey, _ *tape) bool { return streamOf(key.source) == stream })
}

// streamOf returns where the ticks of a source are.
func streamOf(name string) marketdata.TickStream {
	if name == source.Stream {
		return marketdata.GivenTicks
	}
	return marketdata.OwnTicks
}
