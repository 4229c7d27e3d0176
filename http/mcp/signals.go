package mcp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// toolSignal is a signal as tools show it.
type toolSignal struct {
	ID           string    `json:"signal_id"`
	Agent        string    `json:"agent_id"`
	Asset        string    `json:"asset"`
	Strategy     string    `json:"strategy"`
	Direction    string    `json:"direction"`
	Confidence   float64   `json:"confidence" jsonschema:"now, while the signal is open; of a closed one, at its creation"`
	Initial      *float64  `json:"initial_confidence" jsonschema:"at its creation, as sample, interval and expected_r_net"`
	Measure      string    `json:"measure" jsonschema:"probability (to close in profit), checks_passed, or claimed (by an agent)"`
	Entry        *float64  `json:"entry_price"`
	Stop         *float64  `json:"stop_loss"`
	Target       *float64  `json:"take_profit"`
	Sample       *float64  `json:"sample" jsonschema:"independent entries that the past ones behind confidence are worth"`
	Interval     []float64 `json:"confidence_interval" jsonschema:"95 % interval of the probability of a profit"`
	BreakEvenNet *float64  `json:"break_even_net" jsonschema:"hit rate that pays for the costs"`
	ExpectedRNet *float64  `json:"expected_r_net" jsonschema:"result that initial_confidence implies after costs, in R"`
	Source       string    `json:"source" jsonschema:"of the prices, or the writer of a text"`
	Simulated    bool      `json:"simulated" jsonschema:"prices or forecast are simulated"`
	Compression  *float64  `json:"time_compression" jsonschema:"how many times faster than real time a simulated market runs"`
	Reasoning    string    `json:"reasoning"`
	Content      string    `json:"content,omitempty" jsonschema:"the text of a content signal"`
	Outlook      string    `json:"outlook,omitempty" jsonschema:"the weather report of an agent of the account"`
	CreatedAt    string    `json:"created_at"`
	Status       string    `json:"status" jsonschema:"open or closed"`
	ExpiresAt    *string   `json:"expires_at"`
	ClosedAt     *string   `json:"closed_at"`
	CloseReason  *string   `json:"close_reason"`
	Exit         *float64  `json:"exit_price"`
	PnLPercent   *float64  `json:"pnl_percent" jsonschema:"before costs"`
	R            *float64  `json:"r" jsonschema:"result before costs, in multiples of the distance from entry to stop"`

	sources []string
}

// UnmarshalJSON reads a signal of the API.
func (s *toolSignal) UnmarshalJSON(b []byte) error {
	type plain toolSignal
	var v struct {
		*plain
		Metadata struct {
			Measure       string    `json:"measure"`
			Sample        *float64  `json:"sample"`
			Interval      []float64 `json:"confidence_interval"`
			BreakEvenNet  *float64  `json:"break_even_net"`
			ExpectedRNet  *float64  `json:"expected_r_net"`
			Source        string    `json:"source"`
			WeatherSource string    `json:"weather_source"`
			Writer        string    `json:"writer"`
			Compression   *float64  `json:"time_compression"`
			Reasoning     string    `json:"reasoning"`
			Content       string    `json:"content"`
			Outlook       string    `json:"outlook"`
		} `json:"metadata"`
	}
	v.plain = (*plain)(s)
	if err := json.Unmarshal(b, &v); err != nil {
		return fmt.Errorf("read signal: %w", err)
	}
	m := &v.Metadata
	s.Measure, s.Sample, s.Interval, s.Compression = m.Measure, m.Sample, m.Interval, m.Compression
	s.BreakEvenNet, s.ExpectedRNet = m.BreakEvenNet, m.ExpectedRNet
	s.Reasoning, s.Content, s.Outlook = m.Reasoning, m.Content, m.Outlook
	for _, source := range []string{m.Source, m.WeatherSource, m.Writer} {
		if source != "" {
			s.sources = append(s.sources, source)
		}
	}
	s.Source, s.Simulated = strings.Join(s.sources, " and "), slices.Contains(s.sources, simulatedSource)
	if s.Status == "" { // the answer of a run
		s.Status, s.Initial = "open", new(s.Confidence)
	}
	return nil
}

// text is the signal in some lines.
func (s *toolSignal) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s %s by %s/%s, %s, made %s.", s.ID, s.Direction, s.Asset, s.Agent, s.Strategy, s.Status,
		s.CreatedAt)
	switch s.Measure {
	case "checks_passed":
		fmt.Fprintf(&b, " %.1f %% of its checks passed (no probability).", 100*s.Confidence)
	case "claimed":
		fmt.Fprintf(&b, " Its agent gives %.1f %% (not measured).", 100*s.Confidence)
	default:
		b.WriteString(" Confidence ")
		first := s.Confidence
		if s.Initial != nil && *s.Initial != first {
			first = *s.Initial
			fmt.Fprintf(&b, "now %.1f %%; at its creation ", 100*s.Confidence)
		}
		fmt.Fprintf(&b, "%.1f %%", 100*first)
		if len(s.Interval) == 2 {
			fmt.Fprintf(&b, ", 95 %% interval %.1f to %.1f %%", 100*s.Interval[0], 100*s.Interval[1])
		}
		if s.Sample != nil {
			fmt.Fprintf(&b, ", from %.1f past entries", *s.Sample)
		}
		if s.BreakEvenNet != nil {
			fmt.Fprintf(&b, ", break-even after costs %.1f %%", 100**s.BreakEvenNet)
		}
		b.WriteByte('.')
	}
	if s.Entry != nil && s.Stop != nil && s.Target != nil {
		fmt.Fprintf(&b, " Entry %s, stop %s, target %s.", signal.AppendPrice(nil, *s.Entry),
			signal.AppendPrice(nil, *s.Stop), signal.AppendPrice(nil, *s.Target))
	}
	if s.CloseReason != nil {
		fmt.Fprintf(&b, " Closed by %s", *s.CloseReason)
		if s.R != nil && s.PnLPercent != nil {
			fmt.Fprintf(&b, ": %+.2f R, %+.2f %% before costs", *s.R, *s.PnLPercent)
		}
		b.WriteByte('.')
	}
	fmt.Fprintf(&b, " Source: %s", cmp.Or(s.Source, "the agent"))
	if s.Simulated {
		b.WriteString(", SIMULATED")
	}
	return b.String() + "."
}
