package persistence

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Kinds of signal log entries: the byte after the version.
const (
	kindCreated = 1
	kindClosed  = 2
)

// openField is the field of a signal in the hash of open ones: the 16 bytes of its
// ULID.
func openField(id signal.SignalID) string {
	if raw, ok := signal.ULIDBytes(string(id)); ok {
		return string(raw[:])
	}
	return string(id)
}

func signalOfField(field []byte) signal.SignalID {
	if len(field) == 16 {
		return signal.SignalID(ulidText("sig_", [16]byte(field)))
	}
	return signal.SignalID(field)
}

// Which optional fields a signal has.
const (
	signalLevels = 1 << iota
	signalExpires
	signalWeather
)

// appendAttributes adds what never changes of s, but for its id, account and
// metadata. The time of creation is that of the entry, so the expiry is stored as
// the time from there; now stands for it if the caller has not set CreatedAt.
func appendAttributes(b []byte, s *signal.Signal, now time.Time) []byte {
	flags := byte(0)
	if s.Levels != nil {
		flags |= signalLevels
	}
	if !s.ExpiresAt.IsZero() {
		flags |= signalExpires
	}
	if s.Weather != nil {
		flags |= signalWeather
	}
	b = append(b, flags)
	b = appendText(b, string(s.Agent))
	b = appendString(b, s.Asset)
	b = appendText(b, s.Strategy)
	b = appendText(b, string(s.Direction))
	if s.FirstConfidence != 0 {
		b = appendFloat(b, s.FirstConfidence)
	} else {
		b = appendFloat(b, s.Confidence)
	}
	if s.Levels != nil {
		b = appendFloat(appendFloat(appendFloat(b, s.Levels.Entry), s.Levels.Stop), s.Levels.Target)
	}
	b = appendID(b, "run_", string(s.Run))
	b = appendText(b, string(s.Timeframe))
	b = appendText(b, string(s.Risk))
	if flags&signalExpires != 0 {
		created := s.CreatedAt
		if created.IsZero() {
			created = now
		}
		b = binary.AppendVarint(b, s.ExpiresAt.Sub(created).Milliseconds())
	}
	if s.Weather != nil {
		b = appendOutlook(b, s.Weather)
	}
	return b
}

// decodeListed reads the first part of what appendAttributes wrote: what lists
// show.
func decodeListed(d *decoder, l *signal.Listing, intern func([]byte) string) (flags byte, levels signal.Levels) {
	flags = d.byte()
	l.Agent = signal.AgentID(d.text())
	l.Asset = intern(d.textBytes(d.byte()))
	l.Strategy = d.text()
	l.Direction = signal.Direction(d.text())
	l.Confidence = d.float()
	if flags&signalLevels != 0 {
		levels = signal.Levels{Entry: d.float(), Stop: d.float(), Target: d.float()}
	}
	return flags, levels
}

// decodeAttributes fills s with what appendAttributes wrote, for a signal created
// at the given position.
func decodeAttributes(d *decoder, s *signal.Signal, created signal.Position) {
	var l signal.Listing
	flags, levels := decodeListed(d, &l, func(b []byte) string { return string(b) })
	s.Agent, s.Asset, s.Strategy, s.Direction = l.Agent, l.Asset, l.Strategy, l.Direction
	s.Confidence, s.FirstConfidence = l.Confidence, l.Confidence
	if flags&signalLevels != 0 {
		s.Levels = &levels
	}
	s.Run = signal.RunID(d.id("run_"))
	s.Timeframe = signal.Timeframe(d.text())
	s.Risk = signal.RiskLevel(d.text())
	s.CreatedAt = created.Time()
	s.UpdatedAt = s.CreatedAt
	s.Sequence = 1
	if flags&signalExpires != 0 {
		s.ExpiresAt = s.CreatedAt.Add(time.Duration(d.varint()) * time.Millisecond)
	}
	if flags&signalWeather != 0 {
		s.Weather = decodeOutlook(d)
	}
}

// appendRecord adds the signal log entry of a creation, without the metadata.
func appendRecord(b []byte, s *signal.Signal, now time.Time) []byte {
	b = append(b, codecVersion, kindCreated)
	b = appendID(b, "acc_", string(s.Account))
	b = appendID(b, "sig_", string(s.ID))
	b = appendAttributes(b, s, now)
	if s.Weather != nil {
		b = appendWeather(b, s.Weather)
	}
	return b
}

// decodeRecord returns the signal whose creation stands at position p of the signal
// log, as it was then.
func decodeRecord(p signal.Position, header, metadata []byte) (_ *signal.Signal, err error) {
	d := decode(header)
	if kind := d.byte(); kind != kindCreated {
		d.fail(fmt.Errorf("entry of kind %d is no creation", kind))
	}
	s := &signal.Signal{}
	s.Account = signal.AccountID(d.id("acc_"))
	s.ID = signal.SignalID(d.id("sig_"))
	decodeAttributes(&d, s, p)
	if s.Weather != nil {
		decodeWeather(&d, s.Weather)
	}
	if d.err != nil {
		return nil, fmt.Errorf("decode signal at %v: %w", p, d.err)
	}
	if s.Metadata, err = unpackMetadata(metadata); err != nil {
		return nil, fmt.Errorf("decode signal at %v: %w", p, err)
	}
	return s, nil
}

