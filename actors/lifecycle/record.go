package lifecycle

import (
	"math"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// record is an open signal in few bytes: there may be a million. It equals the signal in
// Redis, except for the excursions, which are stored with the next change.
type record struct {
	id      signal.SignalID
	run     signal.RunID
	kind    *kind
	levels  signal.Levels // valid only if kind.prices is true
	reach   *signal.Reach // as of the signal
	created int64         // milliseconds since 1970
	expires int64
	updated int64

	first, confidence float64
	likelihood        float64 // in the forecast that first is based on; 0 without weather
	mfe, mae          float64
	sequence          int64

	initialConfidence float64
	initialExpected   float64 // NaN without one
}

// kind holds the values that many signals share.
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
	exit      int64 // when the agent has asked for the exit, in milliseconds; 0 of most signals, whose records it spares
}

// kinds holds each kind once, with the number of its signals.
type kinds map[kind]*sharedKind

type sharedKind struct {
	kind
	signals int
}

// record returns the record of s. release must follow when it is no longer used.
func (k kinds) record(s *signal.Signal) record {
	key := kind{
		account:   s.Account,
		agent:     s.Agent,
		asset:     s.Asset,
		strategy:  s.Strategy,
		timeframe: s.Timeframe,
		risk:      s.Risk,
		direction: s.Direction,
		prices:    s.Levels != nil,
	}
	if s.Weather != nil {
		key.commodity, key.region = s.Weather.Commodity, s.Weather.Region
	}
	if !s.ExitRequested.IsZero() {
		key.exit = s.ExitRequested.UnixMilli()
	}
	r := record{
		id:         s.ID,
		run:        s.Run,
		kind:       k.share(key),
		reach:      s.Reach,
		created:    s.CreatedAt.UnixMilli(),
		expires:    s.ExpiresAt.UnixMilli(),
		updated:    s.UpdatedAt.UnixMilli(),
		first:      s.FirstConfidence,
		confidence: s.Confidence,
		mfe:        s.MFE,
		mae:        s.MAE,
		sequence:   s.Sequence,
	}
	// A signal that an older version stored has no initial values: its first confidence is
	// the initial one, unless a forecast has changed it.
	r.initialConfidence, r.initialExpected = s.FirstConfidence, math.NaN()
	if i := s.Initial; i != nil {
		r.initialConfidence = i.Confidence
		if i.ExpectedRNet != nil {
			r.initialExpected = *i.ExpectedRNet
		}
	}
	if s.Levels != nil {
		r.levels = *s.Levels
	}
	if s.Weather != nil {
		r.likelihood = s.Weather.Likelihood
	}
	return r
}

// share returns key as it is shared.
func (k kinds) share(key kind) *kind {
	shared := k[key]
	if shared == nil {
		shared = &sharedKind{kind: key}
		k[key] = shared
	}
	shared.signals++
	return &shared.kind
}

// release drops a kind with its last signal, because the number of content subjects is
// unbounded.
func (k kinds) release(kind *kind) {
	shared := k[*kind]
	if shared.signals--; shared.signals == 0 {
		delete(k, *kind)
	}
}

// signal returns the signal without its metadata.
func (r *record) signal() *signal.Signal {
	k := r.kind
	s := &signal.Signal{
		ID:              r.id,
		Account:         k.account,
		Agent:           k.agent,
		Run:             r.run,
		Asset:           k.asset,
		Strategy:        k.strategy,
		Timeframe:       k.timeframe,
		Risk:            k.risk,
		Reach:           r.reach,
		Direction:       k.direction,
		Confidence:      r.confidence,
		FirstConfidence: r.first,
		MFE:             r.mfe,
		MAE:             r.mae,
		Sequence:        r.sequence,
		CreatedAt:       timeOf(r.created),
		ExpiresAt:       timeOf(r.expires),
		UpdatedAt:       timeOf(r.updated),
		Initial:         &signal.Initial{Confidence: r.initialConfidence},
	}
	if expected := r.initialExpected; !math.IsNaN(expected) {
		s.Initial.ExpectedRNet = &expected
	}
	if k.exit != 0 {
		s.ExitRequested = timeOf(k.exit)
	}
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
