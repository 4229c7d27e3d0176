// Package panics recovers panics outside actors: in readers, flushers and the goroutines
// of sources. One record that cannot be handled must not end the process, and with it
// every node that reads the record.
package panics

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Place names a part of the service that continues after a panic. It is a label of a
// metric, so the list is closed.
type Place string

// The places. Actors, HTTP handlers and runs recover by themselves.
const (
	Tail         Place = "tail"          // a record of the event log, or a subscriber
	Log          Place = "log"           // other reads of Redis
	Catalogue    Place = "catalogue"     // a signal of the lists
	Dashboard    Place = "dashboard"     // a connection, or an order of a flusher
	Market       Place = "market"        // an entry of the market's streams
	Source       Place = "source"        // a source of prices or news
	Limiter      Place = "limiter"       // a request for tokens
	Credentials  Place = "credentials"   // a renewal of a cached credential
	Jobs         Place = "jobs"          // a job, or the count of waiting ones
	Weather      Place = "weather"       // an outlook
	Webhooks     Place = "webhooks"      // a connection to an endpoint
	PublicRecord Place = "public_record" // the making of a page
	Background   Place = "background"    // a periodic task of the process
)

// Places lists the places.
var Places = []Place{Tail, Log, Catalogue, Dashboard, Market, Source, Limiter,
	Credentials, Jobs, Weather, Webhooks, PublicRecord, Background}

// ErrPanicked is the error of a function that panicked, for callers that wait for it.
var ErrPanicked = errors.New("panicked: see the log for the place")

// Message is the log message of a recovered panic; its attribute where is the Place. The
// process counts panics by it.
const Message = "panic recovered"

// faultLog logs panics. *slog.Logger implements it.
type faultLog interface {
	Error(message string, args ...any)
}

// Guard calls f and reports whether it returned. A panic in it is logged, with its stack
// and attrs, and thereby counted.
func Guard(log faultLog, where Place, f func(), attrs ...any) (ok bool) {
	return GuardAt(log, where, f, func() []any { return attrs })
}

// GuardAt is like Guard, for attributes that are expensive or known only after a panic.
func GuardAt(log faultLog, where Place, f func(), at func() []any) (ok bool) {
	defer func() {
		if reason := recover(); reason != nil {
			attrs := []any{"where", string(where), "panic", fmt.Sprint(reason), "stack", string(debug.Stack())}
			log.Error(Message, append(attrs, at()...)...)
		}
	}()
	f()
	return true
}

// Catch calls f and returns its error, or ErrPanicked after a panic, which is logged as Guard does it.
func Catch(log faultLog, where Place, f func() error, attrs ...any) error {
	err := ErrPanicked
	Guard(log, where, func() { err = f() }, attrs...)
	return err
}

// GuardEach calls f for 0 to n-1 and continues after one that panics. at returns the
// attributes to log for i; if nil, i itself is logged.
func GuardEach(log faultLog, where Place, n int, f func(i int), at func(i int) []any) {
	if at == nil {
		at = func(i int) []any { return []any{"at", i} }
	}
	for i := 0; i < n; i++ {
		GuardAt(log, where, func() {
			for ; i < n; i++ {
				f(i)
			}
		}, func() []any { return at(i) })
	}
}
