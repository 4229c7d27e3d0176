package persistence

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// scanEntries is how many entries one command of a pass returns: Redis does nothing
// else for a millisecond, and more would not be quicker.
const scanEntries = 1000

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
		opened <- s.guarded(func() error { return s.eachOpen(ctx, p, open.add) }, "partition", p)
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
		s.log.Error("signals are not readable", "component", "persistence", "partition", p,
			"entries", bad, "err", errors.Join(log.bad.first, open.bad.first))
	}
	for i := 0; i < len(open.changed) && err == nil; i++ {
		err = f(open.changed[i])
	}
	return err
}

// scanLog calls f for each entry of a partition's signal log in its order. Redis
// sends the next entries while f is given the last ones.
func (s *Store) scanLog(ctx context.Context, p int, f func(*entry) error) error {
	return s.scanLogFrom(ctx, p, "-", f)
}

// scanLogFrom is scanLog from a start on, as XRANGE has it.
func (s *Store) scanLogFrom(ctx context.Context, p int, start string, f func(*entry) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pages, free := make(chan *page, 2), make(chan *page, 2)
	free <- &page{}
	free <- &page{}
	go s.readPages(ctx, signalsKey(p), start, pages, free)
	for page := range pages {
		if page.err != nil {
			return unavailable(page.err)
		}
		for i := range page.entries {
			if err := f(&page.entries[i]); err != nil {
				return err
			}
		}
		free <- page
	}
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	return nil
}

