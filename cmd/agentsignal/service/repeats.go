package service

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	// repeatEvery is the time between two logs of a fault that keeps occurring.
	repeatEvery = time.Minute
	// maxRepeats limits the remembered faults. Further ones are always logged.
	maxRepeats = 1000
)

// repeats is a handler that logs a fault when it first occurs, and then once a minute with
// the number of its repetitions. A fault is a warning or an error. Two faults are the same
// if their messages and text attributes are equal: faults of different accounts differ, and
// a fault with the ID of a request is always logged. Errors, numbers and durations are not
// compared.
type repeats struct {
	slog.Handler
	context string // the attributes of the logger
	seen    *faultsSeen
}

// faultsSeen holds the faults that the handlers of a logger have seen.
type faultsSeen struct {
	mu     sync.Mutex
	faults map[string]*faultSeen
}

type faultSeen struct {
	logged  time.Time // the last time
	repeats int       // since then
}

func newRepeats(h slog.Handler) *repeats {
	return &repeats{Handler: h, seen: &faultsSeen{faults: map[string]*faultSeen{}}}
}

// Handle implements slog.Handler.
func (h *repeats) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return h.Handler.Handle(ctx, r)
	}
	var key strings.Builder
	key.WriteString(r.Level.String() + " " + r.Message + h.context)
	r.Attrs(func(a slog.Attr) bool {
		appendText(&key, a)
		return true
	})
	repeated, log := h.seen.note(key.String(), r.Time)
	if !log {
		return nil
	}
	if repeated > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("repeated", repeated))
	}
	return h.Handler.Handle(ctx, r)
}

// note counts a fault. It reports whether to log it, and how often it has been repeated
// since it was last logged.
func (s *faultsSeen) note(key string, now time.Time) (repeated int, log bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.faults[key]
	if f != nil && now.Sub(f.logged) < repeatEvery {
		f.repeats++
		return 0, false
	}
	if f == nil {
		if len(s.faults) >= maxRepeats {
			for k, old := range s.faults {
				if now.Sub(old.logged) >= repeatEvery {
					delete(s.faults, k)
				}
			}
		}
		if len(s.faults) >= maxRepeats {
			return 0, true
		}
		f = &faultSeen{}
		s.faults[key] = f
	}
	repeated = f.repeats
	*f = faultSeen{logged: now}
	return repeated, true
}

// WithAttrs implements slog.Handler.
func (h *repeats) WithAttrs(attrs []slog.Attr) slog.Handler {
	context := strings.Builder{}
	context.WriteString(h.context)
	for _, a := range attrs {
		if a.Value.Kind() == slog.KindInt64 { // the number of a partition
			a.Value = slog.StringValue(a.Value.String())
		}
		appendText(&context, a)
	}
	return &repeats{h.Handler.WithAttrs(attrs), context.String(), h.seen}
}

// WithGroup implements slog.Handler.
func (h *repeats) WithGroup(name string) slog.Handler {
	return &repeats{h.Handler.WithGroup(name), h.context + " " + name, h.seen}
}

// appendText appends an attribute to the key of a fault if it is text.
func appendText(key *strings.Builder, a slog.Attr) {
	if v := a.Value.Resolve(); v.Kind() == slog.KindString {
		key.WriteString(" " + a.Key + "=" + v.String())
	}
}
