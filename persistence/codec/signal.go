package codec

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Kinds of signal log entries: the byte after the version.
const (
	KindCreated = 1
	kindClosed  = 2
)

// OpenField returns the field of a signal in the hash of open ones: the 16 bytes of its ULID.
func OpenField(id signal.SignalID) string {
	if raw, ok := signal.ULIDBytes(string(id)); ok {
		return string(raw[:])
	}
	return string(id)
}

// SignalOfField is the inverse of OpenField.
func SignalOfField(field []byte) signal.SignalID {
	if len(field) == 16 {
		return signal.SignalID(ULIDText("sig_", [16]byte(field)))
	}
	return signal.SignalID(field)
}

// Which optional fields a signal has.
const (
	SignalLevels = 1 << iota
	signalExpires
	SignalWeather
	signalInitial // of an open signal only
	signalUpdates // of an open signal only; scripts/append.lua reads it
	signalExit    // of an open signal only; scripts/append.lua reads and sets it
	signalReach
)

// appendAttributes appends what never changes of s, except its id, account and metadata. The
// time of creation is that of the entry, so the expiry is stored as the duration from there;
// now stands for it if the caller has not set CreatedAt.
func appendAttributes(b []byte, s *signal.Signal, now time.Time) []byte {
	flags := byte(0)
	if s.Levels != nil {
		flags |= SignalLevels
	}
	if !s.ExpiresAt.IsZero() {
		flags |= signalExpires
	}
	if s.Weather != nil {
		flags |= SignalWeather
	}
	if s.Reach != nil {
		flags |= signalReach
	}
	b = append(b, flags)
	b = AppendText(b, string(s.Agent))
	b = AppendString(b, s.Asset)
	b = AppendText(b, s.Strategy)
	b = AppendText(b, string(s.Direction))
	b = appendFloat(b, cmp.Or(s.FirstConfidence, s.Confidence))
	if s.Levels != nil {
		b = appendFloat(appendFloat(appendFloat(b, s.Levels.Entry), s.Levels.Stop), s.Levels.Target)
	}
	b = appendID(b, "run_", string(s.Run))
	b = AppendText(b, string(s.Timeframe))
	b = AppendText(b, string(s.Risk))
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
	if s.Reach != nil {
		b = appendReach(b, s.Reach)
	}
	return b
}

func appendReach(b []byte, r *signal.Reach) []byte {
	return appendFloat(appendFloat(b, r.Stop), r.Bars)
}

func decodeReach(d *Decoder) *signal.Reach { return &signal.Reach{Stop: d.float(), Bars: d.float()} }

// DecodeListed reads the part of appendAttributes that lists show.
func DecodeListed(d *Decoder, l *signal.Listing, intern func([]byte) string) (flags byte, levels signal.Levels) {
	flags = d.Byte()
	l.Agent = signal.AgentID(d.Text())
	l.Asset = intern(d.TextBytes(d.Byte()))
	l.Strategy = d.Text()
	l.Direction = signal.Direction(d.Text())
	l.Confidence = d.float()
	if flags&SignalLevels != 0 {
		levels = signal.Levels{Entry: d.float(), Stop: d.float(), Target: d.float()}
	}
	return flags, levels
}

// decodeAttributes is the inverse of appendAttributes, for a signal created at the given
// position.
func decodeAttributes(d *Decoder, s *signal.Signal, created signal.Position) (flags byte) {
	var l signal.Listing
	var levels signal.Levels
	flags, levels = DecodeListed(d, &l, func(b []byte) string { return string(b) })
	s.Agent, s.Asset, s.Strategy, s.Direction = l.Agent, l.Asset, l.Strategy, l.Direction
	s.Confidence, s.FirstConfidence = l.Confidence, l.Confidence
	if flags&SignalLevels != 0 {
		s.Levels = &levels
	}
	s.Run = signal.RunID(d.ID("run_"))
	s.Timeframe = signal.Timeframe(d.Text())
	s.Risk = signal.RiskLevel(d.Text())
	s.CreatedAt = created.Time()
	s.UpdatedAt = s.CreatedAt
	s.Sequence = 1
	if flags&signalExpires != 0 {
		s.ExpiresAt = s.CreatedAt.Add(time.Duration(d.Varint()) * time.Millisecond)
	}
	if flags&SignalWeather != 0 {
		s.Weather = decodeOutlook(d)
	}
	if flags&signalReach != 0 {
		s.Reach = decodeReach(d)
	}
	return flags
}

