package credentials

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Metrics counts refused credentials and locks. Nil counts nothing.
type Metrics struct {
	failures *prometheus.CounterVec
	locks    prometheus.Counter
}

// reason is the reason why a credential was refused.
type reason string

const (
	missingCredentials reason = "missing_credentials"
	malformedKey       reason = "malformed_key"
	unknownKey         reason = "unknown_key"
	expiredKey         reason = "expired_key"
	invalidJWT         reason = "invalid_jwt"
	expiredJWT         reason = "expired_jwt"
	endedSession       reason = "ended_session"
	jwtRequired        reason = "jwt_required"
	wrongPassword      reason = "invalid_credentials"
	accountLocked      reason = "account_locked"
	invalidRefresh     reason = "invalid_refresh_token"
	reusedRefresh      reason = "reused_refresh_token"
)

var reasons = []reason{missingCredentials, malformedKey, unknownKey, expiredKey, invalidJWT, expiredJWT, endedSession,
	jwtRequired, wrongPassword, accountLocked, invalidRefresh, reusedRefresh}

// NewMetrics registers the metrics of this package.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentsignal_auth_failures_total", Help: "Credentials refused, by reason.",
		}, []string{"reason"}),
		locks: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "agentsignal_auth_locks_total", Help: "Emails locked after too many failed logins.",
		}),
	}
	r.MustRegister(m.failures, m.locks, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "agentsignal_reader_views", Help: "Different views of readers that this process has in use.",
	}, func() float64 { return float64(signal.ViewsInUse()) }))
	for _, why := range reasons {
		m.failures.WithLabelValues(string(why))
	}
	return m
}

func (m *Metrics) refused(why reason) {
	if m != nil {
		m.failures.WithLabelValues(string(why)).Inc()
	}
}

func (m *Metrics) locked() {
	if m != nil {
		m.locks.Inc()
	}
}
