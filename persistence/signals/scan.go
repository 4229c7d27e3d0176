package signals

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// ScanSignals calls f for each entry of a partition's signal log in order, and then for each open
// signal whose confidence has changed. It reads the log and the open signals at the same time, so
// an open signal may already be closed by an entry of the log, or not be in the log yet. The pass
// may or may not include what is written meanwhile: the caller must take that from the event log.
// An error of f ends the pass, and with Options.WaitReplicas the pass fails unless replicas have what
// it read. Unreadable entries are logged and skipped.
func (s *Store) ScanSignals(ctx context.Context, p int, f func(signal.LogEntry) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Redis takes twice as long for the open signals as for the log, which is decoded here
	// meanwhile.
	open := openScan{known: knownTexts{}}
	opened := make(chan error, 1)
	go func() {
		opened <- s.Guarded(func() error { return s.EachOpen(ctx, p, open.add) }, "partition", p)
	}()
	log := logScan{f: f, known: knownTexts{}}
	_, err := s.scanLog(ctx, p, signal.Position{}, signal.Position{MS: math.MaxInt64}, &log)
	if err != nil {
		cancel()
	}
	if failed := <-opened; err == nil {
		err = failed
	}
	s.logUnreadable(p, log.bad.n+open.bad.n, errors.Join(log.bad.first, open.bad.first))
	for i := 0; i < len(open.changed) && err == nil; i++ {
		err = f(open.changed[i])
	}
	if err == nil {
		err = s.ConfirmRead(ctx, s.ConfirmKey(p))
	}
	return err
}

// logReader takes the entries of a signal log in order, out of blocks or as they are stored.
type logReader interface {
	// part returns the part of a stored block that it reads.
	part(*redisclient.Entry) []byte
	// addBlock takes the entries of a block for which next returns true. unread is an entry that is not
	// decoded in the block: next has add called for it.
	addBlock(b codec.Block, next func(at signal.Position, unread bool) (bool, error)) error
	add(*redisclient.Entry) error
}

// scanLog has r take the entries of a partition's signal log after a position and up to end: what blocks have
// from these, the rest from the log. It returns the position up to which r has taken them, also after
// an error.
func (s *Store) scanLog(ctx context.Context, p int, after, end signal.Position, r logReader) (signal.Position, error) {
	upTo, err := s.scanBlocks(ctx, p, after, end, r)
	if err != nil {
		return upTo, err
	}
	err = s.scanLogFrom(ctx, p, "("+upTo.String(), func(e *redisclient.Entry) error {
		if end.Compare(e.Position) < 0 {
			return errEnd
		}
		upTo = e.Position
		return r.add(e)
	})
	if errors.Is(err, errEnd) {
		err = nil
	}
	return upTo, err
}

// scanLogFrom calls f for each entry of a partition's signal log in order, from a start as for
// XRANGE.
func (s *Store) scanLogFrom(ctx context.Context, p int, start string, f func(*redisclient.Entry) error) error {
	return s.scanStream(ctx, s.SignalsKey(p), start, eventlog.ScanEntries, f)
}

// scanStream calls f for each entry of a stream in order, from a start as for XRANGE. Redis sends the next
// count entries while f gets the last ones.
func (s *Store) scanStream(
	ctx context.Context, key, start string, count int, f func(*redisclient.Entry) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	pages, free := make(chan *page, 2), make(chan *page, 2)
	defer func() { // readPages ends first
		cancel()
		for range pages {
		}
	}()
	free <- &page{}
	free <- &page{}
	go s.readPages(ctx, key, start, count, pages, free)
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

// page is a part of a log, or the error of reading it.
type page struct {
	buffer  redisclient.Buffer
	entries []redisclient.Entry // in buffer
	err     error
}

// readPages reads a stream from start on, count entries at a time, into the pages that it takes from
// free, in order. It closes pages at the end.
func (s *Store) readPages(
	ctx context.Context, key, start string, count int, pages chan<- *page, free <-chan *page,
) {
	defer close(pages)
	for {
		var p *page
		select {
		case p = <-free:
		case <-ctx.Done():
			return
		}
		if !panics.Guard(s.Log, panics.Log, func() {
			p.entries, p.err = s.ReadRangeInto(ctx, &p.buffer, p.entries, key, start, "+", count)
		}, "key", key, "from", start) {
			p.err = panics.ErrPanicked
		}
		if p.err == nil && len(p.entries) > 0 {
			start = "(" + p.entries[len(p.entries)-1].Position.String()
		}
		end := p.err != nil || len(p.entries) < count
		pages <- p // never blocks: the channel has room for all pages
		if end {
			return
		}
	}
}

// unreadable counts entries that could not be decoded.
type unreadable struct {
	n     int
	first error
}

func (s *Store) logUnreadable(p, entries int, err error) {
	if entries > 0 {
		s.Log.Error("signals are not readable", "component", "persistence", "partition", p,
			"entries", entries, "err", err)
	}
}

func (u *unreadable) add(err error) {
	if u.n++; u.n == 1 {
		u.first = err
	}
}

// knownTexts are the accounts and assets of a pass, so that each string is made once.
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

// account reads an account. The key is its stored form, which begins with its kind.
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
	f       func(signal.LogEntry) error
	known   knownTexts
	listing signal.Listing
	price   float64
	bad     unreadable
}