// AppendRecord appends the signal log entry of a creation, without the metadata.
func AppendRecord(b []byte, s *signal.Signal, now time.Time) []byte {
	b = append(b, Version, KindCreated)
	b = appendID(b, "acc_", string(s.Account))
	b = appendID(b, "sig_", string(s.ID))
	b = appendAttributes(b, s, now)
	if s.Weather != nil {
		b = appendWeather(b, s.Weather)
	}
	return b
}

// DecodeRecord returns the signal that was created at position p of the signal log, as it was
// then.
func DecodeRecord(p signal.Position, header, metadata []byte) (_ *signal.Signal, err error) {
	d := Decode(header)
	if kind := d.Byte(); kind != KindCreated {
		d.Fail(fmt.Errorf("entry of kind %d is not a creation", kind))
	}
	s := &signal.Signal{}
	s.Account = signal.AccountID(d.ID("acc_"))
	s.ID = signal.SignalID(d.ID("sig_"))
	decodeAttributes(&d, s, p)
	if s.Weather != nil {
		decodeWeather(&d, s.Weather)
	}
	if d.Err != nil {
		return nil, fmt.Errorf("decode signal at %v: %w", p, d.Err)
	}
	if s.Metadata, err = UnpackMetadata(metadata); err != nil {
		return nil, fmt.Errorf("decode signal at %v: %w", p, err)
	}
	return s, nil
}

// AppendOpen appends the state of an open signal. In Redis two positions stand in front: those
// of its creation and of its last change.
func AppendOpen(b []byte, s *signal.Signal, now time.Time) []byte {
	b = append(b, Version)
	b = appendFloat(b, s.Confidence)
	b = binary.AppendUvarint(b, uint64(max(s.Sequence, 1)))
	b = appendFloat(appendFloat(b, s.MFE), s.MAE)
	b = appendID(b, "acc_", string(s.Account))
	attributes := len(b)
	b = appendAttributes(b, s, now)
	if s.Initial != nil { // last, so that the version before reads the rest
		b[attributes] |= signalInitial
		b = appendInitial(b, s.Initial)
	}
	if !s.ExitRequested.IsZero() {
		b[attributes] |= signalExit
		b = append(b, ExitBytes(s.ExitRequested)...)
	}
	if len(s.Updates) > 0 { // last for the same reason, and because the script finds them there
		b[attributes] |= signalUpdates
		b = appendUpdates(b, s)
	}
	return b
}

// exitBytes is the length of the time of an exit: milliseconds since 1970.
const exitBytes = 6

// ExitBytes returns the stored form of Signal.ExitRequested, which is empty for none.
func ExitBytes(at time.Time) []byte {
	if at.IsZero() {
		return nil
	}
	return binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli()))[8-exitBytes:]
}

// updateBytes is the length of an update: 5 bytes of milliseconds since the signal's creation,
// 2 of the confidence in units of 0.0001, and the price.
const updateBytes = 15

// appendUpdates appends the updates of s and their number. Of an updated signal that is one
// update: the script that stores the signal inserts the ones before it.
func appendUpdates(b []byte, s *signal.Signal) []byte {
	for _, u := range s.Updates {
		after := uint64(max(u.At.Sub(s.CreatedAt).Milliseconds(), 0))
		b = append(b, byte(after>>32))
		b = binary.BigEndian.AppendUint32(b, uint32(after))
		b = binary.BigEndian.AppendUint16(b, uint16(math.Round(u.Confidence*1e4)))
		b = appendFloat(b, u.Price)
	}
	return append(b, byte(len(s.Updates)))
}

