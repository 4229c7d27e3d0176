package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Stored values are a version, then fields without names. Each kind of record has
// one pair of functions, appendX and decodeX, in this file and codec_signal.go;
// nothing else knows the bytes. A process reads its own version and the previous
// one. The strings that decoding returns share no memory with its input.

// codecVersion is the first byte of every record of these files.
const codecVersion = 1

// errShort says that a stored value ends too early or claims more than it has.
var errShort = errors.New("value is cut short")

// eventCodes are the stored types of events. Only ever add at the end.
var eventCodes = []signal.EventType{1: signal.SignalCreated, signal.SignalUpdated, signal.SignalClosed,
	signal.AgentStarted, signal.AgentCompleted, signal.AgentFailed, signal.WebhookTest, signal.SystemNotification,
	signal.AccountDeleted, signal.KeyRevoked, signal.SessionEnded,
	signal.WebhookChanged, signal.WebhookPoked, signal.ScheduleChanged}

var codeOfEvent = func() map[signal.EventType]byte {
	codes := map[signal.EventType]byte{}
	for i, t := range eventCodes {
		if i > 0 {
			codes[t] = byte(i)
		}
	}
	return codes
}()

// words are stored as one byte. Only ever add at the end, at most 128 in all.
var words = []string{"", "trading", "weather", "seo",
	"momentum", "mean_reversion", "breakout", "sentiment",
	"commodity_impact", "energy_demand", "agriculture",
	"blog_post", "product_description", "meta_tags",
	"long", "short", "1m", "5m", "1h", "1d", "low", "medium", "high",
	"stop_loss", "take_profit", "expired",
	"natural_gas", "wheat", "corn", "oil", "us", "eu", "asia", "global", "extreme",
	"cold_snap", "heat_wave", "mild_spell", "drought", "excess_rain", "frost", "storm", "seasonal"}

var codeOfWord = func() map[string]byte {
	codes := map[string]byte{}
	for i, w := range words {
		codes[w] = byte(i)
	}
	return codes
}()

// A text begins with its length, or with wordBit and the number of a word.
const (
	wordBit  = 0x80
	longText = 0x7f // the length follows as a varint
)

func appendText(b []byte, s string) []byte {
	if code, ok := codeOfWord[s]; ok {
		return append(b, wordBit|code)
	}
	return appendString(b, s)
}

// appendString is appendText for texts that are never words.
func appendString(b []byte, s string) []byte {
	if len(s) < longText {
		b = append(b, byte(len(s)))
	} else {
		b = binary.AppendUvarint(append(b, longText), uint64(len(s)))
	}
	return append(b, s...)
}

func appendFloat(b []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(b, math.Float64bits(v))
}

// idULID marks an identifier whose 16 bytes follow; idText one in another form.
const (
	idText = 0
	idULID = 1
)

// appendID adds an identifier that should consist of prefix and a ULID.
func appendID(b []byte, prefix, id string) []byte {
	if len(id) > len(prefix) && id[:len(prefix)] == prefix {
		if raw, ok := signal.ULIDBytes(id); ok {
			return append(append(b, idULID), raw[:]...)
		}
	}
	return appendString(append(b, idText), id)
}

// decoder reads a value from its front. After the first error it yields zeros.
type decoder struct {
	b   []byte
	err error
}

// decode begins to read a value: its version must be known.
func decode(b []byte) decoder {
	if len(b) == 0 {
		return decoder{err: errShort}
	}
	if b[0] != codecVersion {
		return decoder{err: fmt.Errorf("value has version %d: this process reads version %d", b[0], codecVersion)}
	}
	return decoder{b: b[1:]}
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.b = nil
}

