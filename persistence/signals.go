package persistence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/redis/go-redis/v9"
)

const (
	// scanEntries is how many entries one command of a pass over a log returns.
	scanEntries = 4000
	// recentClosing is how far back a closing is looked for that nobody has
	// announced yet.
	recentClosing = time.Minute
)

// SignalByID returns a signal with its current state. created and closed are where
// the catalogue found it; a closed of zero means that it was open, which is looked
// after. KindNotFound: there is no such signal of the account, or no longer.
func (s *Store) SignalByID(ctx context.Context, account signal.AccountID, id signal.SignalID, created, closed signal.Position) (*signal.Signal, error) {
	p := s.Partition(account)
	record, err := s.record(ctx, p, created)
	if err != nil {
		return nil, err
	}
	if record.ID != id || record.Account != account {
		return nil, signal.NotFound("signal")
	}
	if closed.IsZero() {
		value, err := s.rdb.HGet(ctx, openKey(p), openField(id)).Bytes()
		if err == nil {
			state, d := decodeOpenState(value)
			if d.err != nil {
				return nil, fmt.Errorf("decode open signal %s: %w", id, d.err)
			}
			state.apply(record)
			return record, nil
		}
		if !errors.Is(err, redis.Nil) {
			return nil, signal.Unavailable(fmt.Errorf("read open signal %s: %w", id, err))
		}
		return s.recentlyClosed(ctx, p, record)
	}
	entries, err := s.readRange(ctx, signalsKey(p), closed.String(), closed.String(), 1)
	if err != nil {
		return nil, signal.Unavailable(err)
	}
	if len(entries) == 0 {
		return nil, signal.NotFound("signal")
	}
	return closeRecord(record, &entries[0])
}

// recentlyClosed returns record as it was closed moments ago: after the catalogue
// said that it was open.
func (s *Store) recentlyClosed(ctx context.Context, p int, record *signal.Signal) (*signal.Signal, error) {
	oldest := max(record.CreatedAt.UnixMilli(), s.Now().Add(-recentClosing).UnixMilli())
	end := "+"
	for {
		reply, err := s.raw(ctx, s.rdb, nil, "XREVRANGE", signalsKey(p), end, oldest, "COUNT", 500)
		if err != nil {
			return nil, signal.Unavailable(fmt.Errorf("look for closing of %s: %w", record.ID, err))
		}
		r := respReader{b: reply}
		entries, err := r.entries(nil)
		if err != nil {
			return nil, fmt.Errorf("look for closing of %s: %w", record.ID, err)
		}
		if len(entries) == 0 {
			return nil, signal.NotFound("signal")
		}
		for i := range entries {
			if !isClosing(entries[i].header) {
				continue
			}
			var c closedState
			if decodeClosedHead(entries[i].header, &c); c.id == record.ID {
				return closeRecord(record, &entries[i])
			}
		}
		end = "(" + entries[len(entries)-1].position.String()
	}
}

// record returns the signal created at a position, as it was then.
func (s *Store) record(ctx context.Context, p int, created signal.Position) (*signal.Signal, error) {
	entries, err := s.readRange(ctx, signalsKey(p), created.String(), created.String(), 1)
	if err != nil {
		return nil, signal.Unavailable(err)
	}
	if len(entries) == 0 {
		return nil, signal.NotFound("signal")
	}
	return decodeRecord(created, entries[0].header, entries[0].body)
}

// closeRecord adds to record what the entry of its closing says.
func closeRecord(record *signal.Signal, e *entry) (*signal.Signal, error) {
	c, err := decodeClosed(e.position, e.header)
	if err != nil {
		return nil, err
	}
	if c.id != record.ID || c.account != record.Account {
		return nil, signal.NotFound("signal")
	}
	c.updated = e.position
	c.apply(record)
	record.Closing = &c.closing
	more, err := unpackMetadata(e.body)
	if err == nil {
		record.Metadata, err = mergeMetadata(record.Metadata, more)
	}
	if err != nil {
		return nil, fmt.Errorf("decode closing of %s: %w", record.ID, err)
	}
	return record, nil
}

// mergeMetadata returns the object base with the members of more, which is empty
// for most closings.
func mergeMetadata(base json.RawMessage, more []byte) (json.RawMessage, error) {
	if len(more) == 0 {
		return base, nil
	}
	members := map[string]json.RawMessage{}
	for _, object := range [][]byte{base, more} {
		if len(object) > 0 {
			if err := json.Unmarshal(object, &members); err != nil {
				return nil, fmt.Errorf("decode metadata: %w", err)
			}
		}
	}
	return json.Marshal(members)
}

// SignalEntry is what a pass over a partition's signals tells of one.
type SignalEntry struct {
	Account  signal.AccountID
	Position signal.Position // of the creation or the closing; of another change, where it was made
	// Created is set for a creation, with the confidence of then; nil for a change.
	// It is valid until the function it is given to returns.
	Created    *signal.Listing
	ID         signal.SignalID // of a change, and so the next two
	Confidence float64         // after the change
	Closed     bool            // the change is the closing
}

