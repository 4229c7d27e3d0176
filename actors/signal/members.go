package signal

import "strconv"

// The functions of this file write the JSON members that answers and events share.

// AppendMembers appends the members of s from signal_id to take_profit, without braces.
// The price levels of content are null.
func AppendMembers(b []byte, s *Signal) []byte {
	b = appendHead(b, s.ID, s.Agent, s.Asset, s.Strategy, s.Direction, s.Confidence)
	l := s.Levels
	if l == nil {
		return append(b, `,"entry_price":null,"stop_loss":null,"take_profit":null`...)
	}
	b = append(b, `,"entry_price":`...)
	b = AppendPrice(b, l.Entry)
	b = append(b, `,"stop_loss":`...)
	b = AppendPrice(b, l.Stop)
	b = append(b, `,"take_profit":`...)
	return AppendPrice(b, l.Target)
}

// AppendListed appends the members of l from signal_id to entry_price, without braces.
func AppendListed(b []byte, l *Listing) []byte {
	b = appendHead(b, l.ID, l.Agent, l.Asset, l.Strategy, l.Direction, l.Confidence)
	b = append(b, `,"entry_price":`...)
	return AppendNumber(b, l.Entry)
}

func appendHead(b []byte, id SignalID, agent AgentID, asset, strategy string, d Direction, confidence float64) []byte {
	b = append(b, `"signal_id":"`...)
	b = append(b, id...)
	b = append(b, `","agent_id":"`...)
	b = append(b, agent...)
	b = append(b, `","asset":`...)
	b = AppendText(b, asset)
	b = append(b, `,"strategy":"`...)
	b = append(b, strategy...)
	b = append(b, `","direction":"`...)
	b = append(b, d...)
	b = append(b, `","confidence":`...)
	return AppendConfidence(b, confidence)
}

// AppendResult appends the members of c from exit_price to duration_minutes, without
// braces.
func AppendResult(b []byte, c *Closing) []byte {
	b = append(b, `"exit_price":`...)
	b = AppendNumber(b, c.ExitPrice)
	b = append(b, `,"pnl_percent":`...)
	b = AppendNumber(b, c.PnLPercent)
	b = append(b, `,"pnl_absolute":`...)
	b = AppendNumber(b, c.PnLAbsolute)
	b = append(b, `,"duration_minutes":`...)
	return strconv.AppendInt(b, c.DurationMinutes, 10)
}

// AppendNumber appends a finite number, or null if v is nil.
func AppendNumber(b []byte, v *float64) []byte {
	if v == nil {
		return append(b, "null"...)
	}
	return AppendPrice(b, *v)
}
