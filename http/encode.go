package http

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

// The functions up to appendList write signals by hand, which are asked for most: a page of
// them takes a tenth of the time of encoding/json. Tests compare both. All else is encoded
// by types.

// appendSignal adds the Signal object of the specification, which has exactly
// these eleven members.
func appendSignal(b []byte, s *signal.Signal) []byte {
	b = append(b, '{')
	b = appendSignalMembers(b, s)
	return append(b, '}')
}

func appendSignalMembers(b []byte, s *signal.Signal) []byte {
	b = signal.AppendMembers(b, s)
	b = append(b, `,"metadata":`...)
	b = append(b, s.Metadata...)
	b = append(b, `,"created_at":`...)
	return signal.AppendTime(b, s.CreatedAt)
}

// appendSignalState adds a Signal with its state, which GET /v1/signals/{id} alone
// shows.
func appendSignalState(b []byte, s *signal.Signal) []byte {
	b = append(b, '{')
	b = appendSignalMembers(b, s)
	b = append(b, `,"status":"`...)
	b = append(b, s.Status()...)
	b = append(b, `","updated_at":`...)
	b = signal.AppendTime(b, s.UpdatedAt)
	b = append(b, `,"expires_at":`...)
	b = signal.AppendTime(b, s.ExpiresAt)
	c := s.Closing
	if c == nil {
		return append(b, `,"closed_at":null,"close_reason":null,"exit_price":null,"pnl_percent":null,"pnl_absolute":null,`+
			`"duration_minutes":null}`...)
	}
	b = append(b, `,"closed_at":`...)
	b = signal.AppendTime(b, c.At)
	b = append(b, `,"close_reason":"`...)
	b = append(b, c.Reason...)
	b = append(b, `",`...)
	return append(signal.AppendResult(b, c), '}')
}

// appendListing adds an item of the signal list: exactly eight members.
func appendListing(b []byte, l *signal.Listing) []byte {
	b = signal.AppendListed(append(b, '{'), l)
	b = append(b, `,"created_at":`...)
	b = signal.AppendTime(b, l.CreatedAt)
	return append(b, '}')
}

// appendList adds a page of a list: the items under their name, and where the page
// stands in the list.
func appendList[T any](b []byte, name string, items []T, item func([]byte, *T) []byte, p request.Page,
	total int) []byte {
	b = append(b, `{"`...)
	b = append(b, name...)
	b = append(b, `":[`...)
	for i := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = item(b, &items[i])
	}
	return appendPage(append(b, ']'), len(items), p, total)
}

// appendPage ends a page of n items of a list: it adds where the page stands in the list.
func appendPage(b []byte, n int, p request.Page, total int) []byte {
	b = append(b, `,"total":`...)
	b = strconv.AppendInt(b, int64(total), 10)
	b = append(b, `,"limit":`...)
	b = strconv.AppendInt(b, int64(p.Limit), 10)
	b = append(b, `,"offset":`...)
	b = append(b, p.Written...)
	b = append(b, `,"has_more":`...)
	b = strconv.AppendBool(b, p.More(n, total))
	return append(b, '}')
}

// encode returns the JSON of v, for answers that are asked for less often.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // answers are no pages
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}

// encodeList returns a page of a list whose items encoding/json writes.
func encodeList[T, V any](name string, items []T, view func(*T) V, p request.Page, total int) ([]byte, error) {
	views := make([]V, len(items))
	for i := range items {
		views[i] = view(&items[i])
	}
	text, err := encode(views)
	if err != nil {
		return nil, err
	}
	b := append(make([]byte, 0, len(text)+128), `{"`+name+`":`...)
	return appendPage(append(b, text...), len(items), p, total), nil
}

// orNull returns nil, which encodes as null, for a zero value.
func orNull[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// list returns items, or an empty list for nil, which would encode as null.
func list[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

func appendTimeOrNull(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, "null"...)
	}
	return signal.AppendTime(b, t)
}

// instant is a time in answers that encoding/json writes; the zero time is null.
type instant time.Time

// MarshalJSON implements json.Marshaler.
func (t instant) MarshalJSON() ([]byte, error) { return appendTimeOrNull(nil, time.Time(t)), nil }
