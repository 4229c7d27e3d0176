package lifecycle

import "github.com/agentsignal/agentsignal/actors/signal"

// appendClosed appends the payload of signal.closed.
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
	b = signal.AppendNumber(b, entry)
	b = append(b, ',')
	return append(signal.AppendResult(b, c), '}')
}

// appendUpdated appends the payload of signal.updated; before is the previous confidence.
func appendUpdated(b []byte, s *signal.Signal, before float64) []byte {
	b = signal.AppendMembers(append(b, '{'), s)
	b = append(b, `,"status":"open","updated_at":`...)
	b = signal.AppendTime(b, s.UpdatedAt)
	b = append(b, `,"previous":{"confidence":`...)
	b = signal.AppendConfidence(b, before)
	return append(b, `}}`...)
}
