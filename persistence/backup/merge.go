package backup

import (
	"context"
	"slices"

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
	ended   bool
}

// fill reads the next entries from start if none is left. It reports whether there is one.
func (l *logSource) fill(ctx context.Context, start string) (bool, error) {
	if len(l.entries) > 0 || l.ended || l.end.IsZero() {
		return len(l.entries) > 0, nil
	}
	all, err := l.c.ReadRangeInto(ctx, &l.buffer, l.all, l.key, start, l.end.String(), l.count)
	if err != nil {
		return false, err
	}
	l.all, l.entries, l.ended = all, all, len(all) < l.count
	return len(all) > 0, nil
}

// merged calls f for the entries of all sources in the order of their positions, and by partition where these are
// equal. An entry is valid until f returns.
func merged(ctx context.Context, sources []*logSource, f func(p int, e *redisclient.Entry) error) error {
	var left []*logSource
	for _, s := range sources {
		s.count = max(16, mergedEntries/len(sources))
		more, err := s.fill(ctx, "-")
		if err != nil {
			return err
		}
		if more {
			left = append(left, s)
		}
	}
	for len(left) > 0 {
		first := 0 // a search of all takes less than a percent of what an entry does
		for i, s := range left {
			if s.entries[0].Position.Compare(left[first].entries[0].Position) < 0 {
				first = i
			}
		}
		s := left[first]
		at := s.entries[0].Position
		if err := f(s.p, &s.entries[0]); err != nil {
			return err
		}
		s.entries = s.entries[1:]
		more, err := s.fill(ctx, "("+at.String())
		if err != nil {
			return err
		}
		if !more {
			left = slices.Delete(left, first, first+1)
		}
	}
	return nil
}
