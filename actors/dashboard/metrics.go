package dashboard

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts connections and messages. A nil *Metrics counts nothing.
type Metrics struct {
	connections   prometheus.Gauge
	eventStreams  prometheus.Gauge // those of connections that are of Server-Sent Events
	subscriptions [heartbeat]prometheus.Gauge
	connects      *prometheus.CounterVec
	disconnects   *prometheus.CounterVec
	resumes       *prometheus.CounterVec
	messages      [channels]prometheus.Counter
	bytes         prometheus.Counter
	deliveryLag   prometheus.Histogram

	readerConnections prometheus.Gauge
	readerRefusals    *prometheus.CounterVec
}

// Values of the label "reason" of refusals of readers' connections.
const (
	refusedByLimit   = "max_connections" // of the reader
	refusedByAccount = "account"         // of all readers of the account
)

// Values of the label "result" of connects.
const (
	connectOK              = "ok"
	connectUnauthenticated = "unauthenticated"
	connectTooMany         = "too_many_connections"
	connectGoingAway       = "going_away"
	connectAbandoned       = "abandoned" // ended before it was authenticated
)

var connectResults = []string{connectOK, connectUnauthenticated, connectTooMany, connectGoingAway, connectAbandoned}

// connectResult returns the result of a connection that was never authenticated.
func connectResult(why closing) string {
	switch why {
	case closeUnauth, closeForbidden:
		return connectUnauthenticated
	case closeTooManyConns:
		return connectTooMany
	case closeGoingAway:
		return connectGoingAway
	}
	return connectAbandoned
}

// NewMetrics registers the metrics of this package.
func NewMetrics(r prometheus.Registerer) *Metrics {
	subscriptions := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "agentsignal_ws_subscriptions", Help: "Connections of the stream that are subscribed to a channel.",
	}, []string{"channel"})
	messages := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agentsignal_ws_messages_sent_total",
		Help: "Messages written to connections of the stream by channel, without replies.",
	}, []string{"channel"})
	m := &Metrics{
		connections: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "agentsignal_ws_connections", Help: "Open connections of the stream, by either transport.",
		}),
		eventStreams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "agentsignal_sse_connections",
			Help: "Open connections of the stream by Server-Sent Events, a part of agentsignal_ws_connections.",
		}),
		connects: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentsignal_ws_connects_total",
			Help: "Accepted connections of the stream by the result of their authentication.",
		}, []string{"result"}),
		disconnects: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentsignal_ws_disconnects_total", Help: "Ended connections of the stream by close code; 1006 had none.",
		}, []string{"code"}),
		resumes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentsignal_ws_resumes_total",
			Help: "Subscriptions with last_event_id by whether the gap was filled.",
		}, []string{"result"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "agentsignal_ws_sent_bytes_total", Help: "Bytes written to connections of the stream.",
		}),
		deliveryLag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "agentsignal_ws_delivery_lag_seconds",
			Help: "Time from the recording of an event until it was written, " +
				"once for each group of equal subscriptions.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		readerConnections: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "agentsignal_ws_reader_connections", Help: "Open connections of readers, by both transports.",
		}),
		readerRefusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentsignal_ws_reader_refusals_total",
			Help: "Refused connections of readers by the limit: of the reader, or of its account's readers.",
		}, []string{"reason"}),
	}
	r.MustRegister(
		m.connections, m.eventStreams, subscriptions, m.connects, m.disconnects, m.resumes, messages, m.bytes, m.deliveryLag,
		m.readerConnections, m.readerRefusals,
	)
	for _, reason := range []string{refusedByLimit, refusedByAccount} {
		m.readerRefusals.WithLabelValues(reason)
	}
	for c := range channels {
		m.messages[c] = messages.WithLabelValues(c.String())
	}
	for c := range heartbeat {
		m.subscriptions[c] = subscriptions.WithLabelValues(c.String())
	}
	for _, result := range connectResults {
		m.connects.WithLabelValues(result)
	}
	for _, code := range closeCodes {
		m.disconnects.WithLabelValues(strconv.Itoa(code))
	}
	m.resumes.WithLabelValues("complete")
	m.resumes.WithLabelValues("incomplete")
	return m
}

func (m *Metrics) opened(t transport, n float64) {
	if m == nil {
		return
	}
	m.connections.Add(n)
	if t == eventStream {
		m.eventStreams.Add(n)
	}
}

// readers counts connections of readers.
func (m *Metrics) readers(n int) {
	if m != nil {
		m.readerConnections.Add(float64(n))
	}
}

func (m *Metrics) refusedReader(reason string) {
	if m != nil {
		m.readerRefusals.WithLabelValues(reason).Inc()
	}
}

func (m *Metrics) subscribed(set channelSet, n float64) {
	if m == nil {
		return
	}
	for c := range heartbeat {
		if set.has(c) {
			m.subscriptions[c].Add(n)
		}
	}
}

func (m *Metrics) connected(result string) {
	if m != nil {
		m.connects.WithLabelValues(result).Inc()
	}
}

func (m *Metrics) disconnected(why closing) {
	if m != nil {
		m.disconnects.WithLabelValues(why.label()).Inc()
	}
}

func (m *Metrics) resumed(complete bool) {
	if m == nil {
		return
	}
	result := "incomplete"
	if complete {
		result = "complete"
	}
	m.resumes.WithLabelValues(result).Inc()
}

func (m *Metrics) sent(messages *[channels]uint64, bytes uint64) {
	if m == nil {
		return
	}
	for c, n := range messages {
		if n > 0 {
			m.messages[c].Add(float64(n))
		}
	}
	m.bytes.Add(float64(bytes))
}

// lag records a delivery lag in milliseconds. A negative one, from nodes whose clocks
// differ, counts as 0.
func (m *Metrics) lag(ms int64) { m.deliveryLag.Observe(float64(max(0, ms)) / 1000) }
