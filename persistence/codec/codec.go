package codec

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

// Version is the first byte of every record of this package.
const Version = 1

// ErrShort reports that a stored value ends too early or claims more than it has.
var ErrShort = errors.New("value is cut short")

// words are stored as one byte. Only append to the list, up to 128 words.
var words = []string{"", "trading", "weather", "seo",
	"momentum", "mean_reversion", "breakout", "sentiment",
	"commodity_impact", "energy_demand", "agriculture",
	"blog_post", "product_description", "meta_tags",
	"long", "short", "1m", "5m", "1h", "1d", "low", "medium", "high",
	"stop_loss", "take_profit", "expired",
	"natural_gas", "wheat", "corn", "oil", "us", "eu", "asia", "global", "extreme",
	"cold_snap", "heat_wave", "mild_spell", "drought", "excess_rain", "frost", "storm", "seasonal"}

var codeOfWord = codesOf(words)

// codesOf returns the indexes of the values in list.
func codesOf[T comparable](list []T) map[T]byte {
	codes := map[T]byte{}
	for i, v := range list {
		codes[v] = byte(i)
	}
	return codes
}

// A text begins with its length, or with wordBit and the number of a word.
const (
	wordBit  = 0x80
	longText = 0x7f // the length follows as a varint
)

// AppendText appends s: a word of the dictionary by its number, any other text in full.
func AppendText(b []byte, s string) []byte {
	if code, ok := codeOfWord[s]; ok {
		return append(b, wordBit|code)
	}
	return AppendString(b, s)
}

