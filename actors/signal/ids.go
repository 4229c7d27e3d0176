package signal

import (
	"crypto/rand"
	"crypto/sha256"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// Identifiers are a prefix and a ULID. They are types of their own, so that two of them
// cannot be swapped. The zero value of each means "none".
//
// The ULID library is the only import of this package from outside the standard library.
type (
	AccountID  string // acc_
	AgentID    string // a name of the catalogue, such as "trading"
	SignalID   string // sig_
	WeatherID  string // wsig_, with the ULID of its signal
	RunID      string // run_
	JobID      string // job_
	EventID    string // evt_
	KeyID      string // key_
	SessionID  string // ses_, internal: the sid of an access token
	WebhookID  string // whk_
	DeliveryID string // dlv_
	ScheduleID string // sch_
	IntakeID   string // itk_
)

// Prefixes of the identifiers.
const (
	prefixAccount    = "acc_"
	prefixSignal     = "sig_"
	prefixWeather    = "wsig_"
	prefixRun        = "run_"
	prefixJob        = "job_"
	prefixEvent      = "evt_"
	prefixKey        = "key_"
	prefixSession    = "ses_"
	prefixRequest    = "req_"
	prefixConnection = "con_"
	prefixWebhook    = "whk_"
	prefixDelivery   = "dlv_"
	prefixSchedule   = "sch_"
	prefixIntake     = "itk_"
)

// ulidLength is the number of characters of a ULID in text.
const ulidLength = 26

// maxClockStep is how far the clock may be set back while identifiers still increase.
const maxClockStep = 60_000 // milliseconds

// ids makes ULIDs that increase within the process, even within one millisecond.
var ids = struct {
	sync.Mutex
	entropy *ulid.MonotonicEntropy
	last    uint64 // the time of the last one, in milliseconds
}{entropy: ulid.Monotonic(rand.Reader, 0)}

func newID(prefix string) string {
	ids.Lock()
	defer ids.Unlock()
	// The time is read under the lock: an earlier one would begin a new random sequence.
	now := ulid.Now()
	if now >= ids.last || ids.last-now > maxClockStep {
		ids.last = now
	}
	return textOf(prefix, ids.last, ids.entropy)
}

// givenIDs has the random sequence of identifiers with a given time, apart from that of ids,
// which another time would begin again.
var givenIDs = struct {
	sync.Mutex
	entropy *ulid.MonotonicEntropy
}{entropy: ulid.Monotonic(rand.Reader, 0)}

// newIDAt returns an identifier with a given time. Those made one after the other with the
// same time increase.
func newIDAt(prefix string, at time.Time) string {
	givenIDs.Lock()
	defer givenIDs.Unlock()
	return textOf(prefix, ulid.Timestamp(at), givenIDs.entropy)
}

func textOf(prefix string, ms uint64, entropy io.Reader) string {
	id, err := ulid.New(ms, entropy)
	if err != nil {
		// The operating system has no randomness, or one millisecond held 2^79 ids.
		panic("make identifier: " + err.Error())
	}
	return prefixed(prefix, id)
}

// prefixed returns an identifier, in one allocation.
func prefixed(prefix string, id ulid.ULID) string {
	var text [ulidLength]byte
	_ = id.MarshalTextTo(text[:]) // it has the right length
	return prefix + string(text[:])
}

// NewAccountID returns an identifier for a new account.
func NewAccountID() AccountID { return AccountID(newID(prefixAccount)) }

// NewAccountIDAt returns an identifier with the given time by the clock of Redis, which
// is compared with the positions of the account's events.
func NewAccountIDAt(at time.Time) AccountID { return AccountID(newIDAt(prefixAccount, at)) }

// NewSignalID returns an identifier for a new signal.
func NewSignalID() SignalID { return SignalID(newID(prefixSignal)) }

// NewRunID returns an identifier for a new run.
func NewRunID() RunID { return RunID(newID(prefixRun)) }

// NewJobID returns an identifier for a new job.
func NewJobID() JobID { return JobID(newID(prefixJob)) }

// NewEventID returns an identifier for a new event.
func NewEventID() EventID { return EventID(newID(prefixEvent)) }

// NewKeyID returns an identifier for a new API key.
func NewKeyID() KeyID { return KeyID(newID(prefixKey)) }

// NewSessionIDAt returns an identifier for a new login session with the given time by the
// clock of Redis, which is compared with the position of a revocation.
func NewSessionIDAt(at time.Time) SessionID { return SessionID(newIDAt(prefixSession, at)) }

// NewWebhookID returns an identifier for a new webhook.
func NewWebhookID() WebhookID { return WebhookID(newID(prefixWebhook)) }

// NewDeliveryID returns an identifier for a new delivery.
func NewDeliveryID() DeliveryID { return DeliveryID(newID(prefixDelivery)) }

// NewScheduleID returns an identifier for a new schedule.
func NewScheduleID() ScheduleID { return ScheduleID(newID(prefixSchedule)) }

// NewIntakeID returns an identifier for a new intake.
func NewIntakeID() IntakeID { return IntakeID(newID(prefixIntake)) }

// DeliveryIDOf returns the identifier of the delivery of an event to a webhook. It is a
// function of the two, so that a delivery that is made twice is recorded once. Its time
// is that of the event's identifier.
func DeliveryIDOf(e EventID, w WebhookID) DeliveryID {
	both := make([]byte, 0, 2*(len(prefixEvent)+ulidLength))
	digest := sha256.Sum256(append(append(both, e...), w...))
	id := ulid.ULID(digest[:16])
	if event, ok := ULIDBytes(string(e)); ok {
		copy(id[:6], event[:6])
	}
	return DeliveryID(prefixed(prefixDelivery, id))
}

// NewRequestID returns an identifier for one HTTP request.
func NewRequestID() string { return newID(prefixRequest) }

// NewConnectionID returns an identifier for one WebSocket.
func NewConnectionID() string { return newID(prefixConnection) }

// The functions below return s as an identifier, or false if it is not well-formed.

// ParseSignalID parses the identifier of a signal.
func ParseSignalID(s string) (SignalID, bool) { return parseID[SignalID](s, prefixSignal) }

// ParseJobID parses the identifier of a job.
func ParseJobID(s string) (JobID, bool) { return parseID[JobID](s, prefixJob) }

// ParseKeyID parses the identifier of an API key.
func ParseKeyID(s string) (KeyID, bool) { return parseID[KeyID](s, prefixKey) }

// ParseWebhookID parses the identifier of a webhook.
func ParseWebhookID(s string) (WebhookID, bool) { return parseID[WebhookID](s, prefixWebhook) }

// ParseDeliveryID parses the identifier of a delivery.
func ParseDeliveryID(s string) (DeliveryID, bool) { return parseID[DeliveryID](s, prefixDelivery) }

// ParseScheduleID parses the identifier of a schedule.
func ParseScheduleID(s string) (ScheduleID, bool) { return parseID[ScheduleID](s, prefixSchedule) }

// ParseIntakeID parses the identifier of an intake.
func ParseIntakeID(s string) (IntakeID, bool) { return parseID[IntakeID](s, prefixIntake) }

func parseID[ID ~string](s, prefix string) (ID, bool) {
	_, ok := parseULID(s, prefix)
	return ID(s), ok
}

// Time returns when the identifier was made, by the clock of the node, or false if it is not well-formed: of a job,
// when it was queued.
func (id RunID) Time() (time.Time, bool) {
	u, ok := parseULID(string(id), prefixRun)
	return u.Timestamp(), ok
}

// Weather returns the identifier of the Weather signal that belongs to the signal.
func (id SignalID) Weather() WeatherID {
	return WeatherID(prefixWeather + strings.TrimPrefix(string(id), prefixSignal))
}

// ParseWeatherID returns the identifier of the signal to which the Weather signal s
// belongs, or false if s is not well-formed.
func ParseWeatherID(s string) (SignalID, bool) {
	text, ok := strings.CutPrefix(s, prefixWeather)
	if !ok {
		return "", false
	}
	return ParseSignalID(prefixSignal + text)
}

func parseULID(s, prefix string) (ulid.ULID, bool) {
	text, ok := strings.CutPrefix(s, prefix)
	if !ok || len(text) != ulidLength {
		return ulid.ULID{}, false
	}
	for i := range len(text) {
		if 'a' <= text[i] && text[i] <= 'z' {
			return ulid.ULID{}, false // a second spelling of the same identifier
		}
	}
	id, err := ulid.ParseStrict(text)
	return id, err == nil
}

// ULIDBytes returns the 16 bytes of an identifier with a four-character prefix, for
// compact storage, or false if id is not well-formed.
func ULIDBytes(id string) ([16]byte, bool) {
	if len(id) != len(prefixSignal)+ulidLength {
		return [16]byte{}, false
	}
	u, ok := parseULID(id, id[:len(prefixSignal)])
	return u, ok
}

// SignalIDFromBytes is the inverse of ULIDBytes for signals.
func SignalIDFromBytes(b [16]byte) SignalID { return SignalID(prefixed(prefixSignal, b)) }
