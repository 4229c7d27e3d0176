package deliveries

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/codec"
)

// The record of a delivery begins with fields at fixed places, which scripts read and replace
// (they count from 1):
//
//	 1     version
//	 2-21  key of its body: the event's ULID and a checksum, since the bodies of an event
//	       differ by API version
//	22-27  created, ms
//	28-33  completed, ms; 0 while it is pending
//	34-39  next attempt, ms; 0 unless it is pending
//	40     state: pending, succeeded or failed, and singleBit
//	41-43  error: a number of deliveryErrors and a response status
//	44     type of the event
//	45     attempts of the schedule
//	46-47  attempts in all
//	48-49  response status of the last one
//
// Lists show only these, so they read no more. The fields that change manually stand together,
// from completed to the error. The rest of the record is the error if it is not in
// deliveryErrors, the attempts, and the body of the last request if it is not that of the event:
// earlier versions do not write it, and read over it.
const (
	deliveryFront = 49

	deliveryVersion = 1
	bodyKeyBytes    = 20
	timeBytes       = 6
)

// The stored numbers of states, which deliveries.lua has as well.
const (
	statePending   = 0
	stateSucceeded = 2
	stateFailed    = 3

	stateBits = 3
	singleBit = 4
)

// deliveryErrors are the stored numbers of errors. Only append to the list, up to errorStatus.
var deliveryErrors = []string{"", delivery.TimedOut, delivery.NoConnection, delivery.TLSFailed, delivery.Blocked,
	delivery.HostNotFound, delivery.Cancelled}

const (
	errorStatus = 100 // delivery.StatusError and a number
	errorOther  = 101 // any other text, which is stored; notMade in place of the status if it begins with delivery.NotMade
	notMade     = 1
)

// How an attempt's response body is stored.
const (
	bodyNone = iota
	bodyOwn
	bodySame // as that of the attempt before
)

const attemptManual = 4 // bit of the first byte of an attempt, above those of its body

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// bodyKey returns the field under which the body of an event is stored.
func bodyKey(event signal.EventID, body []byte) (string, error) {
	raw, ok := signal.ULIDBytes(string(event))
	if !ok {
		return "", fmt.Errorf("event identifier %q is not valid", event)
	}
	b := append(make([]byte, 0, bodyKeyBytes), raw[:]...)
	return codec.Text(binary.BigEndian.AppendUint32(b, crc32.Checksum(body, castagnoli))), nil
}

// errorCode returns the stored number of an error, and the response status in it.
func errorCode(text string) (code byte, status int) {
	if i := slices.Index(deliveryErrors, text); i >= 0 {
		return byte(i), 0
	}
	if number, ok := strings.CutPrefix(text, delivery.StatusError); ok {
		if n, err := strconv.ParseUint(number, 10, 16); err == nil && strconv.FormatUint(n, 10) == number {
			return errorStatus, int(n)
		}
	}
	if strings.HasPrefix(text, delivery.NotMade) {
		return errorOther, notMade
	}
	return errorOther, 0
}

// errorText is the inverse of errorCode. For errorOther it returns delivery.NotMade or "".
func errorText(code byte, status uint16) (string, error) {
	switch {
	case code == errorStatus:
		return delivery.StatusError + strconv.Itoa(int(status)), nil
	case code == errorOther && status == notMade:
		return delivery.NotMade, nil
	case code == errorOther:
		return "", nil
	case int(code) < len(deliveryErrors):
		return deliveryErrors[code], nil
	}
	return "", fmt.Errorf("error %d is not known", code)
}

// appendTime appends milliseconds in timeBytes bytes.
func appendTime(b []byte, ms int64) []byte {
	return append(b, byte(ms>>40), byte(ms>>32), byte(ms>>24), byte(ms>>16), byte(ms>>8), byte(ms))
}