// decodeUpdates returns the updates of a signal created at a time, which are the rest of its
// record: all but the last byte, their number.
func decodeUpdates(d *Decoder, created time.Time) []signal.Update {
	n := len(d.B) - 1
	if d.Err != nil || n < updateBytes || n != updateBytes*int(d.B[n]) {
		d.Fail(ErrShort)
		return nil
	}
	list := make([]signal.Update, d.B[n])
	for i := range list {
		u := d.Take(updateBytes)
		after := int64(u[0])<<32 | int64(binary.BigEndian.Uint32(u[1:]))
		list[i] = signal.Update{
			At:         created.Add(time.Duration(after) * time.Millisecond),
			Confidence: float64(binary.BigEndian.Uint16(u[5:])) / 1e4,
			Price:      math.Float64frombits(binary.BigEndian.Uint64(u[7:])),
		}
	}
	return list
}

// openState is the part of an open signal that changes.
type openState struct {
	Created, Updated signal.Position
	Confidence       float64
	Sequence         int64
	mfe, mae         float64
}

// decodeStamps reads the two positions in front of a value and begins to read the rest.
func (o *openState) decodeStamps(value []byte) Decoder {
	var err error
	if o.Created, value, err = CutStamp(value); err == nil {
		o.Updated, value, err = CutStamp(value)
	}
	if err != nil {
		return Decoder{Err: err}
	}
	return Decode(value)
}

// DecodeOpenState reads the front of a value of the hash of open signals and
// returns what follows.
func DecodeOpenState(value []byte) (o openState, rest Decoder) {
	d := o.decodeStamps(value)
	o.Confidence = d.float()
	o.Sequence = int64(d.Uvarint() & (1<<62 - 1))
	o.mfe, o.mae = d.float(), d.float()
	return o, d
}

// HasExit reports whether the agent of an open signal has asked for its exit. rest is what DecodeOpenState returns.
func HasExit(rest Decoder) bool {
	rest.ID("acc_")
	return rest.Err == nil && len(rest.B) > 0 && rest.B[0]&signalExit != 0
}

// Apply sets the fields of s that the state has.
func (o *openState) Apply(s *signal.Signal) {
	s.Confidence, s.Sequence, s.MFE, s.MAE = o.Confidence, o.Sequence, o.mfe, o.mae
	s.UpdatedAt = o.Updated.Time()
}

// DecodeOpen returns the open signal of a field and value, without its metadata, and the
// position of its creation.
func DecodeOpen(field, value []byte) (signal.Signal, signal.Position, error) {
	o, d := DecodeOpenState(value)
	s := signal.Signal{ID: SignalOfField(field), Account: signal.AccountID(d.ID("acc_"))}
	flags := decodeAttributes(&d, &s, o.Created)
	if flags&signalInitial != 0 {
		s.Initial = decodeInitial(&d)
	}
	if flags&signalExit != 0 {
		var at [8]byte
		copy(at[8-exitBytes:], d.Take(exitBytes))
		s.ExitRequested = TimeOfMilli(int64(binary.BigEndian.Uint64(at[:])))
	}
	if flags&signalUpdates != 0 {
		s.Updates = decodeUpdates(&d, s.CreatedAt)
	}
	if d.Err != nil {
		return signal.Signal{}, signal.Position{}, fmt.Errorf("decode open signal %s: %w", s.ID, d.Err)
	}
	o.Apply(&s)
	return s, o.Created, nil
}

// Which optional fields a closing has.
const (
	closingExit = 1 << iota
	closingPercent
	closingAbsolute
	closingAt // the time differs from that of the entry
	closingAgent
	closingLevels
)

