package lifecycle

import (
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// record is an open signal in few bytes: there may be a million. It is what Redis
// holds, but for the excursions, which are stored with the next change.
type record struct {
	id      signal.SignalID
	run     signal.RunID
	kind    *kind
	levels  signal.Levels // of no meaning if kind.prices is false
	created int64         // milliseconds since 1970
	expires int64
	updated int64

	first, confidence float64
	likelihood        float64 // by the forecast that first rests on; 0 without weather
	mfe, mae          float64
	sequence          int64
}

// kind is what many signals have in common.
type kind struct {
	account   signal.AccountID
	agent     signal.AgentID
	asset     string
	strategy  string
	timeframe signal.Timeframe
	risk      signal.RiskLevel
	direction signal.Direction
	prices    bool
	commodity string // of a weather signal; empty otherwise, as region
	region    string
}

// kinds has one kind of each, and how many signals are of it.
type kinds map[kind]*sharedKind

type sharedKind struct {
	kind
	signals int
}

// record returns what is kept of s, until release.
func (k kinds) record(s *signal.Signal) *record {
	key := kind{s.Account, s.Agent, s.Asset, s.Strategy, s.Timeframe, s.Risk, s.Direction, s.Levels != nil, "", ""}
	if s.Weather != nil {
		key.commodity, key.region = s.Weather.Commodity, s.Weather.Region
	}
	shared := k[key]
	if shared == nil {
		shared = &sharedKind{kind: key}
		k[key] = shared
	}
	shared.signals++
	r := &record{id: s.ID, run: s.Run, kind: &shared.kind, created: s.CreatedAt.UnixMilli(), expires: s.ExpiresAt.UnixMilli(), updated: s.UpdatedAt.UnixMilli(),
		first: s.FirstConfidence, confidence: s.Confidence, mfe: s.MFE, mae: s.MAE, sequence: s.Sequence}
	if s.Levels != nil {
		r.levels = *s.Levels
	}
	if s.Weather != nil {
		r.likelihood = s.Weather.Likelihood
	}
	return r
}

// release forgets a kind of which there is no other signal: there are as many as
// subjects that somebody thought of.
func (k kinds) release(kind *kind) {
	shared := k[*kind]
	if shared.signals--; shared.signals == 0 {
		delete(k, *kind)
	}
}

// signal returns the signal without its metadata.
func (r *record) signal() *signal.Signal {
	k := r.kind
	s := &signal.Signal{ID: r.id, Account: k.account, Agent: k.agent, Run: r.run, Asset: k.asset, Strategy: k.strategy, Timeframe: k.timeframe,
		Risk: k.risk, Direction: k.direction, Confidence: r.confidence, FirstConfidence: r.first, MFE: r.mfe, MAE: r.mae, Sequence: r.sequence,
		CreatedAt: timeOf(r.created), ExpiresAt: timeOf(r.expires), UpdatedAt: timeOf(r.updated)}
	if k.prices {
		levels := r.levels
		s.Levels = &levels
	}
	if k.region != "" {
		s.Weather = &signal.Outlook{Commodity: k.commodity, Region: k.region, Likelihood: r.likelihood}
	}
	return s
}

func timeOf(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