func timeOfBytes(b []byte) time.Time {
	ms := int64(binary.BigEndian.Uint16(b))<<32 | int64(binary.BigEndian.Uint32(b[2:]))
	if ms == 0 {
		return time.Time{}
	}
	return codec.TimeOfMilli(ms)
}

func stateOf(d *delivery.Delivery) byte {
	var state byte
	switch d.Status {
	case delivery.Pending:
		state = statePending
	case delivery.Succeeded:
		state = stateSucceeded
	case delivery.Failed:
		state = stateFailed
	}
	if d.Single {
		state |= singleBit
	}
	return state
}

// appendDelivery appends the record of d. key is that of its body, or "" where the script keeps
// the stored one.
func appendDelivery(b []byte, d *delivery.Delivery, key string) []byte {
	attempts := d.Attempts
	if len(attempts) > delivery.MaxAttempts {
		attempts = attempts[len(attempts)-delivery.MaxAttempts:]
	}
	code, status := errorCode(d.Error)
	created := codec.MilliOf(d.CreatedAt)
	b = append(b, deliveryVersion)
	if key == "" {
		b = append(b, make([]byte, bodyKeyBytes)...)
	}
	b = append(b, key...)
	b = appendTime(b, created)
	b = appendTime(b, codec.MilliOf(d.CompletedAt))
	b = appendTime(b, codec.DueMilli(d.NextAttemptAt))
	b = append(b, stateOf(d), code, byte(status>>8), byte(status), codec.CodeOfEvent[d.Type])
	b = append(b, byte(min(max(d.Scheduled, 0), 255)))
	b = binary.BigEndian.AppendUint16(b, uint16(min(d.AttemptCount(), 1<<16-1)))
	last := 0
	if n := len(attempts); n > 0 {
		last = attempts[n-1].ResponseStatus
	}
	b = binary.BigEndian.AppendUint16(b, uint16(last))
	other := ""
	if code == errorOther {
		other = d.Error
	}
	b = codec.AppendString(b, other)
	b = append(b, byte(len(attempts)))
	before := ""
	for i := range attempts {
		b = appendAttempt(b, &attempts[i], created, &before)
	}
	if len(d.Sent) > 0 {
		b = codec.AppendString(b, string(d.Sent))
	}
	return b
}

// appendAttempt appends an attempt of a delivery that was created at the given ms. before is the
// response body of the attempt before it, and becomes that of a.
func appendAttempt(b []byte, a *delivery.Attempt, created int64, before *string) []byte {
	body := delivery.CutText(a.ResponseBody, delivery.MaxResponseBody)
	flags := byte(bodyOwn)
	switch body {
	case "":
		flags = bodyNone
	case *before:
		flags = bodySame
	}
	if a.Trigger == delivery.Manual {
		flags |= attemptManual
	}
	code, status := errorCode(a.Error)
	b = append(b, flags)
	b = binary.AppendVarint(b, codec.MilliOf(a.At)-created)
	b = binary.AppendUvarint(b, uint64(max(a.Duration.Milliseconds(), 0)))
	b = binary.AppendUvarint(b, uint64(uint16(a.ResponseStatus)))
	b = append(b, code)
	switch code {
	case errorStatus:
		b = binary.AppendUvarint(b, uint64(status))
	case errorOther:
		b = codec.AppendString(b, a.Error)
	}
	if flags&^attemptManual == bodyOwn {
		b = codec.AppendString(b, body)
	}
	*before = body
	return b
}

