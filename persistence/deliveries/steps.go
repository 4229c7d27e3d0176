package deliveries

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
)

// memberBytes is the length of a delivery's member in the sorted sets: its ULID and a byte for
// the type of its event, so that lists can be filtered without the records.
const memberBytes = 17

// deliveryMember returns the member for a delivery.
func deliveryMember(id signal.DeliveryID, t signal.EventType) (string, error) {
	raw, ok := signal.ULIDBytes(string(id))
	code := codec.CodeOfEvent[t]
	if !ok || code == 0 {
		return "", fmt.Errorf("delivery %q of %q cannot be stored", id, t)
	}
	b := make([]byte, 0, memberBytes)
	return codec.Text(append(append(b, raw[:]...), code)), nil
}

// deliveryOf returns the identifier in a member, or in a field of the records.
func deliveryOf(member string) signal.DeliveryID {
	if len(member) < 16 {
		return ""
	}
	return signal.DeliveryID(codec.ULIDText("dlv_", [16]byte([]byte(member[:16]))))
}

// deliveryField returns the field of a delivery among the records, or "" for a name that no
// delivery has.
func deliveryField(id signal.DeliveryID) string {
	raw, ok := signal.ULIDBytes(string(id))
	if !ok {
		return ""
	}
	return string(raw[:])
}

// recordFields returns the fields of members among the records.
func recordFields(members []string) []string {
	fields := make([]string, len(members))
	for i, m := range members {
		fields[i] = m[:min(len(m), 16)]
	}
	return fields
}

// newDeliveries collects the deliveries of one webhook that an operation makes.
type newDeliveries struct {
	hook
	args []string
}

// addDeliveries makes pending deliveries in partition p with their bodies. Those that are
// stored already stay as they are, those of a removed webhook are not made.
func addDeliveries(o *eventlog.Operation, p int, batch []delivery.EventDeliveries) {
	of := map[signal.WebhookID]*newDeliveries{}
	var order []*newDeliveries
	keys := make([]string, len(batch))
	for i := range batch {
		key, err := bodyKey(batch[i].Event, batch[i].Body)
		if err != nil {
			o.Invalid = err
			return
		}
		keys[i] = key
		o.Deliveries += len(batch[i].Deliveries)
		for j := range batch[i].Deliveries {
			d := &batch[i].Deliveries[j]
			m := of[d.Webhook]
			if m == nil {
				m = &newDeliveries{hook{o.Keys, p, d.Account, d.Webhook}, make([]string, 2, 2+4*len(batch))}
				m.args[0], m.args[1] = string(d.Webhook), m.member()
				of[d.Webhook] = m
				order = append(order, m)
			}
			if o.Invalid = m.add(d, key); o.Invalid != nil {
				return
			}
		}
	}
	for _, m := range order {
		k := o.Key(m.webhooks())
		o.Key(m.pending())
		o.Key(m.records())
		o.Key(m.all())
		o.Step(eventlog.CmdDeliver, k, m.args...)
	}
	k := bodyKeys(o, p)
	for i := range batch {
		if len(batch[i].Deliveries) > 0 {
			o.Step(eventlog.CmdBody, k, keys[i], codec.Text(batch[i].Body))
		}
	}
}

// bodyKeys adds the keys of the step that stores a body, and returns the first.
func bodyKeys(o *eventlog.Operation, p int) eventlog.KeyRef {
	k := o.Key(o.BodiesKey(p))
	o.Key(o.BodyRefsKey(p))
	return k
}

func (m *newDeliveries) add(d *delivery.Delivery, body string) error {
	member, err := deliveryMember(d.ID, d.Type)
	if err != nil {
		return err
	}
	if d.NextAttemptAt.IsZero() {
		due := *d
		due.NextAttemptAt = d.CreatedAt
		d = &due
	}
	created := codec.MilliText(d.CreatedAt)
	due := created
	if !d.NextAttemptAt.Equal(d.CreatedAt) {
		due = codec.DueText(d.NextAttemptAt)
	}
	record := appendDelivery(make([]byte, 0, deliveryFront+8), d, body)
	m.args = append(m.args, member, due, created, codec.Text(record))
	return nil
}

