package service

import (
	"context"
	"encoding/json"

	"github.com/agentsignal/agentsignal/actors/audit"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
)

// updates reads the updates of signals in the event log.
type updates struct{ log *eventlog.Store }

// EachUpdate implements audit.Updates.
func (u updates) EachUpdate(ctx context.Context, p int, f func(audit.Update)) error {
	const page = 1000
	var after signal.Position
	for {
		events, err := u.log.ReadLog(ctx, p, after, page)
		if err != nil || len(events) == 0 {
			return err
		}
		for i := range events {
			e := &events[i]
			var data struct {
				ID         signal.SignalID `json:"signal_id"`
				Confidence float64         `json:"confidence"`
			}
			if e.Type == signal.SignalUpdated && json.Unmarshal(e.Data, &data) == nil {
				f(audit.Update{ID: data.ID, Confidence: data.Confidence, At: e.Position.Time()})
			}
		}
		after = events[len(events)-1].Position
	}
}
