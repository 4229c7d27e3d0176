package webhook

import (
	"cmp"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// DefaultRetries are the default delays before the retries, in total 10 h 42 min 30 s.
var DefaultRetries = []time.Duration{
	30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, 2 * time.Hour, 8 * time.Hour,
}

// maxHold is how far a Retry-After may delay an attempt beyond its schedule, and how long it may hold
// the endpoint.
const maxHold = time.Hour

// Schedule decides when a delivery is retried.
type Schedule struct {
	// Retries are the delays from the end of an attempt to the next one. Nil for
	// DefaultRetries, empty for no retries.
	Retries []time.Duration
	// Jitter is the fraction by which a delay may vary, from 0 to 0.5.
	Jitter float64
}

// After returns the state of d after an attempt with the result r that ended now. trigger
// is the reason for the attempt; jitter is a random number from -1 to 1. The caller must
// drop a cancelled result. d itself is not changed.
func (s Schedule) After(
	d delivery.Delivery, trigger delivery.Trigger, r sender.Result, now time.Time, jitter float64,
) delivery.Delivery {
	d.Attempts = withAttempt(d.Attempts, delivery.Attempt{
		Number: d.AttemptCount() + 1, Trigger: trigger, At: r.At, Duration: r.Duration,
		ResponseStatus: r.Status, Error: r.Error, ResponseBody: r.Body,
	})
	last := d.Single || trigger == delivery.Manual
	if trigger == delivery.Scheduled {
		d.Scheduled++
	}
	retries := s.Retries
	if retries == nil {
		retries = DefaultRetries
	}
	d.Error, d.Single, d.WasDueAt = r.Error, false, d.NextAttemptAt
	switch {
	case r.Error == "":
		d.Status, d.NextAttemptAt, d.CompletedAt = delivery.Succeeded, time.Time{}, now
	case last || d.Scheduled > len(retries):
		d.Status, d.NextAttemptAt, d.CompletedAt = delivery.Failed, time.Time{}, now
	default:
		delay := retries[max(d.Scheduled, 1)-1]
		delay += time.Duration(float64(delay) * s.Jitter * jitter)
		hold := min(r.RetryAfter, delay+maxHold)
		d.Status, d.NextAttemptAt, d.CompletedAt = delivery.Pending, now.Add(max(delay, hold)), time.Time{}
	}
	return d
}

// withAttempt returns a new slice of the newest attempts, of which a is the last. It
// truncates the response bodies of the others.
func withAttempt(all []delivery.Attempt, a delivery.Attempt) []delivery.Attempt {
	if n := len(all) - (delivery.MaxAttempts - 1); n > 0 {
		all = all[n:]
	}
	kept := append(make([]delivery.Attempt, 0, len(all)+1), all...)
	for i := range kept {
		kept[i].ResponseBody = delivery.CutText(kept[i].ResponseBody, delivery.MaxEarlierBody)
	}
	return append(kept, a)
}

// Defaults of HealthRules.
const (
	DefaultDisableAfter = 72 * time.Hour
	DefaultMinFailures  = 5
)

// DefaultWarnAfter are the default warnings of HealthRules.
var DefaultWarnAfter = []time.Duration{24 * time.Hour, 48 * time.Hour}

// HealthRules decide when the owner of a failing webhook is warned and when it is disabled.
type HealthRules struct {
	// DisableAfter is how long a webhook may fail, from the first failed attempt since a
	// success, before it is disabled; default DefaultDisableAfter.
	DisableAfter time.Duration
	// MinFailures is the minimum number of failed attempts before a webhook is disabled;
	// default DefaultMinFailures.
	MinFailures int
	// WarnAfter lists when the owner is warned, ascending. Times not below DisableAfter do
	// not count. Nil for DefaultWarnAfter, empty for no warnings.
	WarnAfter []time.Duration
}

// Verdict is the consequence of an attempt for its webhook. At most one field is set.
type Verdict struct {
	Disable   bool // it has failed for too long; set again at each later failure
	Warn      bool // its owner must be warned
	Recovered bool // it has succeeded after a warning
}

// After returns the health after an attempt that ended at the given time. Every attempt
// counts, including tests and manual ones. For a disabled webhook the caller ignores
// Verdict.Disable.
func (r HealthRules) After(h delivery.WebhookHealth, success bool, at time.Time) (delivery.WebhookHealth, Verdict) {
	if success {
		return delivery.WebhookHealth{}, Verdict{Recovered: h.Warned > 0}
	}
	if h.FailingSince.IsZero() {
		h = delivery.WebhookHealth{FailingSince: at}
	}
	h.Failures++
	failing := at.Sub(h.FailingSince)
	disableAfter := cmp.Or(r.DisableAfter, DefaultDisableAfter)
	if failing >= disableAfter && h.Failures >= cmp.Or(r.MinFailures, DefaultMinFailures) {
		return h, Verdict{Disable: true}
	}
	warnAfter := r.WarnAfter
	if warnAfter == nil {
		warnAfter = DefaultWarnAfter
	}
	due := 0
	for _, w := range warnAfter {
		if w < disableAfter && failing >= w {
			due++
		}
	}
	if due <= h.Warned {
		return h, Verdict{}
	}
	h.Warned = due
	return h, Verdict{Warn: true}
}
