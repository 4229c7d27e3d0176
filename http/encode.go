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

// Signals are requested most, so the functions up to appendList write them by hand, in a
// seventh of the time of encoding/json (decision 32). Tests compare both. All other answers are types.

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
// shows. The confidence is that of lists.
func appendSignalState(b []byte, s *signal.Signal) []byte {
	listed := *s
	if s.Closing != nil {
		listed.Confidence = s.FirstConfidence
	}
	b = append(b, '{')
	b = appendSignalMembers(b, &listed)
	b = append(b, `,"status":"`...)
	b = append(b, s.Status()...)
	b = append(b, `","updated_at":`...)
	b = signal.AppendTime(b, s.UpdatedAt)
	b = append(b, `,"expires_at":`...)
	b = signal.AppendTime(b, s.ExpiresAt)
	if c := s.Closing; c == nil {
		b = append(b, `,"closed_at":null,"close_reason":null,"exit_price":null,"pnl_percent":null,`+
			`"pnl_absolute":null,"duration_minutes":null`...)
	} else {
		b = append(b, `,"closed_at":`...)
		b = signal.AppendTime(b, c.At)
		b = append(b, `,"close_reason":"`...)
		b = append(b, c.Reason...)
		b = append(b, `",`...)
		b = signal.AppendResult(b, c)
	}
	return append(appendJudged(b, s), '}')
}

// appendExitState adds a Signal with its state and when its agent has asked for its exit. The metadata of a closing
// has that of a closed one.
func appendExitState(b []byte, s *signal.Signal) []byte {
	var closing struct {
		Requested *string `json:"exit_requested_at"`
	}
	if s.Closing != nil {
		_ = json.Unmarshal(s.Metadata, &closing) // other metadata leave null
	} else if !s.ExitRequested.IsZero() {
		closing.Requested = new(s.ExitRequested.Format(signal.TimeLayout))
	}
	b = appendSignalState(b, s)
	b = append(b[:len(b)-1], `,"exit_requested_at":`...)
	if closing.Requested == nil {
		return append(b, "null}"...)
	}
	return append(signal.AppendText(b, *closing.Requested), '}')
}

// appendJudged adds the members by which a signal is judged, as scorecards do. r and the
// excursions are not rounded, so that statistics can be computed from them exactly.
func appendJudged(b []byte, s *signal.Signal) []byte {
	b = append(b, `,"initial_confidence":`...)
	b = signal.AppendConfidence(b, s.FirstConfidence)
	b = append(b, `,"final_confidence":`...)
	if s.Closing == nil {
		b = append(b, "null"...)
	} else {
		b = signal.AppendConfidence(b, s.Confidence)
	}
	if s.Closing == nil || s.Closing.ExitPrice == nil || s.Levels == nil {
		return append(b, `,"r":null,"mfe_r":null,"mae_r":null`...)
	}
	b = append(b, `,"r":`...)
	b = signal.AppendPrice(b, s.Levels.R(s.Direction, *s.Closing.ExitPrice))
	b = append(b, `,"mfe_r":`...)
	b = signal.AppendPrice(b, s.MFE)
	b = append(b, `,"mae_r":`...)
	return signal.AppendPrice(b, s.MAE)
}

// appendListing adds an item of the signal list: exactly eight members.
func appendListing(b []byte, l *signal.Listing) []byte {
	b = signal.AppendListed(append(b, '{'), l)
	b = append(b, `,"created_at":`...)
	b = signal.AppendTime(b, l.CreatedAt)
	return append(b, '}')
}

// appendList adds a page of a list: the items under name, and the members of appendPage.
func appendList[T any](
	b []byte, name string, items []T, item func([]byte, *T) []byte, p request.Page, total int,
) []byte {
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

// appendPage ends the object of a page with n items: it adds the position of the page in
// its list.
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

// encode returns the JSON of v.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // answers are not part of pages
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}

// views returns the views of items.
func views[T, V any](items []T, view func(*T) V) []V {
	list := make([]V, len(items))
	for i := range items {
		list[i] = view(&items[i])
	}
	return list
}

// encodeList is appendList for items that encoding/json writes.
func encodeList[T, V any](name string, items []T, view func(*T) V, p request.Page, total int) ([]byte, error) {
	text, err := encode(views(items, view))
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

// list returns items, or an empty list for nil, which would become null.
func list[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

// instant is a time for encoding/json; the zero time is null.
type instant time.Time

// MarshalJSON implements json.Marshaler.
func (t instant) MarshalJSON() ([]byte, error) {
	if time.Time(t).IsZero() {
		return null, nil
	}
	return signal.AppendTime(nil, time.Time(t)), nil
}

// number is a number for encoding/json, which would write small ones with an exponent.
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) { return signal.AppendPrice(nil, float64(n)), nil }
