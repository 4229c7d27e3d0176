package persistence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unsafe"

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

// newDecoder begins to read a value that has no version, or one of its own.
func newDecoder(b []byte) decoder { return decoder{b: b} }

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

// time reads milliseconds; 0 is the zero time.
func (d *decoder) time() time.Time {
	if ms := d.uvarint(); ms > 0 && ms < 1<<47 {
		return timeOfMilli(int64(ms))
	}
	return time.Time{}
}

func appendStrings(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}

// strings returns nil for an empty list.
func (d *decoder) strings() []string {
	n := d.uvarint()
	if n > maxPhrases {
		d.fail(fmt.Errorf("list of %d texts is too long", n))
		return nil
	}
	var list []string
	for range n {
		if d.err != nil {
			return nil
		}
		list = append(list, string(d.textBytes(d.byte())))
	}
	return list
}

// cutStamp takes a position off the front of a value that the append script has
// stamped.
func cutStamp(b []byte) (signal.Position, []byte, error) {
	at := bytes.IndexByte(b, ' ')
	if at < 0 || at > 41 {
		return signal.Position{}, nil, fmt.Errorf("value has no position: %w", errShort)
	}
	p, ok := parsePosition(b[:at])
	if !ok {
		return signal.Position{}, nil, fmt.Errorf("%q is no position", b[:at])
	}
	return p, b[at+1:], nil
}

// parsePosition reads "MS-SEQ" as Redis writes it.
func parsePosition(b []byte) (signal.Position, bool) {
	dash := bytes.IndexByte(b, '-')
	if dash < 0 {
		return signal.Position{}, false
	}
	ms, ok := parseDigits(b[:dash])
	seq, ok2 := parseDigits(b[dash+1:])
	return signal.Position{MS: ms, Seq: seq}, ok && ok2
}

// parseDigits reads a number of 1 to 18 digits, which cannot overflow.
func parseDigits(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	n := int64(0)
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

func timeOfMilli(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// milliOf returns t as it is stored: 0 for the zero time and all before 1970.
func milliOf(t time.Time) int64 { return max(t.UnixMilli(), 0) }

// dueMilli is milliOf for times that nothing may come before: rounded up.
func dueMilli(t time.Time) int64 { return milliOf(t.Add(time.Millisecond - 1)) }

func milliText(t time.Time) string { return strconv.FormatInt(milliOf(t), 10) }
func dueText(t time.Time) string   { return strconv.FormatInt(dueMilli(t), 10) }

// text returns b as a string without a copy. Nobody may change b from then on: it
// was just made here, or belongs to a change, whose values never change.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
