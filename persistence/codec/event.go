package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// EventCodes are the stored types of events. Only append to the list.
var EventCodes = []signal.EventType{1: signal.SignalCreated, signal.SignalUpdated, signal.SignalClosed,
	signal.AgentStarted, signal.AgentCompleted, signal.AgentFailed, signal.WebhookTest, signal.SystemNotification,
	signal.AccountDeleted, signal.KeyRevoked, signal.SessionEnded,
	signal.WebhookChanged, signal.DeliveriesChanged, signal.ScheduleChanged, signal.LogCheckpoint,
	signal.ExitRequested}

// CodeOfEvent has the stored codes of events; 0 is an unknown type.
var CodeOfEvent = codesOf(EventCodes)

// Which optional fields an event has.
const (
	eventAsset = 1 << iota
	eventAgent
	eventRun
	eventSubject
	eventListing
	eventWeather
	eventInitial
	eventOpening
)

// AppendEvent appends the header of an event log entry: all of e except its position and its
// data.
func AppendEvent(b []byte, e *signal.Event) []byte {
	code := CodeOfEvent[e.Type]
	b = append(b, Version, code)
	if code == 0 {
		b = AppendString(b, string(e.Type))
	}
	b = appendID(b, "acc_", string(e.Account))
	b = appendID(b, "evt_", string(e.ID))
	at := len(b)
	b = append(b, 0)
	if e.Asset != "" {
		b[at] |= eventAsset
		b = AppendString(b, e.Asset)
	}
	if e.Agent != "" {
		b[at] |= eventAgent
		b = AppendText(b, string(e.Agent))
	}
	if e.Run != "" {
		b[at] |= eventRun
		b = appendID(b, "run_", string(e.Run))
	}
	if e.Subject != "" {
		b[at] |= eventSubject
		b = AppendString(b, e.Subject)
	}
	if e.Listing != nil {
		b[at] |= eventListing
		b = appendListing(b, e)
	}
	if e.Weather != nil {
		b[at] |= eventWeather
		b = appendWeather(appendOutlook(b, e.Weather), e.Weather)
	}
	if e.Initial != nil { // after what the version before reads, as what follows
		b[at] |= eventInitial
		b = appendInitial(b, e.Initial)
	}
	if e.Opening != nil && e.Listing != nil {
		b[at] |= eventOpening
		b = appendOpening(b, e)
	} else if e.Run != "" && e.Strategy != "" { // last of all, so that no flag is needed
		b = AppendText(b, e.Strategy)
	}
	return b
}

// DecodeEvent returns the event at position p of an event log. It shares no memory with
// header and data.
func DecodeEvent(p signal.Position, header, data []byte) (signal.Event, error) {
	e := signal.Event{Position: p}
	d := Decode(header)
	if code := d.Byte(); code == 0 {
		e.Type = signal.EventType(d.TextBytes(d.Byte()))
	} else if int(code) < len(EventCodes) {
		e.Type = EventCodes[code]
	} else {
		d.Fail(fmt.Errorf("event of type %d is not known", code))
	}
	e.Account = signal.AccountID(d.ID("acc_"))
	e.ID = signal.EventID(d.ID("evt_"))
	fields := d.Byte()
	if fields&eventAsset != 0 {
		e.Asset = string(d.TextBytes(d.Byte()))
	}
	if fields&eventAgent != 0 {
		e.Agent = signal.AgentID(d.Text())
	}
	if fields&eventRun != 0 {
		e.Run = signal.RunID(d.ID("run_"))
	}
	if fields&eventSubject != 0 {
		e.Subject = string(d.TextBytes(d.Byte()))
	}
	if fields&eventListing != 0 {
		e.Listing = decodeListing(&d, &e)
	}
	if fields&eventWeather != 0 {
		e.Weather = decodeOutlook(&d)
		decodeWeather(&d, e.Weather)
	}
	if fields&eventInitial != 0 {
		e.Initial = decodeInitial(&d)
	}
	if fields&eventOpening != 0 {
		e.Opening = decodeOpening(&d, &e)
	} else if e.Run != "" && len(d.B) > 0 {
		e.Strategy = d.Text()
	}
	if d.Err != nil {
		return signal.Event{}, fmt.Errorf("decode event %v: %w", p, d.Err)
	}
	if len(data) > 0 {
		e.Data = append([]byte(nil), data...)
	}
	return e, nil
}