func (d *decoder) take(n int) []byte {
	if n > len(d.b) || n < 0 {
		d.fail(errShort)
		return nil
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) byte() byte {
	if v := d.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (d *decoder) float() float64 {
	if v := d.take(8); v != nil {
		return math.Float64frombits(binary.BigEndian.Uint64(v))
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail(errShort)
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail(errShort)
		return 0
	}
	d.b = d.b[n:]
	return v
}

// text returns a word as it is in words and any other text by a new string.
func (d *decoder) text() string {
	first := d.byte()
	if first&wordBit != 0 {
		if i := int(first &^ wordBit); i < len(words) {
			return words[i]
		}
		d.fail(fmt.Errorf("word %d is not known", first&^wordBit))
		return ""
	}
	return string(d.textBytes(first))
}

// textBytes returns the text that begins with the byte first, in the input's memory.
func (d *decoder) textBytes(first byte) []byte {
	n := uint64(first)
	if first == longText {
		n = d.uvarint()
	}
	if n > uint64(len(d.b)) {
		d.fail(errShort)
		return nil
	}
	return d.take(int(n))
}

// id returns an identifier that was stored by appendID with the same prefix.
func (d *decoder) id(prefix string) string {
	switch kind := d.byte(); kind {
	case idULID:
		if raw := d.take(16); raw != nil {
			return ulidText(prefix, [16]byte(raw))
		}
	case idText:
		return string(d.textBytes(d.byte()))
	default:
		d.fail(fmt.Errorf("identifier of kind %d is not known", kind))
	}
	return ""
}

// storedID passes over an identifier and returns it as it is stored; nil if it is not
// valid.
func (d *decoder) storedID() []byte {
	before := d.b
	switch d.byte() {
	case idULID:
		d.take(16)
	case idText:
		d.textBytes(d.byte())
	default:
		return nil
	}
	if d.err != nil {
		return nil
	}
	return before[:len(before)-len(d.b)]
}

// crockford is the alphabet of ULIDs.
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// ulidText returns prefix and the 26 characters of a ULID: 2 bits of nothing, then
// 5 bits a character. Decoding makes several of these an event, so it is done
// without the library's second string.
func ulidText(prefix string, raw [16]byte) string {
	var text [32]byte
	n := copy(text[:], prefix)
	high, low := binary.BigEndian.Uint64(raw[:8]), binary.BigEndian.Uint64(raw[8:])
	for i := 25; i >= 0; i-- {
		text[n+i] = crockford[low&31]
		low = low>>5 | high<<59
		high >>= 5
	}
	return string(text[:n+26])
}

// Which optional fields an event has.
const (
	eventAsset = 1 << iota
	eventAgent
	eventRun
	eventSubject
	eventListing
	eventWeather
)

// appendEvent adds the header of an event log entry: all of e but its position and
// its data.
func appendEvent(b []byte, e *signal.Event) []byte {
	code := codeOfEvent[e.Type]
	b = append(b, codecVersion, code)
	if code == 0 {
		b = appendString(b, string(e.Type))
	}
	b = appendID(b, "acc_", string(e.Account))
	b = appendID(b, "evt_", string(e.ID))
	at := len(b)
	b = append(b, 0)
	if e.Asset != "" {
		b[at] |= eventAsset
		b = appendString(b, e.Asset)
	}
	if e.Agent != "" {
		b[at] |= eventAgent
		b = appendText(b, string(e.Agent))
	}
	if e.Run != "" {
		b[at] |= eventRun
		b = appendID(b, "run_", string(e.Run))
	}
	if e.Subject != "" {
		b[at] |= eventSubject
		b = appendString(b, e.Subject)
	}
	if e.Listing != nil {
		b[at] |= eventListing
		b = appendListing(b, e)
	}
	if e.Weather != nil {
		b[at] |= eventWeather
		b = appendWeather(appendOutlook(b, e.Weather), e.Weather)
	}
	return b
}

// decodeEvent returns the event at position p of an event log. The result shares
// no memory with header and data.
func decodeEvent(p signal.Position, header, data []byte) (signal.Event, error) {
	e := signal.Event{Position: p}
	d := decode(header)
	if code := d.byte(); code == 0 {
		e.Type = signal.EventType(d.textBytes(d.byte()))
	} else if int(code) < len(eventCodes) {
		e.Type = eventCodes[code]
	} else {
		d.fail(fmt.Errorf("event of type %d is not known", code))
	}
	e.Account = signal.AccountID(d.id("acc_"))
	e.ID = signal.EventID(d.id("evt_"))
	fields := d.byte()
	if fields&eventAsset != 0 {
		e.Asset = string(d.textBytes(d.byte()))
	}
	if fields&eventAgent != 0 {
		e.Agent = signal.AgentID(d.text())
	}
	if fields&eventRun != 0 {
		e.Run = signal.RunID(d.id("run_"))
	}
	if fields&eventSubject != 0 {
		e.Subject = string(d.textBytes(d.byte()))
	}
	if fields&eventListing != 0 {
		e.Listing = decodeListing(&d, &e)
	}
	if fields&eventWeather != 0 {
		e.Weather = decodeOutlook(&d)
		decodeWeather(&d, e.Weather)
	}
	if d.err != nil {
		return signal.Event{}, fmt.Errorf("decode event %v: %w", p, d.err)
	}
	if len(data) > 0 {
		e.Data = append([]byte(nil), data...)
	}
	return e, nil
}

// eventAccount returns the account of an event log entry without decoding the rest,
// in the form in which it is stored: compare it with accountBytes. Nil if header is
// not valid.
func eventAccount(header []byte) []byte {
	d := decode(header)
	if d.byte() == 0 {
		d.textBytes(d.byte())
	}
	return d.storedID()
}

// accountBytes returns how account is stored in headers.
func accountBytes(account signal.AccountID) []byte { return appendID(nil, "acc_", string(account)) }

// Which optional fields a listing has.
const (
	listingEntry = 1 << iota
	listingClosed
	listingCreated   // created_at follows; without it, that is the entry's time
	listingSameAsset // as the event's
)

// appendListing adds e.Listing.
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
	b = appendText(b, string(l.Agent))
	if flags&listingSameAsset == 0 {
		b = appendString(b, l.Asset)
	}
	b = appendText(b, l.Strategy)
	b = appendText(b, string(l.Direction))
	b = appendFloat(b, l.Confidence)
	if l.Entry != nil {
		b = appendFloat(b, *l.Entry)
	}
	if flags&listingCreated != 0 {
		b = binary.AppendVarint(b, l.CreatedAt.UnixMilli())
	}
	return b
}

func decodeListing(d *decoder, e *signal.Event) *signal.Listing {
	flags := d.byte()
	l := &signal.Listing{Status: signal.Open, CreatedAt: e.Position.Time(), Asset: e.Asset}
	if flags&listingClosed != 0 {
		l.Status = signal.Closed
	}
	l.ID = signal.SignalID(d.id("sig_"))
	l.Agent = signal.AgentID(d.text())
	if flags&listingSameAsset == 0 {
		l.Asset = string(d.textBytes(d.byte()))
	}
	l.Strategy = d.text()
	l.Direction = signal.Direction(d.text())
	l.Confidence = d.float()
	if flags&listingEntry != 0 {
		entry := d.float()
		l.Entry = &entry
	}
	if flags&listingCreated != 0 {
		l.CreatedAt = timeOfMilli(d.varint())
	}
	return l
}
