package signal

import "time"

// EventType is the kind of an event.
type EventType string

// Public events, which clients receive by webhook or on the dashboard stream.
const (
	SignalCreated      EventType = "signal.created"
	SignalUpdated      EventType = "signal.updated"
	SignalClosed       EventType = "signal.closed"
	AgentStarted       EventType = "agent.started"
	AgentCompleted     EventType = "agent.completed"
	AgentFailed        EventType = "agent.error"
	WebhookTest        EventType = "webhook.test"
	LogCheckpoint      EventType = "log.checkpoint" // by webhook alone
	SystemNotification EventType = "system.notification"
)

// Internal events, which clients do not receive. The first three revoke what their
// Subject names, on every node; the others notify the owner of the partition.
const (
	AccountDeleted    EventType = "account.deleted"  // Subject: empty
	KeyRevoked        EventType = "key.revoked"      // Subject: the KeyID
	SessionEnded      EventType = "session.ended"    // Subject: the SessionID, or empty for all of the account
	WebhookChanged    EventType = "webhook.changed"  // Subject: the WebhookID, whose record changed or was deleted
	DeliveriesChanged EventType = "webhook.poked"    // Subject: the WebhookID, whose pending deliveries changed
	ScheduleChanged   EventType = "schedule.changed" // Subject: the ScheduleID, whose record changed or was deleted
	// ExitRequested has as Subject the SignalID, whose agent has ended it at the time of the event.
	ExitRequested EventType = "signal.exit_requested"
)

// Event is one entry of the event log.
type Event struct {
	Position Position // set by the log
	ID       EventID
	Account  AccountID
	Type     EventType
	Asset    string   // of signal.*, and of agent.* as far as known: of the run; empty otherwise
	Agent    AgentID  // of agent.*; empty otherwise
	Strategy string   // of agent.* as far as known: of the run; empty otherwise
	Run      RunID    // of agent.*; empty otherwise
	Subject  string   // of internal events; empty otherwise
	Listing  *Listing // of signal.*: what lists show after the event; nil otherwise
	Initial  *Initial // of signal.*: the signal at its creation; nil in events of older versions
	Weather  *Outlook // of signal.created of a weather run; nil otherwise
	Opening  *Opening // of signal.created: the rest of the signal; nil in events of older versions
	Data     []byte   // the JSON of the payload's data member; nil for internal events
}

// Time returns the time of the event.
func (e *Event) Time() time.Time { return e.Position.Time() }

// Opening is what a new signal has besides the members of its event.
type Opening struct {
	Run          RunID
	Timeframe    Timeframe
	Risk         RiskLevel
	Stop, Target float64       // valid if the listing has an entry price
	Reach        *Reach        // as of the signal
	Lifetime     time.Duration // from the creation to the expiry; 0 for a signal that does not expire
}

// Opening returns the opening of a signal that is being created, or nil if its lifetime is not known yet.
func (s *Signal) Opening() *Opening {
	o := &Opening{Run: s.Run, Timeframe: s.Timeframe, Risk: s.Risk, Reach: s.Reach}
	if s.Levels != nil {
		o.Stop, o.Target = s.Levels.Stop, s.Levels.Target
	}
	if !s.ExpiresAt.IsZero() {
		if s.CreatedAt.IsZero() {
			return nil
		}
		o.Lifetime = s.ExpiresAt.Sub(s.CreatedAt)
	}
	return o
}

// Opened returns the signal that e created, as it was then, without its metadata. It is false if e created
// none, and for events without Opening.
func (e *Event) Opened() (Signal, bool) {
	l, o := e.Listing, e.Opening
	if l == nil || o == nil {
		return Signal{}, false
	}
	s := Signal{ID: l.ID, Account: e.Account, Agent: l.Agent, Run: o.Run, Asset: l.Asset, Strategy: l.Strategy,
		Timeframe: o.Timeframe, Risk: o.Risk, Reach: o.Reach, Direction: l.Direction, Confidence: l.Confidence,
		FirstConfidence: l.Confidence, Initial: e.Initial, Weather: e.Weather, CreatedAt: e.Time(),
		UpdatedAt: e.Time(), Sequence: 1}
	if l.Entry != nil {
		s.Levels = &Levels{Entry: *l.Entry, Stop: o.Stop, Target: o.Target}
	}
	if o.Lifetime > 0 {
		s.ExpiresAt = s.CreatedAt.Add(o.Lifetime)
	}
	return s, true
}

// Internal reports whether events of type t are hidden from clients.
func (t EventType) Internal() bool {
	switch t {
	case AccountDeleted, KeyRevoked, SessionEnded, WebhookChanged, DeliveriesChanged, ScheduleChanged, ExitRequested:
		return true
	}
	return false
}

// Change is what one append records: events, in their order, and the records that they
// concern. Either all of it is stored or nothing. Every event belongs to Account.
type Change struct {
	Account AccountID
	Events  []Event
	// Signal is the state after the events, stored with them: a new record for
	// signal.created, a changed one for signal.updated and signal.closed. Nil if no event
	// of the change concerns a signal. If the stored signal is closed, the change is
	// refused with KindConflict.
	Signal *Signal
	// Job is stored if its attempt is still the current one; otherwise the change is
	// refused with KindConflict. Nil if the change concerns no job.
	Job *Job
	// Reply is kept for the Idempotency-Key of the request; nil without one.
	Reply *Reply
	// Reference is kept for the agent's own reference of its submission; nil without one.
	Reference *Reply
	// Due is a run of this process that must be ended if the process dies; see RunDue.
	// Nil otherwise.
	Due *RunDue
	// Ended is the run whose Due the change settles, or empty.
	Ended RunID
	// Agent is the account's own agent that causes the change, which is refused with KindConflict if the agent was
	// changed or removed since it was read. Nil for the agents of the service.
	Agent *Agent
	// Alert is carried out with the change; nil without one.
	Alert *Alert
	// Epoch fences a write that only the owner of the partition may make: it is refused
	// with KindConflict if the partition has another epoch. 0 for other writes.
	Epoch int64
}

// RunDue is a synchronous run whose start has been recorded. If its end is not recorded
// by At, the owner of the partition records agent.error with the code CANCELLED.
type RunDue struct {
	Run     RunID
	Agent   AgentID
	At      time.Time
	Account AccountID // set when read from the store; in a change it is that of the change
}

// ReplyKey identifies a request with an Idempotency-Key. Different accounts, methods and
// paths have separate keys.
type ReplyKey struct {
	Method, Path, Key string
	RequestHash       [32]byte // digest of the body, keyed with a key of the installation
	// Keep is how long the reply is kept; 0 means a day.
	Keep time.Duration
	// FormerHashes are digests of the same request with earlier keys of the installation,
	// under which its reply may have been kept.
	FormerHashes [][32]byte
	// Claim names the request among all that were or will be sent with the key: "NODE NONCE NUMBER",
	// by the node and the nonce of its process. Empty: unknown.
	Claim string
}

// Reply is the first successful answer to a request with an Idempotency-Key.
type Reply struct {
	ReplyKey
	Status int
	Header map[string]string // in addition to those of every answer
	// Body is the body of the answer. Nil unless Omitted: the answer shows the signal
	// that the change created, as it was then.
	Body []byte
	// Omitted reports whether the body was too large to be kept, so that the answer has
	// to be made again from what it showed.
	Omitted bool
	// Signal is the created signal when a reply without a body is read back; nil
	// otherwise.
	Signal *Signal
}