// addOutcomes stores states after attempts. Those of deliveries that are no longer pending, or
// are due at another time by now, are left out. Those with a body are made if they are not
// stored yet.
func addOutcomes(o *eventlog.Operation, p int, out *delivery.Outcomes) {
	if len(out.Deliveries) == 0 {
		return
	}
	w := hook{o.Keys, p, out.Account, out.Webhook}
	o.Deliveries += len(out.Deliveries)
	if addSucceeded(o, w, out) {
		return
	}
	args := append(make([]string, 0, 1+6*len(out.Deliveries)), w.member())
	bodies := map[string][]byte{}
	for i := range out.Deliveries {
		d := &out.Deliveries[i]
		member, err := deliveryMember(d.ID, d.Type)
		if err != nil {
			o.Invalid = err
			return
		}
		was := ""
		if !d.WasDueAt.IsZero() {
			was = codec.Text(appendTime(make([]byte, 0, timeBytes), codec.DueMilli(d.WasDueAt)))
		}
		to, score := "0", codec.DueText(d.NextAttemptAt)
		switch d.Status {
		case delivery.Pending:
		case delivery.Succeeded:
			to, score = "2", codec.MilliText(d.CreatedAt)
		case delivery.Failed:
			to, score = "3", codec.MilliText(d.CreatedAt)
		}
		created, key := "", ""
		if i < len(out.Bodies) && out.Bodies[i] != nil {
			if key, o.Invalid = bodyKey(d.Event, out.Bodies[i]); o.Invalid != nil {
				return
			}
			created, bodies[key] = codec.MilliText(d.CreatedAt), out.Bodies[i]
		}
		record := appendDelivery(make([]byte, 0, recordSize(d)), d, key)
		args = append(args, member, was, created, to, score, codec.Text(record))
	}
	o.Step(eventlog.CmdOutcome, w.stateKeys(o), args...)
	if len(bodies) == 0 {
		return
	}
	k := bodyKeys(o, p)
	for key, body := range bodies {
		o.Step(eventlog.CmdBody, k, key, codec.Text(body))
	}
}

// addSucceeded stores outcomes if all of them are first attempts that succeeded, in fewer and simpler
// arguments than others need. It reports whether it has, or has found a fault.
func addSucceeded(o *eventlog.Operation, w hook, out *delivery.Outcomes) bool {
	n := len(out.Deliveries)
	for i := range out.Deliveries {
		if out.Deliveries[i].Status != delivery.Succeeded || i >= len(out.Bodies) || out.Bodies[i] == nil {
			return false
		}
	}
	args, was := make([]string, 2+5*n), make([]byte, 0, timeBytes*n)
	created, records, bodies := args[2:2+2*n], args[2+2*n:2+4*n], args[2+4*n:]
	for i := range out.Deliveries {
		d := &out.Deliveries[i]
		member, err := deliveryMember(d.ID, d.Type)
		key, err2 := bodyKey(d.Event, out.Bodies[i])
		if o.Invalid = errors.Join(err, err2); o.Invalid != nil {
			return true
		}
		was = appendTime(was, codec.DueMilli(d.WasDueAt))
		created[2*i], created[2*i+1] = codec.MilliText(d.CreatedAt), member
		records[2*i], records[2*i+1] = member[:memberBytes-1], codec.Text(appendDelivery(make([]byte, 0, recordSize(d)), d, key))
		bodies[i] = codec.Text(out.Bodies[i])
	}
	args[0], args[1] = w.member(), codec.Text(was)
	k := w.stateKeys(o)
	bodyKeys(o, w.p)
	o.Step(eventlog.CmdSucceeded, k, args...)
	return true
}

// recordSize returns about how long the record of d is.
func recordSize(d *delivery.Delivery) int {
	size := deliveryFront + 16
	if n := len(d.Attempts); n > 0 {
		size += n * (16 + len(d.Attempts[n-1].ResponseBody))
	}
	return min(size, 4096)
}

// shift is a manual change of deliveries from one state to another.
type shift struct {
	from, to byte // statePending, stateSucceeded or stateFailed
	at       time.Time
}

var (
	retryFailed    = shift{from: stateFailed, to: statePending}
	retrySucceeded = shift{from: stateSucceeded, to: statePending}
	cancelPending  = shift{from: statePending, to: stateFailed}
)

// addShift changes deliveries at c.at. Those that are not in the state c.from are left out.
func addShift(o *eventlog.Operation, w hook, c shift, members []string) {
	o.Deliveries += len(members)
	at := codec.MilliOf(c.at)
	var patch []byte
	if c.to == statePending {
		patch = append(appendTime(appendTime(nil, 0), at), statePending|singleBit)
	} else {
		code, status := errorCode(delivery.Cancelled)
		patch = append(appendTime(appendTime(nil, at), 0), c.to, code, byte(status>>8), byte(status))
	}
	args := []string{w.member(), string('0' + c.from), string('0' + c.to), strconv.FormatInt(at, 10), string(patch)}
	o.Step(eventlog.CmdShift, w.stateKeys(o), append(args, members...)...)
}
