package http

import (
	"net/http"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// signalHistory is the answer to GET /v1/signals/{id}/history.
type signalHistory struct {
	Events []historyEvent `json:"events"`
}

// historyEvent is an event of a signal and what it published.
type historyEvent struct {
	Type       string  `json:"type"`
	At         instant `json:"at"`
	Confidence number  `json:"confidence"`
	Price      *number `json:"price"`
}

// historyOf answers GET /v1/signals/{id}/history.
func (s *Server) historyOf(c *call) error {
	found, err := s.findSignal(c)
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, signalHistory{viewHistory(found)})
}

// viewHistory returns the events of s, oldest first.
func viewHistory(s *signal.Signal) []historyEvent {
	var entry *number
	if s.Levels != nil {
		entry = new(number(s.Levels.Entry))
	}
	events := []historyEvent{{"created", instant(s.CreatedAt), shownConfidence(s.FirstConfidence), entry}}
	for _, u := range s.Updates {
		var price *number
		if u.Price != 0 {
			price = new(number(u.Price))
		}
		events = append(events, historyEvent{"updated", instant(u.At), shownConfidence(u.Confidence), price})
	}
	if len(s.Updates) == 0 && s.Sequence > 1 && s.Closing == nil {
		// An older version made the updates, and has stored the last one without its price.
		events = append(events, historyEvent{"updated", instant(s.UpdatedAt), shownConfidence(s.Confidence), nil})
	}
	if c := s.Closing; c != nil {
		var exit *number
		if c.ExitPrice != nil {
			exit = new(number(*c.ExitPrice))
		}
		events = append(events, historyEvent{"closed", instant(c.At), shownConfidence(s.Confidence), exit})
	}
	return events
}

func shownConfidence(v float64) number { return number(signal.RoundConfidence(v)) }
