package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// simulatedSource is the name of the sources of simulated prices and forecasts.
const simulatedSource = "simulated"

// evidenceSignals is the number of signals from which the sources of evidence are taken.
const evidenceSignals = 25

// noEvidence is the evidence of an error.
const noEvidence = "Evidence: none, since the request failed: no sample, no interval, no source, neither simulated nor real."

// evidence is what an answer rests on.
type evidence struct {
	Of string `json:"of" jsonschema:"the signals of the account that are counted here"`

	ClosedSignals *int     `json:"closed_signals" jsonschema:"how many of them have closed; null if unknown, see note"`
	HitRate       *float64 `json:"hit_rate" jsonschema:"share that closed in profit before costs"`
	HitRateLow    *float64 `json:"hit_rate_low" jsonschema:"lower end of the 95 % interval of the hit rate (Wilson)"`
	HitRateHigh   *float64 `json:"hit_rate_high" jsonschema:"upper end of that interval"`
	BreakEvenNet  *float64 `json:"break_even_net" jsonschema:"hit rate at which they gain nothing after costs"`
	Sources       []string `json:"sources" jsonschema:"sources of prices and forecasts of the newest of them"`
	Simulated     *bool    `json:"simulated" jsonschema:"whether any of the sources is simulated; null without sources"`
	Note          string   `json:"note,omitempty" jsonschema:"why something is missing here"`
}

// add adds sources.
func (e *evidence) add(sources ...string) {
	for _, source := range sources {
		if source != "" && !slices.Contains(e.Sources, source) {
			e.Sources = append(e.Sources, source)
		}
	}
	if len(e.Sources) > 0 {
		e.Simulated = new(slices.Contains(e.Sources, simulatedSource))
	}
}

// text is the evidence in a sentence.
func (e *evidence) text() string {
	var b strings.Builder
	b.WriteString("Evidence: ")
	switch {
	case e.ClosedSignals == nil:
		b.WriteString("the number of closed signals is not known, nor the interval of their hit rate")
	case e.HitRate == nil || e.HitRateLow == nil || e.HitRateHigh == nil || e.BreakEvenNet == nil:
		fmt.Fprintf(&b, "%d closed signals (%s), so no hit rate and no interval", *e.ClosedSignals, e.Of)
	default:
		fmt.Fprintf(&b, "%d closed signals (%s), hit rate %.1f %%, 95 %% interval %.1f to %.1f %%, "+
			"break-even after costs %.1f %%", *e.ClosedSignals, e.Of,
			100**e.HitRate, 100**e.HitRateLow, 100**e.HitRateHigh, 100**e.BreakEvenNet)
	}
	switch {
	case e.Simulated == nil:
		b.WriteString("; source: none, neither simulated nor real prices")
	case *e.Simulated:
		fmt.Fprintf(&b, "; source: %s: SIMULATED, not real prices", strings.Join(e.Sources, ", "))
	default:
		fmt.Fprintf(&b, "; source: %s, not simulated", strings.Join(e.Sources, ", "))
	}
	if e.Note != "" {
		b.WriteString("; " + e.Note)
	}
	return b.String()
}

// evidenceFor returns the evidence of the account for a selection. What cannot be read is named in its
// note: the answer itself is there.
func (t *tools) evidenceFor(ctx context.Context, of selection) evidence {
	var card cardView
	_, err := t.client.ask(ctx, http.MethodGet, "/v1/scorecard?"+of.values().Encode(), nil, nil, &card)
	return t.evidenceOf(ctx, of, &card, err)
}

// evidenceOf is evidenceFor for a scorecard that was read, or could not be.
func (t *tools) evidenceOf(ctx context.Context, of selection, card *cardView, err error) evidence {
	e := evidence{Sources: []string{}, Of: "this account"}
	if card.View != nil {
		e.Of = "this account that the key sees"
	}
	parts := slices.DeleteFunc([]string{of.Agent, of.Strategy, of.Asset}, func(p string) bool { return p == "" })
	if len(parts) == 0 {
		e.Of = "all of " + e.Of
	} else {
		e.Of = "of " + e.Of + ": " + strings.Join(parts, ", ")
	}
	if err == nil {
		statistics := &card.Statistics
		e.ClosedSignals, e.HitRate = &statistics.Count, statistics.HitRate
		e.HitRateLow, e.HitRateHigh = statistics.Interval.Low, statistics.Interval.High
		e.BreakEvenNet = statistics.BreakEvenNet
		var list signalPage
		v := of.values()
		v.Set("view", "full")
		v.Set("limit", strconv.Itoa(evidenceSignals))
		if _, err = t.client.ask(ctx, http.MethodGet, "/v1/signals?"+v.Encode(), nil, nil, &list); err == nil {
			for i := range list.Signals {
				e.add(list.Signals[i].sources...)
			}
		}
	}
	if err != nil {
		e.Note = "the account's closed signals could not be read"
		if refused, ok := errors.AsType[*toolError](err); ok {
			e.Note += ": " + refused.problem.Detail
		}
	}
	return e
}