// appendInitial appends the values of a signal at its creation; NaN is no expected R.
func appendInitial(b []byte, i *signal.Initial) []byte {
	expected := math.NaN()
	if i.ExpectedRNet != nil {
		expected = *i.ExpectedRNet
	}
	return appendFloat(appendFloat(b, i.Confidence), expected)
}

func decodeInitial(d *Decoder) *signal.Initial {
	i := &signal.Initial{Confidence: d.float()}
	if expected := d.float(); !math.IsNaN(expected) {
		i.ExpectedRNet = &expected
	}
	return i
}

// appendOpening appends e.Opening, with levels if the listing has an entry price.
func appendOpening(b []byte, e *signal.Event) []byte {
	o := e.Opening
	b = appendID(b, "run_", string(o.Run))
	b = AppendText(b, string(o.Timeframe))
	b = AppendText(b, string(o.Risk))
	if e.Listing.Entry != nil {
		b = appendFloat(appendFloat(b, o.Stop), o.Target)
	}
	b = binary.AppendVarint(b, o.Lifetime.Milliseconds())
	if o.Reach != nil { // last of all, so that no flag is needed
		b = appendReach(b, o.Reach)
	}
	return b
}

func decodeOpening(d *Decoder, e *signal.Event) *signal.Opening {
	o := &signal.Opening{Run: signal.RunID(d.ID("run_")), Timeframe: signal.Timeframe(d.Text()),
		Risk: signal.RiskLevel(d.Text())}
	if e.Listing == nil {
		d.Fail(ErrShort)
	} else if e.Listing.Entry != nil {
		o.Stop, o.Target = d.float(), d.float()
	}
	o.Lifetime = time.Duration(d.Varint()) * time.Millisecond
	if len(d.B) > 0 {
		o.Reach = decodeReach(d)
	}
	return o
}

// EventAccount returns the account of an event log entry as it is stored, without decoding the
// rest: compare it with AccountBytes. It is nil if header is not valid.
func EventAccount(header []byte) []byte {
	d := Decode(header)
	if d.Byte() == 0 {
		d.TextBytes(d.Byte())
	}
	return d.StoredID()
}

// AccountBytes returns account as headers store it.
func AccountBytes(account signal.AccountID) []byte { return appendID(nil, "acc_", string(account)) }

// Which optional fields a listing has.
const (
	listingEntry = 1 << iota
	listingClosed
	listingCreated   // created_at follows; without it, that is the entry's time
	listingSameAsset // as the event's
)

// appendListing appends e.Listing.
func appendListing(b []byte, e *signal.Event) []byte {
	l := e.Listing
	flags := byte(0)
	if l.Entry != nil {
		flags |= listingEntry
	}
	if l.Status == signal.Closed {
		flags |= listingClosed
	}
	// The time of a creation is that of its event, which is not known yet.
	if e.Type != signal.SignalCreated {
		flags |= listingCreated
	}
	if l.Asset == e.Asset {
		flags |= listingSameAsset
	}
	b = append(b, flags)
	b = appendID(b, "sig_", string(l.ID))
	b = AppendText(b, string(l.Agent))
	if flags&listingSameAsset == 0 {
		b = AppendString(b, l.Asset)
	}
	b = AppendText(b, l.Strategy)
	b = AppendText(b, string(l.Direction))
	b = appendFloat(b, l.Confidence)
	if l.Entry != nil {
		b = appendFloat(b, *l.Entry)
	}
	if flags&listingCreated != 0 {
		b = binary.AppendVarint(b, l.CreatedAt.UnixMilli())
	}
	return b
}

func decodeListing(d *Decoder, e *signal.Event) *signal.Listing {
	flags := d.Byte()
	l := &signal.Listing{Status: signal.Open, CreatedAt: e.Position.Time(), Asset: e.Asset}
	if flags&listingClosed != 0 {
		l.Status = signal.Closed
	}
	l.ID = signal.SignalID(d.ID("sig_"))
	l.Agent = signal.AgentID(d.Text())
	if flags&listingSameAsset == 0 {
		l.Asset = string(d.TextBytes(d.Byte()))
	}
	l.Strategy = d.Text()
	l.Direction = signal.Direction(d.Text())
	l.Confidence = d.float()
	if flags&listingEntry != 0 {
		entry := d.float()
		l.Entry = &entry
	}
	if flags&listingCreated != 0 {
		l.CreatedAt = TimeOfMilli(d.Varint())
	}
	return l
}
