package backup

import (
	"context"
	"slices"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

const (
	kindEvent  kind = 17 // partition, account, position, header, payload
	kindSignal kind = 18 // partition, account, position, header, metadata
	kindLogEnd kind = 21 // partition, then of the event log and the signal log: newest id, added, newest deleted id
)

var events = section{
	keys: []string{"{pNN}:events"},
	save: func(ctx context.Context, s *source) error {
		return saveLogs(ctx, s, kindEvent, s.EventsKey, codec.EventAccount,
			func(c *cut) signal.Position { return c.events.Generated })
	},
	records: []record{{kind: kindEvent, fields: 5, ofPartition: true, load: loadEvent}},
}

var signals = section{
	keys: []string{"{pNN}:signals"},
	save: func(ctx context.Context, s *source) error {
		return saveLogs(ctx, s, kindSignal, s.SignalsKey, codec.RecordAccount,
			func(c *cut) signal.Position { return c.signal.Generated })
	},
	records: []record{{kind: kindSignal, fields: 5, ofPartition: true, load: loadSignal}},
}

// saveLogs saves a log of all partitions up to its end, in the order of the positions, so that they can become the
// logs of any other number of partitions.
func saveLogs(ctx context.Context, s *source, k kind, key func(p int) string, accountOf func(header []byte) []byte,
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
		return s.add(k, p, account, e.Position, e.Header, e.Body)
	})
}

// loadEvent stores an event. With another number of partitions only those without their effect are kept, so that
// no client takes a former position for one of the new log.
func loadEvent(ctx context.Context, t *target, f fields) error {
	from := f.partition()
	at, err := f.position(2)
	if err != nil || !t.same && at.Compare(t.positions[from]) <= 0 {
		return err
	}
	if to, ok := t.to(from, f.account(1)); ok {
		t.append(ctx, t.EventsKey(to), t.moved(from, at), "h", f.text(3), "d", f.text(4))
	}
	return nil
}

func loadSignal(ctx context.Context, t *target, f fields) error {
	from := f.partition()
	to, ok := t.to(from, f.account(1))
	at, err := f.position(2)
	if !ok || err != nil {
		return err
	}
	head := f[3]
	if codec.IsClosing(head) {
		if head, err = t.restamped(head, from, 2); err != nil {
			return err
		}
	}
	t.append(ctx, t.SignalsKey(to), t.moved(from, at), "h", string(head), "m", f.text(4))
	return nil
}

// logEnds are what a restored log cannot show by its entries. Logs of other partitions get ends that say that entries
// are missing.
var logEnds = section{
	save: func(ctx context.Context, s *source) error {
		for p := range s.cuts {
			ends := slices.Concat([]any{p}, endOf(s.cuts[p].events), endOf(s.cuts[p].signal))
			if err := s.add(kindLogEnd, ends...); err != nil {
				return err
			}
		}
		return ctx.Err()
	},
	records: []record{{kind: kindLogEnd, fields: 7, ofPartition: true, sameOnly: true, load: loadLogEnd}},
}

func loadLogEnd(ctx context.Context, t *target, f fields) error {
	t.setEnd(ctx, t.EventsKey(f.partition()), f[1:4])
	t.setEnd(ctx, t.SignalsKey(f.partition()), f[4:7])
	return nil
}

// endOf returns the fields that setEnd takes.
func endOf(info redisclient.StreamInfo) []any {
	return []any{info.Generated, info.Added, info.MaxDeleted}
}
