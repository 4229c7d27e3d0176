package deliveries

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
)

// What the later events of a signal wait for at a webhook: a hash by the signal.
const (
	waitVersion = 1
	waitBytes   = 1 + 2*16 + 3*timeBytes
	// waitsTime is how long the waits of a webhook are kept after the last change. They
	// matter for webhooks.order_wait.
	waitsTime = 48 * time.Hour
	// waitsChunk is how many one step changes.
	waitsChunk = 1000
)

// appendWait appends the record of w: all except its signal.
func appendWait(b []byte, w *delivery.Wait) []byte {
	b = append(b, waitVersion)
	for _, id := range []signal.DeliveryID{w.Head, w.Last} {
		raw, _ := signal.ULIDBytes(string(id)) // zeros without one
		b = append(b, raw[:]...)
	}
	for _, t := range []time.Time{w.HeadAt, w.Due, w.LastAt} {
		b = appendTime(b, codec.MilliOf(t))
	}
	return b
}

// decodeWait is the inverse of appendWait.
func decodeWait(id signal.SignalID, b []byte) (delivery.Wait, error) {
	d := codec.DecodeVersion(b, waitVersion)
	if d.Err == nil && len(b) != waitBytes {
		d.Fail(codec.ErrShort)
	}
	if d.Err != nil {
		return delivery.Wait{}, fmt.Errorf("decode wait: %w", d.Err)
	}
	deliveryID := func() signal.DeliveryID {
		raw := [16]byte(d.Take(16))
		if raw == [16]byte{} {
			return ""
		}
		return signal.DeliveryID(codec.ULIDText("dlv_", raw))
	}
	next := func() time.Time { return timeOfBytes(d.Take(timeBytes)) }
	w := delivery.Wait{Signal: id, Head: deliveryID(), Last: deliveryID()}
	w.HeadAt, w.Due, w.LastAt = next(), next(), next()
	return w, nil
}

// addWaits replaces waits of a webhook, and removes those that hold up no event.
func addWaits(o *eventlog.Operation, p int, webhook signal.WebhookID, list []delivery.Wait) {
	if len(list) == 0 {
		return
	}
	var set, removed []string
	for i := range list {
		if w := &list[i]; w.Head == "" && w.Last == "" {
			removed = append(removed, string(w.Signal))
		} else {
			set = append(set, string(w.Signal), codec.Text(appendWait(make([]byte, 0, waitBytes), w)))
		}
	}
	k := o.Key(o.WaitsKey(p, webhook))
	for c := range slices.Chunk(removed, waitsChunk) {
		o.Step(eventlog.CmdHDel, k, c...)
	}
	for c := range slices.Chunk(set, 2*waitsChunk) {
		o.Step(eventlog.CmdHSet, k, c...)
	}
	if len(set) > 0 {
		o.Step(eventlog.CmdExpire, k, strconv.Itoa(int(waitsTime/time.Second)))
	}
}