func (c *logScan) part(e *redisclient.Entry) []byte { return e.Header }

func (c *logScan) addBlock(b codec.Block, next func(at signal.Position, unread bool) (bool, error)) error {
	return b.Each(func(e *signal.LogEntry) error {
		if take, err := next(e.Position, e.Account == ""); !take {
			return err
		}
		return c.f(*e)
	})
}

// add takes one entry of the signal log.
func (c *logScan) add(e *redisclient.Entry) error {
	if codec.IsClosing(e.Header) {
		var closed codec.ClosedState
		d := codec.DecodeClosedHead(e.Header, &closed)
		id, ok := signal.ULIDBytes(string(closed.ID))
		if !ok {
			d.Fail(fmt.Errorf("signal %q has no ULID", closed.ID))
		}
		if d.Err != nil {
			c.bad.add(fmt.Errorf("decode closing at %v: %w", e.Position, d.Err))
			return nil
		}
		return c.f(signal.LogEntry{Account: closed.Account, Position: e.Position, ULID: id, Origin: closed.Created,
			Confidence: closed.Confidence, Closed: true})
	}
	d := codec.Decode(e.Header)
	if kind := d.Byte(); kind != codec.KindCreated {
		d.Fail(fmt.Errorf("entry of kind %d is not known", kind))
	}
	account := c.known.account(&d)
	id := d.ULID()
	c.listing = signal.Listing{Status: signal.Open, CreatedAt: e.Position.Time()}
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
	return c.f(signal.LogEntry{
		Account: account, Position: e.Position, Created: &c.listing, Weather: weather,
		ULID: id, Confidence: c.listing.Confidence,
	})
}

// openScan decodes the open signals for ScanSignals.
type openScan struct {
	known   knownTexts
	changed []signal.LogEntry
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
		entry := signal.LogEntry{Account: account, Origin: state.Created, Confidence: state.Confidence}
		if len(field) != len(entry.ULID) {
			c.bad.add(fmt.Errorf("open signal %q has no ULID", field))
			return nil
		}
		copy(entry.ULID[:], field)
		c.changed = append(c.changed, entry)
	}
	return nil
}

// OpenSignals calls f for each open signal of a partition, in no order, without its metadata and
// with the position of its creation. A signal may come twice. An error of f ends the pass.
// Unreadable entries are logged and skipped.
func (s *Store) OpenSignals(
	ctx context.Context, p int, f func(sig signal.Signal, created signal.Position) error,
) error {
	return s.EachOpen(ctx, p, func(field, value []byte) error {
		open, created, err := codec.DecodeOpen(field, value)
		if err != nil {
			s.Log.Error("an open signal is not readable", "component", "persistence", "partition", p, "err", err)
			return nil
		}
		return f(open, created)
	})
}

// CountOpen returns the number of open signals of a partition.
func (s *Store) CountOpen(ctx context.Context, p int) (int, error) {
	n, err := s.RDB.HLen(ctx, s.OpenKey(p)).Result()
	if err != nil {
		return 0, redisclient.Failed(err, "count open signals of partition %d", p)
	}
	return int(n), nil
}

// OpenSignalsOf returns the given signals of a partition that are open, without their metadata.
// Unreadable entries are logged and left out.
func (s *Store) OpenSignalsOf(ctx context.Context, p int, ids []signal.SignalID) ([]signal.Signal, error) {
	var list []signal.Signal
	for len(ids) > 0 {
		chunk := ids[:min(len(ids), eventlog.ScanEntries)]
		ids = ids[len(chunk):]
		fields := make([]string, len(chunk))
		for i, id := range chunk {
			fields[i] = codec.OpenField(id)
		}
		values, err := s.RDB.HMGet(ctx, s.OpenKey(p), fields...).Result()
		if err != nil {
			return nil, redisclient.Failed(err, "read open signals of partition %d", p)
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