// decodeDelivery reads a record, or its first deliveryFront bytes: of the attempts there is then
// only the last one, with its number and response status. key is that of its body. The
// identifiers of d are not in its record. The result shares no memory with value.
func decodeDelivery(value []byte) (d delivery.Delivery, key string, err error) {
	if len(value) < deliveryFront {
		return d, "", fmt.Errorf("decode delivery: %w", codec.ErrShort)
	}
	if value[0] != deliveryVersion {
		return d, "", fmt.Errorf("decode delivery: value has version %d: this process reads version %d",
			value[0], deliveryVersion)
	}
	front, rest := value[:deliveryFront], codec.Decoder{B: value[deliveryFront:]}
	key = string(front[1:21])
	d.Event = signal.EventID(codec.ULIDText("evt_", [16]byte(front[1:17])))
	d.CreatedAt, d.CompletedAt = timeOfBytes(front[21:27]), timeOfBytes(front[27:33])
	d.NextAttemptAt = timeOfBytes(front[33:39])
	switch front[39] & stateBits {
	case statePending:
		d.Status = delivery.Pending
	case stateSucceeded:
		d.Status = delivery.Succeeded
	case stateFailed:
		d.Status = delivery.Failed
	default:
		rest.Fail(fmt.Errorf("state %d is not known", front[39]))
	}
	d.Single = front[39]&singleBit != 0
	if d.Error, err = errorText(front[40], binary.BigEndian.Uint16(front[41:])); err != nil {
		rest.Fail(err)
	}
	if code := front[43]; code == 0 || int(code) >= len(codec.EventCodes) {
		rest.Fail(fmt.Errorf("event of type %d is not known", code))
	} else {
		d.Type = codec.EventCodes[code]
	}
	d.Scheduled = int(front[44])
	count, last := int(binary.BigEndian.Uint16(front[45:])), int(binary.BigEndian.Uint16(front[47:]))
	if len(value) > deliveryFront {
		// It is there even if a manual change has put another error in its place.
		if other := rest.TextBytes(rest.Byte()); front[40] == errorOther {
			d.Error = string(other)
		}
		d.Attempts = decodeAttempts(&rest, count, codec.MilliOf(d.CreatedAt))
		if len(rest.B) > 0 {
			d.Sent = append([]byte(nil), rest.TextBytes(rest.Byte())...)
		}
	} else if count > 0 {
		d.Attempts = []delivery.Attempt{{Number: count, ResponseStatus: last}}
	}
	if rest.Err != nil {
		return delivery.Delivery{}, "", fmt.Errorf("decode delivery: %w", rest.Err)
	}
	return d, key, nil
}

// decodeAttempts reads the attempts of a delivery that was created at the given ms. The last one
// has the number count.
func decodeAttempts(d *codec.Decoder, count int, created int64) []delivery.Attempt {
	n := int(d.Byte())
	if n > delivery.MaxAttempts || n > count {
		d.Fail(errors.New("there are more attempts than were made"))
	}
	if d.Err != nil || n == 0 {
		return nil
	}
	list := make([]delivery.Attempt, 0, n)
	before := ""
	for i := range n {
		flags := d.Byte()
		a := delivery.Attempt{Number: count - n + 1 + i, Trigger: delivery.Scheduled}
		if flags&attemptManual != 0 {
			a.Trigger = delivery.Manual
		}
		if ms := created + d.Varint(); ms > 0 {
			a.At = codec.TimeOfMilli(ms)
		}
		a.Duration = time.Duration(uint32(d.Uvarint())) * time.Millisecond
		a.ResponseStatus = int(uint16(d.Uvarint()))
		a.Error = decodeDeliveryError(d)
		switch flags &^ attemptManual {
		case bodyNone:
		case bodyOwn:
			a.ResponseBody = string(d.TextBytes(d.Byte()))
		case bodySame:
			a.ResponseBody = before
		default:
			d.Fail(fmt.Errorf("response body of kind %d is not known", flags))
		}
		before = a.ResponseBody
		list = append(list, a)
	}
	return list
}

// decodeDeliveryError reads the error of an attempt.
func decodeDeliveryError(d *codec.Decoder) string {
	code, status := d.Byte(), uint64(0)
	if code == errorStatus {
		status = d.Uvarint()
	}
	if code == errorOther {
		return string(d.TextBytes(d.Byte()))
	}
	s, err := errorText(code, uint16(status))
	if err != nil {
		d.Fail(err)
	}
	return s
}
