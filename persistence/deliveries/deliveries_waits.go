package deliveries

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

// What the later events of a signal wait for at a webhook: a hash by the signal.
const (
	waitVersion = 1
	waitBytes   = 1 + 2*16 + 3*timeBytes
	// waitsTime is how long the waits of a webhook are kept after the last change: they
	// are of use for webhooks.order_wait.
	waitsTime = 48 * time.Hour
	// waitsChunk is how many one step changes.
	waitsChunk = 1000
)

// appendWait adds the record of w: all but its signal.
func appendWait(b []byte, w *delivery.Wait) []byte {
	b = append(b, waitVersion)
	for _, id := range []signal.DeliveryID{w.Head, w.Last} {
		raw, _ := signal.ULIDBytes(string(id)) // zeroes for none
		b = append(b, raw[:]...)
	}
	for _, t := range []time.Time{w.HeadAt, w.Due, w.LastAt} {
		b = appendTime(b, codec.MilliOf(t))
	}
	return b
}

// decodeWait is the inverse of appendWait.
func decodeWait(id signal.SignalID, b []byte) (delivery.Wait, error) {
	switch {
	case len(b) > 0 && b[0] != waitVersion:
		return delivery.Wait{}, fmt.Errorf("decode wait: version %d is not known: this process reads version %d", b[0], waitVersion)
	case len(b) != waitBytes:
		return delivery.Wait{}, fmt.Errorf("decode wait: %w", codec.ErrShort)
	}
	deliveryID := func(raw [16]byte) signal.DeliveryID {
		if raw == [16]byte{} {
			return ""
		}
		return signal.DeliveryID(codec.ULIDText("dlv_", raw))
	}
	times := b[1+2*16:]
	return delivery.Wait{Signal: id, Head: deliveryID([16]byte(b[1:17])), Last: deliveryID([16]byte(b[17:33])),
		HeadAt: timeOfBytes(times[:timeBytes]), Due: timeOfBytes(times[timeBytes : 2*timeBytes]), LastAt: timeOfBytes(times[2*timeBytes:])}, nil
}

// addWaits replaces waits of a webhook, or removes those that hold up no event.
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
	k := o.Key(redisclient.WaitsKey(p, webhook))
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

// SignalWaits returns what the later events of signals wait for at a webhook. A record
// that cannot be read is logged and left out.
func (h *Store) SignalWaits(ctx context.Context, p int, webhook signal.WebhookID) ([]delivery.Wait, error) {
	found, err := h.store.RDB.HGetAll(ctx, redisclient.WaitsKey(p, webhook)).Result()
	if err != nil {
		return nil, redisclient.Unavailable(fmt.Errorf("read waits of webhook %s: %w", webhook, err))
	}
	var list []delivery.Wait
	for id, record := range found {
		w, err := decodeWait(signal.SignalID(id), []byte(record))
		if err != nil {
			h.store.Log.Error("what a signal waits for is not readable", "component", "persistence", "partition", p, "webhook", string(webhook), "err", err)
			continue
		}
		list = append(list, w)
	}
	return list, nil
}
