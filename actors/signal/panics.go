package signal

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// PanicPlace names a part of the service that goes on after a panic. It is a closed list,
// for the metric.
type PanicPlace string

// The places. Actors, HTTP handlers and runs recover by themselves.
const (
	PanicTail        PanicPlace = "tail"        // a record of the event log, or what follows it
	PanicLog         PanicPlace = "log"         // other reads of Redis
	PanicCatalogue   PanicPlace = "catalogue"   // a signal of the lists
	PanicDashboard   PanicPlace = "dashboard"   // a connection, or an order of a flusher
	PanicMarket      PanicPlace = "market"      // an entry of the market's streams
	PanicSource      PanicPlace = "source"      // a source of prices or news
	PanicLimiter     PanicPlace = "limiter"     // a question for tokens
	PanicCredentials PanicPlace = "credentials" // a renewal of what is known of a credential
	PanicJobs        PanicPlace = "jobs"        // a job, or the count of those that wait
	PanicWeather     PanicPlace = "weather"     // an outlook
	PanicWebhooks    PanicPlace = "webhooks"    // a connection to an endpoint
	PanicBackground  PanicPlace = "background"  // what the process does now and then
)

// PanicPlaces lists the places.
var PanicPlaces = []PanicPlace{PanicTail, PanicLog, PanicCatalogue, PanicDashboard, PanicMarket, PanicSource, PanicLimiter,
	PanicCredentials, PanicJobs, PanicWeather, PanicWebhooks, PanicBackground}

// ErrPanicked is the error of what panicked, for callers that wait for an outcome.
var ErrPanicked = errors.New("panicked: the log says where")

// PanicMessage is the message of what Guard logs, with its place as where: the process
// counts panics by it.
const PanicMessage = "panic recovered"

// faultLog is where panics are logged: a *slog.Logger.
type faultLog interface {
	Error(message string, args ...any)
}

// Guard calls f and reports whether it returned. A panic in it is logged with its stack
// and what attrs say of its position, and so counted; it goes no further, so that one
// record that cannot be handled does not end the process, and all nodes with it.
func Guard(log faultLog, where PanicPlace, f func(), attrs ...any) (ok bool) {
	return GuardAt(log, where, f, func() []any { return attrs })
}

// GuardAt is Guard where the position is known only after a panic, or costs something
// to name.
func GuardAt(log faultLog, where PanicPlace, f func(), at func() []any) (ok bool) {
	defer func() {
		if reason := recover(); reason != nil {
			log.Error(PanicMessage, append([]any{"where", string(where), "panic", fmt.Sprint(reason), "stack", string(debug.Stack())}, at()...)...)
		}
	}()
	f()
	return true
}

// GuardEach calls f for 0 to n-1, and goes on behind one that panics. at returns what is
// logged of its position; nil: its number.
func GuardEach(log faultLog, where PanicPlace, n int, f func(i int), at func(i int) []any) {
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