// appendOpen adds the state of an open signal. In Redis two positions stand in
// front: where it was created and where it was last changed.
func appendOpen(b []byte, s *signal.Signal, now time.Time) []byte {
	b = append(b, codecVersion)
	b = appendFloat(b, s.Confidence)
	b = binary.AppendUvarint(b, uint64(max(s.Sequence, 1)))
	b = appendFloat(appendFloat(b, s.MFE), s.MAE)
	b = appendID(b, "acc_", string(s.Account))
	return appendAttributes(b, s, now)
}

// openState is what changes of an open signal.
type openState struct {
	created, updated signal.Position
	confidence       float64
	sequence         int64
	mfe, mae         float64
}

// decodeOpenState reads the front of a value of the hash of open signals and
// returns what follows.
func decodeOpenState(value []byte) (o openState, rest decoder) {
	var err error
	if o.created, value, err = cutStamp(value); err == nil {
		o.updated, value, err = cutStamp(value)
	}
	if err != nil {
		return o, decoder{err: err}
	}
	d := decode(value)
	o.confidence = d.float()
	o.sequence = int64(d.uvarint() & (1<<62 - 1))
	o.mfe, o.mae = d.float(), d.float()
	return o, d
}

// apply sets what the state says of s.
func (o *openState) apply(s *signal.Signal) {
	s.Confidence, s.Sequence, s.MFE, s.MAE = o.confidence, o.sequence, o.mfe, o.mae
	s.UpdatedAt = o.updated.Time()
}

// decodeOpen returns the open signal of a field and value, without its metadata,
// and where it was created.
func decodeOpen(field, value []byte) (signal.Signal, signal.Position, error) {
	o, d := decodeOpenState(value)
	s := signal.Signal{ID: signalOfField(field), Account: signal.AccountID(d.id("acc_"))}
	decodeAttributes(&d, &s, o.created)
	if d.err != nil {
		return signal.Signal{}, signal.Position{}, fmt.Errorf("decode open signal %s: %w", s.ID, d.err)
	}
	o.apply(&s)
	return s, o.created, nil
}

// Which optional fields a closing has.
const (
	closingExit = 1 << iota
	closingPercent
	closingAbsolute
	closingAt // the time differs from that of the entry
)

// appendClosed adds the signal log entry of a closing. In Redis two positions stand
// in front, as for an open signal.
func appendClosed(b []byte, s *signal.Signal) []byte {
	c := s.Closing
	if c == nil {
		c = &signal.Closing{}
	}
	b = append(b, codecVersion, kindClosed)
	b = appendID(b, "acc_", string(s.Account))
	b = appendID(b, "sig_", string(s.ID))
	b = appendFloat(b, s.Confidence)
	b = binary.AppendUvarint(b, uint64(max(s.Sequence, 1)))
	b = appendFloat(appendFloat(b, s.MFE), s.MAE)
	b = appendText(b, string(c.Reason))
	flags, at := byte(0), len(b)
	b = append(b, 0)
	for i, v := range []*float64{c.ExitPrice, c.PnLPercent, c.PnLAbsolute} {
		if v != nil {
			flags |= closingExit << i
			b = appendFloat(b, *v)
		}
	}
	if !c.At.IsZero() {
		flags |= closingAt
		b = binary.AppendVarint(b, c.At.UnixMilli())
	}
	b[at] = flags
	return binary.AppendVarint(b, c.DurationMinutes)
}

// closedState is a signal log entry of a closing.
type closedState struct {
	openState
	account signal.AccountID
	id      signal.SignalID
	closing signal.Closing
}

// decodeClosed reads the closing that stands at position p of the signal log.
func decodeClosed(p signal.Position, header []byte) (*closedState, error) {
	c := &closedState{}
	d := decodeClosedHead(header, c)
	c.mfe, c.mae = d.float(), d.float()
	c.closing.Reason = signal.CloseReason(d.text())
	flags := d.byte()
	for i, v := range []**float64{&c.closing.ExitPrice, &c.closing.PnLPercent, &c.closing.PnLAbsolute} {
		if flags&(closingExit<<i) != 0 {
			f := d.float()
			*v = &f
		}
	}
	c.closing.At = p.Time()
	if flags&closingAt != 0 {
		c.closing.At = timeOfMilli(d.varint())
	}
	c.closing.DurationMinutes = d.varint()
	if d.err != nil {
		return nil, fmt.Errorf("decode closing at %v: %w", p, d.err)
	}
	return c, nil
}

// decodeClosedHead reads as much of a closing as lists need.
func decodeClosedHead(header []byte, c *closedState) decoder {
	var err error
	if c.created, header, err = cutStamp(header); err == nil {
		c.updated, header, err = cutStamp(header)
	}
	if err != nil {
		return decoder{err: err}
	}
	d := decode(header)
	if kind := d.byte(); kind != kindClosed {
		d.fail(fmt.Errorf("entry of kind %d is no closing", kind))
	}
	c.account = signal.AccountID(d.id("acc_"))
	c.id = signal.SignalID(d.id("sig_"))
	c.confidence = d.float()
	c.sequence = int64(d.uvarint() & (1<<62 - 1))
	return d
}

// isClosing says that a signal log entry is a closing, not a creation: it begins
// with the digits of a position.
func isClosing(header []byte) bool { return len(header) > 0 && header[0] >= '0' && header[0] <= '9' }