// AppendClosed appends the signal log entry of a closing. In Redis two positions stand in
// front, as for an open signal. The script appends the updates of the open signal. The entry repeats agent, asset and levels
// of the creation, so that results can be summed without it.
func AppendClosed(b []byte, s *signal.Signal) []byte {
	c := s.Closing
	if c == nil {
		c = &signal.Closing{}
	}
	b = append(b, Version, kindClosed)
	b = appendID(b, "acc_", string(s.Account))
	b = appendID(b, "sig_", string(s.ID))
	b = appendFloat(b, s.Confidence)
	b = binary.AppendUvarint(b, uint64(max(s.Sequence, 1)))
	b = appendFloat(appendFloat(b, s.MFE), s.MAE)
	b = AppendText(b, string(c.Reason))
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
	if s.Agent != "" {
		flags |= closingAgent
		b = AppendText(b, string(s.Agent))
	}
	if l := s.Levels; l != nil {
		flags |= closingLevels
		b = AppendString(b, s.Asset)
		b = appendFloat(appendFloat(appendFloat(b, l.Entry), l.Stop), l.Target)
	}
	b[at] = flags
	return binary.AppendVarint(b, c.DurationMinutes)
}

// ClosedState is a signal log entry of a closing.
type ClosedState struct {
	openState
	Account signal.AccountID
	ID      signal.SignalID
	Agent   signal.AgentID
	Asset   string         // empty without levels
	Levels  *signal.Levels // nil without prices
	Closing signal.Closing
	Updates []signal.Update
}

// DecodeClosed reads the closing at position p of the signal log.
func DecodeClosed(p signal.Position, header []byte) (*ClosedState, error) {
	c := &ClosedState{}
	d := DecodeClosedHead(header, c)
	c.mfe, c.mae = d.float(), d.float()
	c.Closing.Reason = signal.CloseReason(d.Text())
	flags := d.Byte()
	for i, v := range []**float64{&c.Closing.ExitPrice, &c.Closing.PnLPercent, &c.Closing.PnLAbsolute} {
		if flags&(closingExit<<i) != 0 {
			f := d.float()
			*v = &f
		}
	}
	c.Closing.At = p.Time()
	if flags&closingAt != 0 {
		c.Closing.At = TimeOfMilli(d.Varint())
	}
	if flags&closingAgent != 0 {
		c.Agent = signal.AgentID(d.Text())
	}
	if flags&closingLevels != 0 {
		c.Asset = string(d.TextBytes(d.Byte()))
		c.Levels = &signal.Levels{Entry: d.float(), Stop: d.float(), Target: d.float()}
	}
	c.Closing.DurationMinutes = d.Varint()
	if len(d.B) > 0 {
		c.Updates = decodeUpdates(&d, c.Created.Time())
	}
	if d.Err != nil {
		return nil, fmt.Errorf("decode closing at %v: %w", p, d.Err)
	}
	return c, nil
}

// DecodeClosedHead reads the part of a closing that lists need.
func DecodeClosedHead(header []byte, c *ClosedState) Decoder {
	d := c.decodeStamps(header)
	if kind := d.Byte(); kind != kindClosed {
		d.Fail(fmt.Errorf("entry of kind %d is not a closing", kind))
	}
	c.Account = signal.AccountID(d.ID("acc_"))
	c.ID = signal.SignalID(d.ID("sig_"))
	c.Confidence = d.float()
	c.Sequence = int64(d.Uvarint() & (1<<62 - 1))
	return d
}

// IsClosing reports whether a signal log entry is a closing, not a creation: it begins with the
// digits of a position.
func IsClosing(header []byte) bool { return len(header) > 0 && header[0] >= '0' && header[0] <= '9' }

// RecordAccount is EventAccount for entries of the signal log.
func RecordAccount(header []byte) []byte {
	if IsClosing(header) {
		for range 2 {
			_, rest, err := CutStamp(header)
			if err != nil {
				return nil
			}
			header = rest
		}
	}
	d := Decode(header)
	d.Byte() // kind
	return d.StoredID()
}
