package market

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// recentKept is how long ticks are kept, in milliseconds. The streams keep them as long.
const recentKept = 900_000

// tickStreams is the number of streams of ticks.
const tickStreams = 2

// recentTicks keeps the recent ticks of all assets from the two streams, by source, for assets that are
// asked for after their ticks came and for alerts that began before they are added.
type recentTicks struct {
	read   chan struct{} // closed once the initial content of both streams has been read
	unread atomic.Int32  // the number of streams still to be read

	mu    sync.Mutex // held while ticks are sent to actors, and while a watch is added
	of    map[tickKey]*assetTicks
	swept int64 // when idle assets were last removed
}

func newRecentTicks() *recentTicks {
	s := &recentTicks{read: make(chan struct{})}
	s.unread.Store(tickStreams)
	return s
}

// caughtUp records that the initial content of a stream has been read.
func (s *recentTicks) caughtUp() {
	if s.unread.Add(-1) == 0 {
		close(s.read)
	}
}

// tickKey is the key of an asset and the source of its ticks.
type tickKey struct{ asset, source string }

// assetTicks holds the ticks of an asset, ascending by time.
type assetTicks struct {
	ticks []marketdata.Tick
	first int   // index of the first tick that is kept
	noted int64 // when the newest was written, by the clock of Redis
}

// note adds t, which was written at a time, unless it is older than the newest tick. missed reports
// whether ticks before it may be missing. Called with mu held.
func (s *recentTicks) note(key tickKey, t marketdata.Tick, at int64, missed bool) {
	if at-s.swept > recentKept {
		s.swept = at
		maps.DeleteFunc(s.of, func(_ tickKey, p *assetTicks) bool { return at-p.noted > recentKept })
	}
	p := s.of[key]
	if p == nil {
		if len(s.of) >= assets.Max {
			return
		}
		if s.of == nil {
			s.of = make(map[tickKey]*assetTicks)
		}
		p = &assetTicks{}
		s.of[key] = p
	}
	p.noted = at
	if missed {
		p.ticks, p.first = nil, 0 // bars are more complete
	}
	if n := len(p.ticks); n > p.first && t.Time < p.ticks[n-1].Time {
		return
	}
	p.ticks = append(p.ticks, t)
	for t.Time-p.ticks[p.first].Time > recentKept {
		p.first++
	}
	// upTo has returned parts of the array, so the ticks go to a new one, with room for a third more: as many make a
	// quarter of them old.
	if p.first > len(p.ticks)/4 {
		kept := p.ticks[p.first:]
		p.ticks, p.first = append(make([]marketdata.Tick, 0, len(kept)+len(kept)/3+2), kept...), 0
	}
}

// newest returns the newest tick, or false without one. Called with mu held.
func (s *recentTicks) newest(key tickKey) (marketdata.Tick, bool) {
	if p := s.of[key]; p != nil && len(p.ticks) > p.first {
		return p.ticks[len(p.ticks)-1], true
	}
	return marketdata.Tick{}, false
}

// upTo returns the ticks up to a time. They are read-only.
func (s *recentTicks) upTo(key tickKey, at int64) []marketdata.Tick {
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

// clear removes the ticks of a stream, because later ones were missed.
func (s *recentTicks) clear(stream marketdata.TickStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.of, func(key tickKey, _ *assetTicks) bool { return streamOf(key.source) == stream })
}

func streamOf(name string) marketdata.TickStream {
	if name == source.Stream {
		return marketdata.GivenTicks
	}
	return marketdata.OwnTicks
}
