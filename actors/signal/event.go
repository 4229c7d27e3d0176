package signal

import "time"

// EventType names what happened.
type EventType string

// Events that clients may hear of, by webhook or on the dashboard stream.
const (
	SignalCreated      EventType = "signal.created"
	SignalUpdated      EventType = "signal.updated"
	SignalClosed       EventType = "signal.closed"
	AgentStarted       EventType = "agent.started"
	AgentCompleted     EventType = "agent.completed"
	AgentFailed        EventType = "agent.error"
	WebhookTest        EventType = "webhook.test"
	SystemNotification EventType = "system.notification"
)

// Events that only the service itself hears of. What the first three name is no
// longer valid, and every node forgets it; the others are for the owner of the
// partition.
const (
	AccountDeleted EventType = "account.deleted" // Subject: empty
	KeyRevoked     EventType = "key.revoked"     // Subject: the KeyID
	SessionEnded   EventType = "session.ended"   // Subject: the SessionID; empty means all of the account
	WebhookChanged EventType = "webhook.changed" // Subject: the WebhookID, whose record is new, another one or gone
	WebhookPoked   EventType = "webhook.poked"   // Subject: the WebhookID, to whose pending deliveries one was added or of which one was taken

	ScheduleChanged EventType = "schedule.changed" // Subject: the ScheduleID, whose record is new, another one or gone
)

// Event is what happened: one entry of the event log.
type Event struct {
	Position Position // set by the log
	ID       EventID
	Account  AccountID
	Type     EventType
	Asset    string   // of signal.*; empty otherwise
	Agent    AgentID  // of agent.*; empty otherwise
	Run      RunID    // of agent.*; empty otherwise
	Subject  string   // of internal events; empty otherwise
	Listing  *Listing // of signal.*: what lists show after the event; nil otherwise
	Weather  *Outlook // of signal.created of a weather run; nil otherwise
	Data     []byte   // the JSON of the payload's data member; nil for internal events
}

// Time returns when it happened.
func (e *Event) Time() time.Time { return e.Position.Time() }

// Internal says that no client hears of e.
func (t EventType) Internal() bool {
	switch t {
	case AccountDeleted, KeyRevoked, SessionEnded, WebhookChanged, WebhookPoked, ScheduleChanged:
		return true
	}
	return false
}

// Change is what one append records: the events in their order, and the records
// that they concern, all of it or none. Every event belongs to Account.
type Change struct {
	Account AccountID
	Events  []Event
	// Signal is the state after the events, to be stored with them: for
	// signal.created a new record, for signal.updated and signal.closed a change
	// of an open one. Nil if no event of the change concerns a signal. A signal
	// that is not open refuses the change with KindConflict.
	Signal *Signal
	// Job is stored if its attempt still holds it, else the change is refused with
	// KindConflict. Nil if the change concerns no job.
	Job *Job
	// Reply is kept for the Idempotency-Key of the request. Nil without one.
	Reply *Reply
	// Due is a run in this process that must be ended if the process dies. See
	// RunDue. Nil otherwise.
	Due *RunDue
	// Ended is the run whose Due is settled with this change; empty if none was
	// recorded.
	Ended RunID
	// Epoch fences a write that only the partition's owner may make: it is refused
	// with KindConflict if another epoch holds the partition. 0: anyone may.
	Epoch int64
}

// RunDue is a synchronous run that has announced itself. If its end is not
// recorded by At, the owner of the partition records agent.error, CANCELLED.
type RunDue struct {
	Run     RunID
	Agent   AgentID
	At      time.Time
	Account AccountID // set when it is read back; in a change, that of the change
}

// ReplyKey names the Idempotency-Key of a request. Keys of different accounts,
// methods and paths are different keys.
type ReplyKey struct {
	Method, Path, Key string
	RequestHash       [32]byte // digest of the body, by a key of the installation
	// FormerHashes are digests under which the same request may have been kept before the
	// keys of the installation were changed.
	FormerHashes [][32]byte
}

// Reply is the first successful answer to a request with an Idempotency-Key.
type Reply struct {
	ReplyKey
	Status int
	Header map[string]string // beside those that every answer carries
	// Body is the answer's body. Nil: the answer is the signal that the change
	// created, as it was then, unless the body is omitted.
	Body []byte
	// Omitted reports that the body was too large to be kept: the answer is made again
	// from what it showed.
	Omitted bool
	// Signal is that signal when a reply without body is read back; else nil.
	Signal *Signal
}