// page is a part of a log, or why it could not be read.
type page struct {
	buffer  rawBuffer
	entries []entry // in buffer
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
		if !panics.Guard(s.log, panics.Log, func() {
			p.entries, p.err = s.readRangeInto(ctx, &p.buffer, p.entries, key, start, "+", scanEntries)
		}, "key", key, "from", start) {
			p.err = panics.ErrPanicked
		}
		if p.err == nil && len(p.entries) > 0 {
			start = "(" + p.entries[len(p.entries)-1].position.String()
		}
		end := p.err != nil || len(p.entries) < scanEntries
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
func (t knownTexts) account(d *decoder) signal.AccountID {
	if len(d.b) < 17 || d.b[0] != idULID {
		return signal.AccountID(d.id("acc_"))
	}
	stored := d.b[:17]
	s, ok := t[string(stored)]
	if !ok {
		s = ulidText("acc_", [16]byte(stored[1:]))
		t[string(stored)] = s
	}
	d.b = d.b[17:]
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
func (c *logScan) add(e *entry) error {
	if isClosing(e.header) {
		var closed closedState
		if d := decodeClosedHead(e.header, &closed); d.err != nil {
			c.bad.add(fmt.Errorf("decode closing at %v: %w", e.position, d.err))
			return nil
		}
		return c.f(SignalEntry{Account: closed.account, Position: e.position, ID: closed.id, Origin: closed.created,
			Confidence: closed.confidence, Closed: true})
	}
	d := decode(e.header)
	if kind := d.byte(); kind != kindCreated {
		d.fail(fmt.Errorf("entry of kind %d is not known", kind))
	}
	account := c.known.account(&d)
	c.listing = signal.Listing{ID: signal.SignalID(d.id("sig_")), Status: signal.Open, CreatedAt: e.position.Time()}
	flags, levels := decodeListed(&d, &c.listing, c.known.text)
	if d.err != nil {
		c.bad.add(fmt.Errorf("decode signal at %v: %w", e.position, d.err))
		return nil
	}
	if flags&signalLevels != 0 {
		c.price = levels.Entry
		c.listing.Entry = &c.price
	}
	var weather *signal.Outlook
	if flags&signalWeather != 0 {
		if weather = decodeWeatherBehind(&d, flags); d.err != nil {
			c.bad.add(fmt.Errorf("decode weather signal at %v: %w", e.position, d.err))
			return nil
		}
	}
	return c.f(SignalEntry{Account: account, Position: e.position, Created: &c.listing, Weather: weather, ID: c.listing.ID, Confidence: c.listing.Confidence})
}

// openScan decodes the open signals for ScanSignals.
type openScan struct {
	known   knownTexts
	changed []SignalEntry
	bad     unreadable
}

// add takes one open signal.
func (c *openScan) add(field, value []byte) error {
	state, d := decodeOpenState(value)
	if d.err != nil || state.sequence > 1 {
		account := c.known.account(&d)
		if d.err != nil {
			c.bad.add(fmt.Errorf("decode open signal: %w", d.err))
			return nil
		}
		c.changed = append(c.changed, SignalEntry{Account: account, ID: signalOfField(field), Origin: state.created, Confidence: state.confidence})
	}
	return nil
}

// OpenSignals calls f for each open signal of a partition, without its metadata, in
// no order, with the position of its creation. A signal may come twice. An error of
// f ends it. Entries that cannot be read are logged and passed over.
func (s *Store) OpenSignals(ctx context.Context, p int, f func(sig signal.Signal, created signal.Position) error) error {
	return s.eachOpen(ctx, p, func(field, value []byte) error {
		open, created, err := decodeOpen(field, value)
		if err != nil {
			s.log.Error("an open signal is not readable", "component", "persistence", "partition", p, "err", err)
			return nil
		}
		return f(open, created)
	})
}

// CountOpen returns how many signals of a partition are open.
func (s *Store) CountOpen(ctx context.Context, p int) (int, error) {
	n, err := s.rdb.HLen(ctx, openKey(p)).Result()
	if err != nil {
		return 0, unavailable(fmt.Errorf("count open signals of partition %d: %w", p, err))
	}
	return int(n), nil
}

// OpenSignalsOf returns those of the named signals of a partition that are open,
// without their metadata. Entries that cannot be read are logged and left out.
func (s *Store) OpenSignalsOf(ctx context.Context, p int, ids []signal.SignalID) ([]signal.Signal, error) {
	var list []signal.Signal
	for len(ids) > 0 {
		chunk := ids[:min(len(ids), scanEntries)]
		ids = ids[len(chunk):]
		fields := make([]string, len(chunk))
		for i, id := range chunk {
			fields[i] = openField(id)
		}
		values, err := s.rdb.HMGet(ctx, openKey(p), fields...).Result()
		if err != nil {
			return nil, unavailable(fmt.Errorf("read open signals of partition %d: %w", p, err))
		}
		for i, v := range values {
			value, ok := v.(string)
			if !ok {
				continue
			}
			open, _, err := decodeOpen([]byte(fields[i]), []byte(value))
			if err != nil {
				s.log.Error("an open signal is not readable", "component", "persistence", "partition", p, "err", err)
				continue
			}
			list = append(list, open)
		}
	}
	return list, nil
}

// eachOpen calls f for each field of the hash of open signals. Field and value are
// valid until f returns.
func (s *Store) eachOpen(ctx context.Context, p int, f func(field, value []byte) error) error {
	cursor := "0"
	var buffer rawBuffer
	for {
		reply, err := s.raw(ctx, s.rdb, &buffer, "HSCAN", openKey(p), cursor, "COUNT", scanEntries)
		if err != nil {
			return unavailable(fmt.Errorf("read open signals of partition %d: %w", p, err))
		}
		r := newReplyReader(reply)
		if r.array() != 2 {
			r.fail()
		}
		cursor = string(r.text())
		for n := r.array() / 2; n > 0 && r.err == nil; n-- {
			field, value := r.text(), r.text()
			if r.err != nil {
				break
			}
			if err := f(field, value); err != nil {
				return err
			}
		}
		if r.err != nil {
			return fmt.Errorf("read open signals of partition %d: %w", p, r.err)
		}
		if cursor == "0" {
			return nil
		}
	}
}
