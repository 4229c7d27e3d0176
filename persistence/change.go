package persistence

import (
	"encoding/binary"
	"errors"
	"strconv"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

var (
	errNotOpen  = redisclient.Refused("signal_closed", "the signal is closed")
	errChanged  = error(signal.Changed(0)) // callers get the sequence that is stored
	errOldEpoch = redisclient.Refused(signal.CodeNotOwner, "another node owns the partition")
	errRunEnded = redisclient.Refused("run_ended", "the run has ended already")
)

// changeOperation returns what stores c in partition p.
func changeOperation(p int, c *signal.Change, now time.Time) *operation {
	o := newOperation()
	if c.Epoch != 0 {
		o.fence(c.Epoch)
	}
	described := -1 // the event that concerns c.Signal
	for i := range c.Events {
		if c.Signal != nil && concernsSignal(c.Events[i].Type) {
			described = i
		}
	}
	if described >= 0 && c.Events[described].Type != signal.SignalCreated {
		o.guard(guardFieldExists, refOpen, errNotOpen, codec.OpenField(c.Signal.ID))
		if c.Epoch != 0 {
			// An owner that has not heard how its last change ended may try it again.
			o.guard(guardSequence, refOpen, errChanged, string(binary.AppendUvarint(nil, uint64(max(c.Signal.Sequence-1, 1)))))
		}
	}
	var ended []string
	if c.Ended != "" {
		// A run ends once: by its own process, or for it by the partition's owner.
		if ended = endedMembers(c); len(ended) == 1 {
			o.guard(guardMember, refDue, errRunEnded, ended[0])
		}
	}
	if c.Reply != nil && c.Reply.Body == nil && (described < 0 || c.Events[described].Type != signal.SignalCreated) {
		o.invalid = errors.New("reply without a body needs a new signal")
	}
	// What refers to the new signal is stored right behind its event, so that the
	// stamp is the signal's position.
	pending := true
	for i := range c.Events {
		o.addEvent(c, i)
		if i == described {
			o.addSignal(c.Events[i].Type, c.Signal, now)
			if c.Events[i].Type == signal.SignalCreated {
				o.addReferring(p, c)
				pending = false
			}
		}
	}
	if pending {
		o.addReferring(p, c)
	}
	if c.Due != nil {
		o.step(cmdZAdd, refDue, strconv.FormatInt(c.Due.At.UnixMilli(), 10), dueMember(c.Account, c.Due.Run, c.Due.Agent))
	}
	if len(ended) > 0 {
		o.step(cmdZRem, refDue, ended...)
	}
	return o
}

func concernsSignal(t signal.EventType) bool {
	return t == signal.SignalCreated || t == signal.SignalUpdated || t == signal.SignalClosed
}

// addEvent appends event i of c to the event log.
func (o *operation) addEvent(c *signal.Change, i int) {
	e := c.Events[i]
	e.Account = c.Account
	if e.ID == "" {
		e.ID = signal.NewEventID()
	}
	if e.Listing == nil && c.Signal != nil && concernsSignal(e.Type) {
		l := c.Signal.Listing()
		e.Listing = &l
	}
	if e.Type == signal.SignalCreated && c.Signal != nil {
		e.Weather = c.Signal.Weather
	}
	header := codec.AppendEvent(make([]byte, 0, 160), &e)
	o.step(cmdEvent, refEvents, codec.Text(header), codec.Text(e.Data))
}

// addSignal stores what an event of type t changes of s.
func (o *operation) addSignal(t signal.EventType, s *signal.Signal, now time.Time) {
	field := codec.OpenField(s.ID)
	switch t {
	case signal.SignalCreated:
		o.step(cmdRecord, refSignals, codec.Text(codec.AppendRecord(make([]byte, 0, 160), s, now)), codec.Text(codec.PackMetadata(s.Metadata)))
		o.stamped(stampTwice, 1, cmdHSet, refOpen, field, codec.Text(codec.AppendOpen(make([]byte, 0, 160), s, now)))
	case signal.SignalUpdated:
		o.stamped(stampKept, 1, cmdHSet, refOpen, field, codec.Text(codec.AppendOpen(make([]byte, 0, 160), s, now)))
	case signal.SignalClosed:
		o.stamped(stampKept, 0, cmdRecord, refSignals, codec.Text(codec.AppendClosed(make([]byte, 0, 160), s)), codec.Text(codec.PackMetadata(s.Metadata)))
		o.step(cmdHDel, refOpen, field)
	}
}

// addReferring stores the reply and the job of c, which may refer to its signal.
func (o *operation) addReferring(p int, c *signal.Change) {
	if c.Reply != nil {
		o.addReply(p, c.Account, c.Reply)
	}
	if c.Job != nil {
		o.addJob(p, c.Job)
	}
}

// addReply keeps the answer to a request.
func (o *operation) addReply(p int, account signal.AccountID, r *signal.Reply) {
	k := o.key(redisclient.ReplyKey(p, account, codec.ReplyDigest(&r.ReplyKey)))
	o.stamped(stampID, 0, cmdSet, k, codec.Text(codec.AppendReply(nil, r)), "PX", strconv.FormatInt(replyRetention.Milliseconds(), 10))
}

const (
	// replyRetention is how long a reply is kept.
	replyRetention = 24 * time.Hour
	// indexMargin is how long an account's indexes outlive its last ended job.
	indexMargin = time.Hour
	// jobGroup is the consumer group of all job queues.
	jobGroup = "jobs"
)

// errJobLost is the refusal of an outcome whose job is another worker's, is over, or
// was erased.
var errJobLost = redisclient.Refused("job_lost", "another worker holds the job")

// addJob stores the outcome of j, and takes it out of the queue. It is refused
// unless the attempt of j is the one that holds the job.
func (o *operation) addJob(p int, j *signal.Job) {
	account, id := j.Request.Account, string(j.ID)
	record := o.key(redisclient.JobKey(p, j.ID))
	o.guard(guardFieldIs, record, errJobLost, codec.JobState, codec.JobStateText(signal.JobRunning, j.Attempt))
	if j.Status == signal.JobRunning {
		return // it only has to be held
	}
	o.stamped(stampID, 3, cmdHSet, record, codec.JobState, codec.JobStateText(j.Status, j.Attempt), codec.JobOutcome, string(codec.AppendJobOutcome(nil, j)))
	created := strconv.FormatInt(j.CreatedAt.UnixMilli(), 10)
	expires := strconv.FormatInt(j.ExpiresAt.UnixMilli(), 10)
	forget := strconv.FormatInt(j.ExpiresAt.Add(indexMargin).UnixMilli(), 10)
	all, with, ended := o.key(redisclient.JobsOfKey(p, account)), o.key(redisclient.JobsWithKey(p, account, j.Status)), o.key(redisclient.JobsEndedKey(p, account))
	o.step(cmdPExpireAt, record, expires)
	o.step(cmdZRem, o.key(redisclient.JobsWithKey(p, account, signal.JobRunning)), id)
	o.step(cmdZAdd, all, created, id)
	o.step(cmdZAdd, with, created, id)
	o.step(cmdZAdd, ended, expires, id)
	o.step(cmdPExpireAt, all, forget)
	o.step(cmdPExpireAt, with, forget)
	o.step(cmdPExpireAt, ended, forget)
	if !j.Entry.IsZero() {
		queue, entry := o.key(redisclient.JobQueueKey(p)), j.Entry.String()
		o.step(cmdXAck, queue, jobGroup, entry)
		o.step(cmdXDel, queue, entry)
	}
}

// dueMember returns the member for a run.
func dueMember(account signal.AccountID, run signal.RunID, agent signal.AgentID) string {
	return string(account) + " " + string(run) + " " + string(agent)
}

// endedMembers returns the members to remove when c.Ended has ended. The run's
// agent is that of its events; a change without one names every agent it may be.
func endedMembers(c *signal.Change) []string {
	for i := range c.Events {
		if e := &c.Events[i]; e.Run == c.Ended && e.Agent != "" {
			return []string{dueMember(c.Account, c.Ended, e.Agent)}
		}
	}
	var members []string
	for _, a := range signal.Agents() {
		members = append(members, dueMember(c.Account, c.Ended, a.ID))
	}
	return members
}

// addAnnouncement appends an event to the event log that only the service hears of.
func (o *operation) addAnnouncement(a signal.AccountID, t signal.EventType, w signal.WebhookID) {
	o.announce(a, t, string(w))
}

// announce is addAnnouncement for any subject.
func (o *operation) announce(a signal.AccountID, t signal.EventType, subject string) {
	e := signal.Event{ID: signal.NewEventID(), Account: a, Type: t, Subject: subject}
	o.step(cmdEvent, refEvents, codec.Text(codec.AppendEvent(make([]byte, 0, 96), &e)), "")
}

// fence refuses the operation under another epoch.
func (o *operation) fence(epoch int64) {
	o.guard(guardKeyIs, refEpoch, errOldEpoch, strconv.FormatInt(epoch, 10))
}