// ScanSignals calls f for each entry of a partition's signal log in its order, then
// for each open signal whose confidence has changed. It returns the end of the
// event log as it was before the pass: what came later must be taken from there,
// and may be in the pass already. An error of f ends the pass. Entries that cannot
// be read are logged and passed over.
func (s *Store) ScanSignals(ctx context.Context, p int, f func(SignalEntry) error) (upTo signal.Position, err error) {
	if upTo, err = s.lastEvent(ctx, p); err != nil {
		return upTo, err
	}
	scan := signalScan{f: f, texts: map[string]string{}}
	// Redis sends the next entries while the last ones are decoded.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pages, free := make(chan *page, 2), make(chan *page, 2)
	free <- &page{}
	free <- &page{}
	go s.readPages(ctx, signalsKey(p), pages, free)
	for page := range pages {
		if page.err != nil {
			return upTo, signal.Unavailable(page.err)
		}
		for i := range page.entries {
			if err := scan.entry(&page.entries[i]); err != nil {
				return upTo, err
			}
		}
		free <- page
	}
	if err := ctx.Err(); err != nil {
		return upTo, signal.Unavailable(err)
	}
	err = s.eachOpen(ctx, p, scan.open)
	if scan.bad > 0 {
		s.log.Error("entries of the signal log are not readable", "component", "persistence", "partition", p,
			"entries", scan.bad, "err", scan.err)
	}
	return upTo, err
}

// page is a part of a log, or why it could not be read.
type page struct {
	buffer  rawBuffer
	entries []entry // in buffer
	err     error
}

// readPages fills the pages that it takes from free with all of a stream, in order,
// and closes pages at the end.
func (s *Store) readPages(ctx context.Context, key string, pages chan<- *page, free <-chan *page) {
	defer close(pages)
	start := "-"
	for {
		var p *page
		select {
		case p = <-free:
		case <-ctx.Done():
			return
		}
		p.entries, p.err = s.readRangeInto(ctx, &p.buffer, p.entries, key, start, "+", scanEntries)
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

// signalScan decodes for ScanSignals.
type signalScan struct {
	f       func(SignalEntry) error
	texts   map[string]string // assets and accounts, which come again and again
	listing signal.Listing
	price   float64
	bad     int
	err     error // of the first bad one
}

// text returns b as a string, the same one for equal contents.
func (c *signalScan) text(b []byte) string {
	if s, ok := c.texts[string(b)]; ok {
		return s
	}
	s := string(b)
	c.texts[s] = s
	return s
}

// account reads an account. The form stored, with its first byte, is what names it
// in texts.
func (c *signalScan) account(d *decoder) signal.AccountID {
	if len(d.b) > 17 && d.b[0] == idULID {
		stored := d.b[:17]
		if s, ok := c.texts[string(stored)]; ok {
			d.b = d.b[17:]
			return signal.AccountID(s)
		}
		s := d.id("acc_")
		c.texts[string(stored)] = s
		return signal.AccountID(s)
	}
	return signal.AccountID(d.id("acc_"))
}

func (c *signalScan) skip(err error) {
	if c.bad++; c.bad == 1 {
		c.err = err
	}
}

// entry takes one entry of the signal log.
func (c *signalScan) entry(e *entry) error {
	if isClosing(e.header) {
		var closed closedState
		if d := decodeClosedHead(e.header, &closed); d.err != nil {
			c.skip(fmt.Errorf("decode closing at %v: %w", e.position, d.err))
			return nil
		}
		return c.f(SignalEntry{Account: closed.account, Position: e.position, ID: closed.id, Confidence: closed.confidence, Closed: true})
	}
	d := decode(e.header)
	if kind := d.byte(); kind != kindCreated {
		d.fail(fmt.Errorf("entry of kind %d is not known", kind))
	}
	account := c.account(&d)
	c.listing = signal.Listing{ID: signal.SignalID(d.id("sig_")), Status: signal.Open, CreatedAt: e.position.Time()}
	flags, levels := decodeListed(&d, &c.listing, c.text)
	if d.err != nil {
		c.skip(fmt.Errorf("decode signal at %v: %w", e.position, d.err))
		return nil
	}
	if flags&signalLevels != 0 {
		c.price = levels.Entry
		c.listing.Entry = &c.price
	}
	return c.f(SignalEntry{Account: account, Position: e.position, Created: &c.listing, ID: c.listing.ID, Confidence: c.listing.Confidence})
}

// open takes one open signal.
func (c *signalScan) open(field, value []byte) error {
	state, d := decodeOpenState(value)
	account := c.account(&d)
	if d.err != nil {
		c.skip(fmt.Errorf("decode open signal: %w", d.err))
		return nil
	}
	if state.sequence <= 1 {
		return nil
	}
	return c.f(SignalEntry{Account: account, Position: state.updated, ID: signalOfField(field), Confidence: state.confidence})
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

// eachOpen calls f for each field of the hash of open signals. Field and value are
// valid until f returns.
func (s *Store) eachOpen(ctx context.Context, p int, f func(field, value []byte) error) error {
	cursor := "0"
	var buffer rawBuffer
	for {
		reply, err := s.raw(ctx, s.rdb, &buffer, "HSCAN", openKey(p), cursor, "COUNT", scanEntries)
		if err != nil {
			return signal.Unavailable(fmt.Errorf("read open signals of partition %d: %w", p, err))
		}
		r := respReader{b: reply}
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
