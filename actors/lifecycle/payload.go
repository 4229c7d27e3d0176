package lifecycle

import (
	"strconv"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// appendClosed adds the payload of signal.closed.
func appendClosed(b []byte, s *signal.Signal) []byte {
	c := s.Closing
	b = append(b, `{"signal_id":"`...)
	b = append(b, s.ID...)
	b = append(b, `","asset":`...)
	b = signal.AppendText(b, s.Asset)
	b = append(b, `,"close_reason":"`...)
	b = append(b, c.Reason...)
	b = append(b, `","entry_price":`...)
	var entry *float64
	if s.Levels != nil {
		entry = &s.Levels.Entry
	}
	b = appendNumber(b, entry)
	b = append(b, `,"exit_price":`...)
	b = appendNumber(b, c.ExitPrice)
	b = append(b, `,"pnl_percent":`...)
	b = appendNumber(b, c.PnLPercent)
	b = append(b, `,"pnl_absolute":`...)
	b = appendNumber(b, c.PnLAbsolute)
	b = append(b, `,"duration_minutes":`...)
	b = strconv.AppendInt(b, c.DurationMinutes, 10)
	return append(b, '}')
}

// appendUpdated adds the payload of signal.updated, of a signal whose confidence was
// another one before.
func appendUpdated(b []byte, s *signal.Signal, before float64) []byte {
	b = append(b, `{"signal_id":"`...)
	b = append(b, s.ID...)
	b = append(b, `","agent_id":"`...)
	b = append(b, s.Agent...)
	b = append(b, `","asset":`...)
	b = signal.AppendText(b, s.Asset)
	b = append(b, `,"strategy":"`...)
	b = append(b, s.Strategy...)
	b = append(b, `","direction":"`...)
	b = append(b, s.Direction...)
	b = append(b, `","confidence":`...)
	b = signal.AppendConfidence(b, s.Confidence)
	b = append(b, `,"entry_price":`...)
	b = signal.AppendPrice(b, s.Levels.Entry)
	b = append(b, `,"stop_loss":`...)
	b = signal.AppendPrice(b, s.Levels.Stop)
	b = append(b, `,"take_profit":`...)
	b = signal.AppendPrice(b, s.Levels.Target)
	b = append(b, `,"status":"open","updated_at":`...)
	b = signal.AppendTime(b, s.UpdatedAt)
	b = append(b, `,"previous":{"confidence":`...)
	b = signal.AppendConfidence(b, before)
	return append(b, `}}`...)
}

// appendNumber adds a number, or null without one.
func appendNumber(b []byte, v *float64) []byte {
	if v == nil {
		return append(b, `null`...)
	}
	return signal.AppendPrice(b, *v)
}
