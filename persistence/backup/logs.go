package backup

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

func (s *saver) saveEvents(ctx context.Context) error {
	return s.saveLogs(ctx, kindEvent, s.EventsKey, codec.EventAccount,
		func(c *cut) signal.Position { return c.events.Generated })
}

func (s *saver) saveSignals(ctx context.Context) error {
	return s.saveLogs(ctx, kindSignal, s.SignalsKey, codec.RecordAccount,
		func(c *cut) signal.Position { return c.signal.Generated })
}

// saveLogs saves a log of all partitions up to its end, in the order of the positions, so that they can become the
// logs of any other number of partitions.
func (s *saver) saveLogs(ctx context.Context, k kind, key func(p int) string, accountOf func(header []byte) []byte,
	end func(*cut) signal.Position) error {
	var sources []*logSource
	for p := range s.cuts {
		sources = append(sources, &logSource{c: s.Client, p: p, key: key(p), end: end(&s.cuts[p])})
	}
	return merged(ctx, sources, func(p int, e *redisclient.Entry) error {
		account := ""
		if raw := accountOf(e.Header); raw != nil {
			d := codec.NewDecoder(raw)
			account = d.ID("acc_")
		}
		return s.add(k, number(p), []byte(account), []byte(e.Position.String()), e.Header, e.Body)
	})
}

// saveLogEnds saves what a restored stream cannot show by its entries.
func (s *saver) saveLogEnds(ctx context.Context) error {
	for p := range s.cuts {
		fields := texts(strconv.Itoa(p))
		for _, info := range []redisclient.StreamInfo{s.cuts[p].events, s.cuts[p].signal} {
			fields = append(fields, endOf(info)...)
		}
		if err := s.add(kindLogEnd, fields...); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func endOf(info redisclient.StreamInfo) [][]byte {
	return [][]byte{[]byte(info.Generated.String()), number(info.Added), []byte(info.MaxDeleted.String())}
}

// logEnd is what a restored log has.
type logEnd struct {
	last  signal.Position
	added int64
}

// event stores an event. With another number of partitions only those without their effect are kept, so that
// no client takes a former position for one of the new log.
func (l *loader) event(ctx context.Context, f [][]byte) error {
	from := partition(f[0])
	at, valid := signal.ParsePosition(string(f[2]))
	if !valid {
		return ErrDamaged
	}
	if !l.same && at.Compare(l.positions[from]) <= 0 {
		return nil
	}
	if to, ok := l.to(from, f[1]); ok {
		l.append(ctx, l.EventsKey(to), l.moved(from, at), "h", string(f[3]), "d", string(f[4]))
	}
	return nil
}

func (l *loader) signal(ctx context.Context, f [][]byte) error {
	from := partition(f[0])
	to, ok := l.to(from, f[1])
	at, valid := signal.ParsePosition(string(f[2]))
	if !ok || !valid {
		return nil
	}
	head := f[3]
	if codec.IsClosing(head) {
		var err error
		if head, err = l.restamped(head, from, 2); err != nil {
			return err
		}
	}
	l.append(ctx, l.SignalsKey(to), l.moved(from, at), "h", string(head), "m", string(f[4]))
	return nil
}

// append appends an entry to a log.
func (l *loader) append(ctx context.Context, key string, at signal.Position, fields ...any) {
	end := l.newest[key]
	l.newest[key] = logEnd{at, end.added + 1}
	l.pipe.XAdd(ctx, &redis.XAddArgs{Stream: key, ID: at.String(), Values: fields})
}

// logEnd gives the restored logs the ends of those that were copied. Other partitions get ends that say that entries
// are missing.
func (l *loader) logEnd(ctx context.Context, f [][]byte) error {
	if p := partition(f[0]); l.same {
		l.setEnd(ctx, l.EventsKey(p), f[1:4])
		l.setEnd(ctx, l.SignalsKey(p), f[4:7])
	}
	return nil
}

// setEnd sets the newest id of a stream, how many entries were added, and the newest that was deleted.
func (l *loader) setEnd(ctx context.Context, key string, f [][]byte) {
	if string(f[0]) == (signal.Position{}).String() {
		return // there was no stream
	}
	if _, filled := l.newest[key]; !filled { // all entries were trimmed
		l.pipe.XAdd(ctx, &redis.XAddArgs{Stream: key, ID: string(f[0]), Values: []any{"h", ""}})
		l.pipe.XTrimMaxLen(ctx, key, 0) // XDEL would be remembered as the newest deletion
	}
	l.pipe.Do(ctx, "XSETID", key, string(f[0]), "ENTRIESADDED", string(f[1]), "MAXDELETEDID", string(f[2]))
}
