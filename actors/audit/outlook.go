package audit

import (
	"encoding/json"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// outlook is what a weather signal says of the forecast, and whose it is.
type outlook struct {
	text string
	of   signal.SignalID
}

// outlooks holds the first outlook of each input, by its hash.
type outlooks map[string]outlook

// check compares the outlook of a weather signal with that of an earlier one of the same
// input. Inputs are not kept for as long as signals, so that outlooks cannot be made again.
func (o outlooks) check(s *signal.Signal, r *Report) []backtest.Difference {
	var m struct {
		Input    string          `json:"input_hash"`
		Values   json.RawMessage `json:"values"`
		Strength json.RawMessage `json:"strength"`
	}
	if json.Unmarshal(s.Metadata, &m) != nil || m.Input == "" {
		return nil
	}
	text := string(s.Direction) + ", strength " + string(m.Strength) + ", " + string(m.Values)
	first, seen := o[m.Input]
	if !seen {
		o[m.Input] = outlook{text, s.ID}
		return nil
	}
	r.Outlooks++
	if first.text == text {
		return nil
	}
	return []backtest.Difference{{Member: "outlook", Stored: text,
		Now: first.text + " in " + string(first.of) + ", of the same input"}}
}
