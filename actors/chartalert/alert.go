// Package chartalert reads the alerts that chart programs send: the body of POST
// /v1/intake/{token}. Parse turns bytes into an Alert, which has exactly one meaning, or into an
// error that says what to change. The package is pure, and knows neither assets nor open signals:
// the caller resolves the symbol and the strategy, and recognizes a reversal.
//
// A body is one of:
//
//   - a JSON object;
//   - lines "name: value" or "name=value", also separated by semicolons or commas, but for a comma
//     between two digits;
//   - words and pairs on one line, such as "long BTCUSD sl=1.5% tp=3%".
//
// Names are compared without case, spaces, hyphens, underscores and dots. The objects strategy,
// strategy.order, strategy_info and bar, in which relays group values, are read like the object
// around them. What cannot be understood without a guess is refused: pips, several targets, a part
// of a position, the commands of other programs.
package chartalert

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/jsonobject"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Action is what an alert asks for.
type Action string

// The actions.
const (
	OpenLong   Action = "open_long"
	OpenShort  Action = "open_short"
	Close      Action = "close" // the open signals of both directions
	CloseLong  Action = "close_long"
	CloseShort Action = "close_short"
)

// Position is the position of a chart's strategy, or empty if the alert has none.
type Position string

// The positions.
const (
	Long  Position = "long"
	Short Position = "short"
	Flat  Position = "flat"
)

// Alert is an alert that was understood. Members that the alert does not give are zero. All texts
// are without control characters.
type Alert struct {
	// Asset is the asset as written, of 1 to 64 characters, and Symbol what Symbol makes of it. A
	// name of an asset may have what Symbol removes, so the caller looks for Asset first.
	Asset, Symbol string
	// Action is what to do. It follows from Position if that is given: then nothing is opened if a
	// signal of the strategy, the asset and the direction is open.
	Action   Action
	Position Position
	Previous Position // before the order, if the chart has sent it: for information
	Strategy string   // as written, to 100 characters; empty for the agent's first

	Stop, Target signal.Level
	Price        float64 // that the sender saw, finite and above 0

	// Interval is the length of the chart's bars as written, Bar the same as a duration, and
	// Timeframe the longest timeframe of the service that is not longer, or else the shortest.
	Interval  string
	Bar       time.Duration
	Timeframe signal.Timeframe

	Reference  string   // the sender's identifier of this decision, to 100 characters
	Confidence *float64 // 0 to 1

	// Parameters holds the values of unknown names: a JSON object of at most MaxParameters bytes
	// with sorted members and without white space, or nil.
	Parameters json.RawMessage
	Dropped    []string // names of values that are credentials of other services, which are not kept
}

// String returns what was understood in words: "open long BTCUSD, stop 1.5%, target 2R; kept:
// comment; dropped: secret".
func (a *Alert) String() string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(string(a.Action), "_", " ") + " " + a.Symbol)
	add := func(name, value string) {
		if value != "" {
			b.WriteString(", " + name + " " + value)
		}
	}
	add("by position", string(a.Position))
	add("strategy", a.Strategy)
	if a.Stop.Value > 0 {
		add("stop", a.Stop.String())
	}
	if a.Target.Value > 0 {
		add("target", a.Target.String())
	}
	if a.Price > 0 {
		add("price", string(signal.AppendPrice(nil, a.Price)))
	}
	if add("interval", a.Interval); a.Bar != a.Timeframe.Duration() {
		fmt.Fprintf(&b, " (re-scored on %s)", a.Timeframe)
	}
	add("reference", a.Reference)
	if a.Confidence != nil {
		add("confidence", string(signal.AppendPrice(nil, *a.Confidence)))
	}
	var kept []string
	if a.Parameters != nil {
		for name := range jsonobject.Members(a.Parameters) {
			kept = append(kept, string(name))
		}
	}
	for i, names := range [][]string{kept, slices.Sorted(slices.Values(a.Dropped))} {
		if len(names) > 0 {
			b.WriteString([]string{"; kept: ", "; dropped: "}[i] + strings.Join(names, ", "))
		}
	}
	return b.String()
}

// Template returns the message to paste into an alert of a strategy in TradingView: a JSON object
// with its placeholders. The signals are of the first of strategies, or of the agent's first
// strategy without them.
func Template(strategies []string) string {
	b := []byte("{\n")
	if len(strategies) > 0 {
		b = append(signal.AppendText(append(b, `  "strategy": `...), strategies[0]), ",\n"...)
	}
	return string(b) + `  "asset": "{{exchange}}:{{ticker}}",
  "position": "{{strategy.market_position}}",
  "price": "{{close}}",
  "interval": "{{interval}}",
  "order_id": "{{strategy.order.id}}"
}`
}