// AppendString is AppendText for texts that are never words.
func AppendString(b []byte, s string) []byte {
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

// ULIDForm marks an identifier whose 16 bytes follow, textForm any other one.
const (
	textForm = 0
	ULIDForm = 1
)

// appendID appends an identifier that should consist of prefix and a ULID.
func appendID(b []byte, prefix, id string) []byte {
	if len(id) > len(prefix) && id[:len(prefix)] == prefix {
		if raw, ok := signal.ULIDBytes(id); ok {
			return append(append(b, ULIDForm), raw[:]...)
		}
	}
	return AppendString(append(b, textForm), id)
}

// Decoder reads a value from its front. After the first error it yields zeros.
type Decoder struct {
	B   []byte
	Err error
}

// NewDecoder begins to read a value without a version.
func NewDecoder(b []byte) Decoder { return Decoder{B: b} }

// Decode begins to read a value, which must have the version of this package.
func Decode(b []byte) Decoder { return DecodeVersion(b, Version) }

// DecodeVersion begins to read a value, which must have the given version.
func DecodeVersion(b []byte, version byte) Decoder {
	if len(b) == 0 {
		return Decoder{Err: ErrShort}
	}
	if b[0] != version {
		return Decoder{Err: fmt.Errorf("value has version %d: this process reads version %d", b[0], version)}
	}
	return Decoder{B: b[1:]}
}

// Fail records err, unless an earlier error is recorded, and ends the decoding.
func (d *Decoder) Fail(err error) {
	if d.Err == nil {
		d.Err = err
	}
	d.B = nil
}

// Take returns the next n bytes, which lie in the value. If it is shorter, they are nil and
// the decoder fails with ErrShort.
func (d *Decoder) Take(n uint64) []byte {
	if n > uint64(len(d.B)) {
		d.Fail(ErrShort)
		return nil
	}
	v := d.B[:n]
	d.B = d.B[n:]
	return v
}

// Byte returns the next byte.
func (d *Decoder) Byte() byte {
	if v := d.Take(1); v != nil {
		return v[0]
	}
	return 0
}

func (d *Decoder) float() float64 {
	if v := d.Take(8); v != nil {
		return math.Float64frombits(binary.BigEndian.Uint64(v))
	}
	return 0
}

// Uvarint returns the next unsigned varint.
func (d *Decoder) Uvarint() uint64 {
	v, n := binary.Uvarint(d.B)
	d.advance(n)
	return v
}

// Varint returns the next signed varint.
func (d *Decoder) Varint() int64 {
	v, n := binary.Varint(d.B)
	d.advance(n)
	return v
}

// count returns the next unsigned varint, below 2^62.
func (d *Decoder) count() int64 { return int64(d.Uvarint() & (1<<62 - 1)) }

// position returns the next position.
func (d *Decoder) position() signal.Position {
	return signal.Position{MS: int64(d.Uvarint()), Seq: int64(d.Uvarint())}
}

// advance skips the n bytes of a varint. It fails with ErrShort if n is not positive.
func (d *Decoder) advance(n int) {
	if n <= 0 {
		d.Fail(ErrShort)
		return
	}
	d.B = d.B[n:]
}

// Text returns the next text: a word of the dictionary, or a new string.
func (d *Decoder) Text() string {
	first := d.Byte()
	if first&wordBit != 0 {
		if i := int(first &^ wordBit); i < len(words) {
			return words[i]
		}
		d.Fail(fmt.Errorf("word %d is not known", first&^wordBit))
		return ""
	}
	return string(d.TextBytes(first))
}

// TextBytes returns the text that begins with the byte first, in the memory of the input.
func (d *Decoder) TextBytes(first byte) []byte {
	n := uint64(first)
	if first == longText {
		n = d.Uvarint()
	}
	return d.Take(n)
}

// ID returns an identifier that was stored by appendID with the same prefix.
func (d *Decoder) ID(prefix string) string {
	switch form := d.Byte(); form {
	case ULIDForm:
		if raw := d.Take(16); raw != nil {
			return ULIDText(prefix, [16]byte(raw))
		}
	case textForm:
		return string(d.TextBytes(d.Byte()))
	default:
		d.Fail(fmt.Errorf("identifier of form %d is not known", form))
	}
	return ""
}

// ULID returns the bytes of the next identifier, which must be one with a ULID.
func (d *Decoder) ULID() [16]byte {
	if form := d.Byte(); form != ULIDForm {
		d.Fail(fmt.Errorf("identifier of form %d has no ULID", form))
	}
	if raw := d.Take(16); raw != nil {
		return [16]byte(raw)
	}
	return [16]byte{}
}

// StoredID skips an identifier and returns it as it is stored, or nil if it is not valid.
func (d *Decoder) StoredID() []byte {
	before := d.B
	switch d.Byte() {
	case ULIDForm:
		d.Take(16)
	case textForm:
		d.TextBytes(d.Byte())
	default:
		return nil
	}
	if d.Err != nil {
		return nil
	}
	return before[:len(before)-len(d.B)]
}

// crockford is the alphabet of ULIDs.
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// ULIDText returns prefix and the 26 characters of a ULID: 2 bits that are zero, then 5 bits a
// character. Decoding an event makes several of these, so it avoids the library's second
// string.
func ULIDText(prefix string, raw [16]byte) string {
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

// Time reads milliseconds; 0 is the zero time.
func (d *Decoder) Time() time.Time {
	if ms := d.Uvarint(); ms > 0 && ms < 1<<47 {
		return TimeOfMilli(int64(ms))
	}
	return time.Time{}
}

// AppendStrings appends the number of strings in list and each of them.
func AppendStrings(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = AppendString(b, s)
	}
	return b
}

// Strings returns nil for an empty list.
func (d *Decoder) Strings() []string {
	n := d.Uvarint()
	if n > maxPhrases {
		d.Fail(fmt.Errorf("list of %d texts is too long", n))
		return nil
	}
	var list []string
	for range n {
		if d.Err != nil {
			return nil
		}
		list = append(list, string(d.TextBytes(d.Byte())))
	}
	return list
}

// CutStamp cuts the position off a value that the append script has stamped.
func CutStamp(b []byte) (signal.Position, []byte, error) {
	at := bytes.IndexByte(b, ' ')
	if at < 0 || at > 41 {
		return signal.Position{}, nil, fmt.Errorf("value has no position: %w", ErrShort)
	}
	p, ok := signal.ParsePosition(string(b[:at]))
	if !ok {
		return signal.Position{}, nil, fmt.Errorf("position %q is not valid", b[:at])
	}
	return p, b[at+1:], nil
}

// ParseDigits reads a number of 1 to 18 digits, which cannot overflow.
func ParseDigits(b []byte) (int64, bool) {
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

// TimeOfMilli returns the time ms milliseconds after 1970, in UTC.
func TimeOfMilli(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// MilliOf returns t as it is stored: 0 for the zero time and any other before 1970.
func MilliOf(t time.Time) int64 { return max(t.UnixMilli(), 0) }

// DueMilli is MilliOf rounded up, for times before which nothing may happen.
func DueMilli(t time.Time) int64 { return MilliOf(t.Add(time.Millisecond - 1)) }

// MilliText returns MilliOf(t) in decimal.
func MilliText(t time.Time) string { return strconv.FormatInt(MilliOf(t), 10) }

// DueText returns DueMilli(t) in decimal.
func DueText(t time.Time) string { return strconv.FormatInt(DueMilli(t), 10) }

// Text returns b as a string without a copy. b must not change any more: the caller has just
// made it, or it belongs to a change, whose values never change.
func Text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
