package webhook

import (
	"cmp"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

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
