package recordpage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/publicrecord"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

// recordJSON is a public record for programs.
type recordJSON struct {
	Slug    string           `json:"slug"`
	Title   string           `json:"title"`
	Account signal.AccountID `json:"account_id"`
	AsOf    *instant         `json:"as_of"` // null before the first checkpoint

	Totals     totalsJSON          `json:"totals"`
	Kept       keptJSON            `json:"kept"`
	NoLonger   int64               `json:"no_longer_kept"` // closed signals
	Statistics backtest.Statistics `json:"statistics"`
	Committed  int                 `json:"committed"`
	Curve      []pointJSON         `json:"curve"`
	Agents     []agentJSON         `json:"agents"`
	Others     *othersJSON         `json:"others"`
	Months     []monthJSON         `json:"months"`
	Closed     []signalJSON        `json:"closed_signals"`
	Open       []signalJSON        `json:"open_signals"`
	Proof      proofJSON           `json:"proof"`
}

type totalsJSON struct {
	Created int64 `json:"created"`
	Closed  int64 `json:"closed"`
	// Proved: the newest leaf has them.
	Proved bool `json:"proved"`
}

type keptJSON struct {
	Since   instant `json:"since"`
	Created int     `json:"created"`
	Closed  int     `json:"closed"`
}

type pointJSON struct {
	At   instant         `json:"at"`
	R    backtest.Figure `json:"r"`
	RNet backtest.Figure `json:"r_net"`
}

type agentJSON struct {
	ID      signal.AgentID `json:"agent_id"`
	Name    string         `json:"name"` // empty of a removed one
	Removed bool           `json:"removed"`
	countJSON
}

type othersJSON struct {
	Agents int `json:"agents"`
	countJSON
}

type countJSON struct {
	Open       int                 `json:"open"`
	Closed     int                 `json:"closed"`
	Statistics backtest.Statistics `json:"statistics"`
}

// monthJSON is a month with its leaf, which has the same sums.
type monthJSON struct {
	Month  string            `json:"month"`
	Agents []verify.AgentSum `json:"agents"`
	Leaf   *verify.Leaf      `json:"leaf"`
}

// signalJSON is a signal with its leaves. Signal has only what these have recorded, or what follows from that.
type signalJSON struct {
	Signal    provedJSON       `json:"signal"`
	RNet      *backtest.Figure `json:"r_net"`
	Reasoning string           `json:"reasoning"`
	Created   *verify.Leaf     `json:"created"`
	Closed    *verify.Leaf     `json:"closed"`
}

// provedJSON has members of GET /v1/signals/{id} under the same names.
type provedJSON struct {
	ID         signal.SignalID  `json:"signal_id"`
	Agent      signal.AgentID   `json:"agent_id"`
	Asset      string           `json:"asset"`
	Strategy   string           `json:"strategy"`
	Timeframe  signal.Timeframe `json:"timeframe"`
	Risk       signal.RiskLevel `json:"risk_level"`
	Direction  signal.Direction `json:"direction"`
	Confidence number           `json:"initial_confidence"`
	Entry      *number          `json:"entry_price"`
	Stop       *number          `json:"stop_loss"`
	Target     *number          `json:"take_profit"`
	CreatedAt  instant          `json:"created_at"`
	ExpiresAt  instant          `json:"expires_at"`
	*closedJSON
}

type closedJSON struct {
	ClosedAt        instant            `json:"closed_at"`
	Reason          signal.CloseReason `json:"close_reason"`
	Exit            *number            `json:"exit_price"`
	FinalConfidence number             `json:"final_confidence"`
	R               *number            `json:"r"`
	Minutes         int64              `json:"duration_minutes"`
}

// proofJSON is what the leaves are checked with.
type proofJSON struct {
	Checkpoint string        `json:"checkpoint"` // the signed note; empty without one
	Heads      *verify.Entry `json:"heads"`
	Newest     *verify.Leaf  `json:"newest"` // of the account, which counts its signals
	Keys       []string      `json:"keys"`
	NotProved  []string      `json:"not_proved"`
}

// encode returns the JSON of a record.
func encode(r *publicrecord.Record, p credential.Publication, keys []string, notProved []string) ([]byte, error) {
	v := recordJSON{Slug: p.Slug, Title: p.Title, Account: r.Account, NoLonger: r.NoLongerKept(), Statistics: r.All,
		Committed: r.Committed,
		Totals:    totalsJSON{r.Totals.Created, r.Totals.Closed, r.Newest != nil},
		Kept:      keptJSON{instant(r.Since), r.Created, r.Kept}, Curve: []pointJSON{}, Agents: []agentJSON{},
		Months: []monthJSON{},
		Closed: viewProved(r.Closed), Open: viewProved(r.Open),
		Proof: proofJSON{Checkpoint: string(r.Note), Newest: r.Newest, Keys: keys, NotProved: notProved}}
	if c := r.Checkpoint; c != nil {
		v.AsOf, v.Proof.Heads = new(instant(c.At)), &c.Entry
	}
	for _, at := range r.Curve {
		v.Curve = append(v.Curve, pointJSON{instant(at.At), backtest.Figure(at.R), backtest.Figure(at.RNet)})
	}
	count := func(c catalogue.Count, s backtest.Statistics) countJSON { return countJSON{c.Open, c.Closed, s} }
	for i := range r.Agents {
		a := &r.Agents[i]
		v.Agents = append(v.Agents, agentJSON{a.ID, a.Name, a.Removed, count(a.Count, a.Statistics)})
	}
	if r.Rest != nil {
		v.Others = &othersJSON{r.Others, count(r.Rest.Count, r.Rest.Statistics)}
	}
	for _, m := range r.Months {
		v.Months = append(v.Months, monthJSON{m.Month.Month, m.Agents, m.Leaf})
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // it is never a part of a page
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode public record: %w", err)
	}
	return b.Bytes(), nil
}

func viewProved(list []publicrecord.Signal) []signalJSON {
	all := make([]signalJSON, len(list))
	for i := range list {
		s := &list[i]
		v := provedJSON{ID: s.ID, Agent: s.Agent, Asset: s.Asset, Strategy: s.Strategy, Timeframe: s.Timeframe, Risk: s.Risk,
			Direction: s.Direction, Confidence: number(signal.RoundConfidence(s.FirstConfidence)),
			CreatedAt: instant(s.CreatedAt), ExpiresAt: instant(s.ExpiresAt)}
		if l := s.Levels; l != nil {
			v.Entry, v.Stop, v.Target = new(number(l.Entry)), new(number(l.Stop)), new(number(l.Target))
		}
		if c := s.Closing; c != nil {
			v.closedJSON = &closedJSON{ClosedAt: instant(c.At), Reason: c.Reason, Exit: (*number)(c.ExitPrice),
				FinalConfidence: number(signal.RoundConfidence(s.Confidence)), R: (*number)(s.R), Minutes: c.DurationMinutes}
		}
		all[i] = signalJSON{v, (*backtest.Figure)(s.RNet), s.Reasoning, s.CreatedLeaf, s.ClosedLeaf}
	}
	return all
}

// instant is a time as the API writes it.
type instant time.Time

// MarshalJSON implements json.Marshaler.
func (t instant) MarshalJSON() ([]byte, error) { return signal.AppendTime(nil, time.Time(t)), nil }

// number is a number as the API writes it.
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) { return signal.AppendPrice(nil, float64(n)), nil }
