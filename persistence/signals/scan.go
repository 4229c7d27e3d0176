package signals

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Lists reads the signal log for lists.
type Lists struct{ passes }

// ScanSignals calls f for each entry of a partition's signal log in order, and then for each open
// signal whose confidence has changed. It reads the log and the open signals at the same time, so
// an open signal may already be closed by an entry of the log, or not be in the log yet. The pass
// may or may not include what is written meanwhile: the caller must take that from the event log.
// An error of f ends the pass, and with Options.WaitReplicas the pass fails unless replicas have what
// it read. Unreadable entries are logged and skipped.
func (s *Lists) ScanSignals(ctx context.Context, p int, f func(signal.LogEntry) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Redis takes twice as long for the open signals as for the log, which is decoded here
	// meanwhile.
	open := openScan{known: knownTexts{}}
	opened := make(chan error, 1)
	go func() {
		opened <- panics.Catch(s.Log, panics.Log, func() error { return s.EachOpen(ctx, p, open.add) }, "partition", p)
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
		err = s.Reads.Confirm(ctx, s.ConfirmKey(p))
	}
	return err
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
