package signals

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

// SignalEntry is what a pass over a partition's signals tells of one.
type SignalEntry struct {
	Account  signal.AccountID
	Position signal.Position // of the creation or the closing; zero for another change
	// Created is set for a creation, with the confidence of then; nil for a change.
	// It is valid until the function it is given to returns.
	Created    *signal.Listing
	Weather    *signal.Outlook // of the creation by a weather run; nil otherwise
	ID         signal.SignalID
	Origin     signal.Position // of a change: where the signal was created
	Confidence float64         // after the change
	Closed     bool            // the change is the closing
}

// ScanSignals calls f for each entry of a partition's signal log in its order, then
// for each open signal whose confidence has changed. The log and the open signals
// are read at the same time, so one of the latter may have been closed by an entry
// of the log, or not be in it yet. What is written during the pass may be in it or
// not: it must be taken from the event log. An error of f ends the pass. Entries
// that cannot be read are logged and passed over.
func (s *Store) ScanSignals(ctx context.Context, p int, f func(SignalEntry) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Redis takes twice as long for the open signals as for the log, which meanwhile
	// is decoded here.
	open := openScan{known: knownTexts{}}
	opened := make(chan error, 1)
	go func() {
		opened <- s.Guarded(func() error { return s.EachOpen(ctx, p, open.add) }, "partition", p)
	}()
	log := logScan{f: f, known: knownTexts{}}
	err := s.scanLog(ctx, p, log.add)
	if err != nil {
		cancel()
	}
	if failed := <-opened; err == nil {
		err = failed
	}
	if bad := log.bad.n + open.bad.n; bad > 0 {
		s.Log.Error("signals are not readable", "component", "persistence", "partition", p,
			"entries", bad, "err", errors.Join(log.bad.first, open.bad.first))
	}
	for i := 0; i < len(open.changed) && err == nil; i++ {
		err = f(open.changed[i])
	}
	return err
}

// scanLog calls f for each entry of a partition's signal log in its order. Redis
// sends the next entries while f is given the last ones.
func (s *Store) scanLog(ctx context.Context, p int, f func(*redisclient.Entry) error) error {
	return s.scanLogFrom(ctx, p, "-", f)
}

// scanLogFrom is scanLog from a start on, as XRANGE has it.
func (s *Store) scanLogFrom(ctx context.Context, p int, start string, f func(*redisclient.Entry) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pages, free := make(chan *page, 2), make(chan *page, 2)
	free <- &page{}
	free <- &page{}
	go s.readPages(ctx, redisclient.SignalsKey(p), start, pages, free)
	for page := range pages {
		if page.err != nil {
			return redisclient.Unavailable(page.err)
		}
		for i := range page.entries {
			if err := f(&page.entries[i]); err != nil {
				return err
			}
		}
		free <- page
	}
	if err := ctx.Err(); err != nil {
		return redisclient.Unavailable(err)
	}
	return nil
}

// page is a part of a log, or why it could not be read.
type page struct {
	buffer  redisclient.Buffer
	entries []redisclient.Entry // in buffer
	err     error
}

// readPages fills the pages that it takes from free with a stream from start on, in
// order, and closes pages at the end.
func (s *Store) readPages(ctx context.Context, key, start string, pages chan<- *page, free <-chan *page) {
	defer close(pages)
	for {
		var p *page
		select {
		case p = <-free:
		case <-ctx.Done():
			return
		}
		if !panics.Guard(s.Log, panics.Log, func() {
			p.entries, p.err = s.ReadRangeInto(ctx, &p.buffer, p.entries, key, start, "+", eventlog.ScanEntries)
		}, "key", key, "from", start) {
			p.err = panics.ErrPanicked
		}
		if p.err == nil && len(p.entries) > 0 {
			start = "(" + p.entries[len(p.entries)-1].Position.String()
		}
		end := p.err != nil || len(p.entries) < eventlog.ScanEntries
		pages <- p // there are as many places as pages
		if end {
			return
		}
	}
}

// unreadable counts what could not be decoded.
type unreadable struct {
	n     int
	first error
}

func (u *unreadable) add(err error) {
	if u.n++; u.n == 1 {
		u.first = err
	}
}

// knownTexts are accounts and assets, which come again and again: each is made once.
type knownTexts map[string]string

// text returns b as a string.
func (t knownTexts) text(b []byte) string {
	if s, ok := t[string(b)]; ok {
		return s
	}
	s := string(b)
	t[s] = s
	return s
}

// account reads an account. The form stored, with its first byte, is what names it.
func (t knownTexts) account(d *codec.Decoder) signal.AccountID {
	if len(d.B) < 17 || d.B[0] != codec.ULIDForm {
		return signal.AccountID(d.ID("acc_"))
	}
	stored := d.B[:17]
	s, ok := t[string(stored)]
	if !ok {
		s = codec.ULIDText("acc_", [16]byte(stored[1:]))
		t[string(stored)] = s
	}
	d.B = d.B[17:]
	return signal.AccountID(s)
}

