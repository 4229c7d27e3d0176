package backup

import (
	"container/heap"
	"context"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// mergedEntries is how many entries of all logs together are in memory while they are merged.
const mergedEntries = 16_000

// logSource reads a log up to its end.
type logSource struct {
	c   *redisclient.Client
	p   int
	key string
	end signal.Position

	count   int // of one read
	buffer  redisclient.Buffer
	entries []redisclient.Entry // that were read and are not used yet
	all     []redisclient.Entry // of the last read
	started bool
	ended   bool
}

// fill reads the next entries if none is left. It reports whether there is one.
func (l *logSource) fill(ctx context.Context, after signal.Position) (bool, error) {
	if len(l.entries) > 0 || l.ended || l.end.IsZero() {
		return len(l.entries) > 0, nil
	}
	start := "-"
	if l.started {
		start = "(" + after.String()
	}
	all, err := l.c.ReadRangeInto(ctx, &l.buffer, l.all, l.key, start, l.end.String(), l.count)
	if err != nil {
		return false, err
	}
	l.all, l.entries, l.started, l.ended = all, all, true, len(all) < l.count
	return len(all) > 0, nil
}

// logSources is a heap by the position of the first entry, then by the partition.
type logSources []*logSource

func (s logSources) Len() int { return len(s) }
func (s logSources) Less(i, j int) bool {
	c := s[i].entries[0].Position.Compare(s[j].entries[0].Position)
	return c < 0 || c == 0 && s[i].p < s[j].p
}
func (s logSources) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s *logSources) Push(x any)   { *s = append(*s, x.(*logSource)) }

// Pop removes the last one.
func (s *logSources) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

// merged calls f for the entries of all sources in the order of their positions, and by partition where these are
// equal. An entry is valid until f returns.
func merged(ctx context.Context, sources []*logSource, f func(p int, e *redisclient.Entry) error) error {
	var h logSources
	for _, s := range sources {
		s.count = max(16, mergedEntries/len(sources))
		more, err := s.fill(ctx, signal.Position{})
		if err != nil {
			return err
		}
		if more {
			h = append(h, s)
		}
	}
	heap.Init(&h)
	for len(h) > 0 {
		s := h[0]
		at := s.entries[0].Position
		if err := f(s.p, &s.entries[0]); err != nil {
			return err
		}
		s.entries = s.entries[1:]
		more, err := s.fill(ctx, at)
		if err != nil {
			return err
		}
		if more {
			heap.Fix(&h, 0)
		} else {
			heap.Pop(&h)
		}
	}
	return nil
}