// logScan decodes the signal log for ScanSignals.
type logScan struct {
	f       func(SignalEntry) error
	known   knownTexts
	listing signal.Listing
	price   float64
	bad     unreadable
}

// add takes one entry of the signal log.
func (c *logScan) add(e *redisclient.Entry) error {
	if codec.IsClosing(e.Header) {
		var closed codec.ClosedState
		if d := codec.DecodeClosedHead(e.Header, &closed); d.Err != nil {
			c.bad.add(fmt.Errorf("decode closing at %v: %w", e.Position, d.Err))
			return nil
		}
		return c.f(SignalEntry{Account: closed.Account, Position: e.Position, ID: closed.ID, Origin: closed.Created,
			Confidence: closed.Confidence, Closed: true})
	}
	d := codec.Decode(e.Header)
	if kind := d.Byte(); kind != codec.KindCreated {
		d.Fail(fmt.Errorf("entry of kind %d is not known", kind))
	}
	account := c.known.account(&d)
	c.listing = signal.Listing{ID: signal.SignalID(d.ID("sig_")), Status: signal.Open, CreatedAt: e.Position.Time()}
	flags, levels := codec.DecodeListed(&d, &c.listing, c.known.text)
	if d.Err != nil {
		c.bad.add(fmt.Errorf("decode signal at %v: %w", e.Position, d.Err))
		return nil
	}
	if flags&codec.SignalLevels != 0 {
		c.price = levels.Entry
		c.listing.Entry = &c.price
	}
	var weather *signal.Outlook
	if flags&codec.SignalWeather != 0 {
		if weather = codec.DecodeWeatherBehind(&d, flags); d.Err != nil {
			c.bad.add(fmt.Errorf("decode weather signal at %v: %w", e.Position, d.Err))
			return nil
		}
	}
	return c.f(SignalEntry{Account: account, Position: e.Position, Created: &c.listing, Weather: weather, ID: c.listing.ID, Confidence: c.listing.Confidence})
}

// openScan decodes the open signals for ScanSignals.
type openScan struct {
	known   knownTexts
	changed []SignalEntry
	bad     unreadable
}

// add takes one open signal.
func (c *openScan) add(field, value []byte) error {
	state, d := codec.DecodeOpenState(value)
	if d.Err != nil || state.Sequence > 1 {
		account := c.known.account(&d)
		if d.Err != nil {
			c.bad.add(fmt.Errorf("decode open signal: %w", d.Err))
			return nil
		}
		c.changed = append(c.changed, SignalEntry{Account: account, ID: codec.SignalOfField(field), Origin: state.Created, Confidence: state.Confidence})
	}
	return nil
}

// OpenSignals calls f for each open signal of a partition, without its metadata, in
// no order, with the position of its creation. A signal may come twice. An error of
// f ends it. Entries that cannot be read are logged and passed over.
func (s *Store) OpenSignals(ctx context.Context, p int, f func(sig signal.Signal, created signal.Position) error) error {
	return s.EachOpen(ctx, p, func(field, value []byte) error {
		open, created, err := codec.DecodeOpen(field, value)
		if err != nil {
			s.Log.Error("an open signal is not readable", "component", "persistence", "partition", p, "err", err)
			return nil
		}
		return f(open, created)
	})
}

// CountOpen returns how many signals of a partition are open.
func (s *Store) CountOpen(ctx context.Context, p int) (int, error) {
	n, err := s.RDB.HLen(ctx, redisclient.OpenKey(p)).Result()
	if err != nil {
		return 0, redisclient.Unavailable(fmt.Errorf("count open signals of partition %d: %w", p, err))
	}
	return int(n), nil
}

// OpenSignalsOf returns those of the named signals of a partition that are open,
// without their metadata. Entries that cannot be read are logged and left out.
func (s *Store) OpenSignalsOf(ctx context.Context, p int, ids []signal.SignalID) ([]signal.Signal, error) {
	var list []signal.Signal
	for len(ids) > 0 {
		chunk := ids[:min(len(ids), eventlog.ScanEntries)]
		ids = ids[len(chunk):]
		fields := make([]string, len(chunk))
		for i, id := range chunk {
			fields[i] = codec.OpenField(id)
		}
		values, err := s.RDB.HMGet(ctx, redisclient.OpenKey(p), fields...).Result()
		if err != nil {
			return nil, redisclient.Unavailable(fmt.Errorf("read open signals of partition %d: %w", p, err))
		}
		for i, v := range values {
			value, ok := v.(string)
			if !ok {
				continue
			}
			open, _, err := codec.DecodeOpen([]byte(fields[i]), []byte(value))
			if err != nil {
				s.Log.Error("an open signal is not readable", "component", "persistence", "partition", p, "err", err)
				continue
			}
			list = append(list, open)
		}
	}
	return list, nil
}
