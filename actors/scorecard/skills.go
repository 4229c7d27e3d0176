package scorecard

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

const (
	// skillAge is how old a skill may be before it is measured again at the next question.
	skillAge = 2 * time.Second
	// maxSkillAge is how old it may be while that goes on, or fails.
	maxSkillAge = 10 * time.Second
	// skillIdle is how long a skill is kept after its last use.
	skillIdle = 10 * time.Minute
)

// Closings finds closed signals. See catalogue.Catalogue.
type Closings interface {
	NewestClosed(ctx context.Context, account signal.AccountID, agent signal.AgentID, strategy string,
		after signal.Position, limit int) ([]signal.Location, error)
}

// Signals reads signals. See signals.Records.
type Signals interface {
	SignalsAt(ctx context.Context, account signal.AccountID, at []signal.Location) ([]*signal.Signal, error)
}

// SkillOptions are the optional parts of Skills.
type SkillOptions struct {
	Retention time.Duration // of signals, from their creation; default 90 days
	// MaxTrials bounds the closed signals and strategies in memory over all accounts; default a million, of 24 bytes each.
	MaxTrials int
	Now       func() time.Time // the service's clock; default time.Now
}

// Skills measures the skills of the strategies of accounts' agents from their newest closed signals with prices. A signal
// counts within 2 seconds of its closing, on every node. While one caller measures a skill again, the others get
// the one before.
//
// It may be used from many goroutines.
type Skills struct {
	closings Closings
	signals  Signals
	o        SkillOptions

	mu   sync.Mutex
	of   map[skillKey]*measured
	kept int
}

// skillKey names a strategy of an account.
type skillKey struct {
	account signal.AccountID
	strategyKey
}

// measured is the skill of a strategy.
type measured struct {
	// Guarded by Skills.mu.
	skill  strategy.Skill
	asOf   time.Time // when its measurement began; zero before the first
	usedAt time.Time
	kept   int

	busy   chan struct{}   // held during a measurement, as is the rest
	upTo   signal.Position // of the last closing in trials
	trials []trial         // by closing, at most strategy.MaxTrials
}

// trial is what a closed signal shows.
type trial struct {
	strategy.Trial
	created int64 // milliseconds
}

// NewSkills returns the skills that closed signals show.
func NewSkills(c Closings, s Signals, o SkillOptions) *Skills {
	o.Retention = cmp.Or(o.Retention, 90*24*time.Hour)
	o.MaxTrials = cmp.Or(o.MaxTrials, 1_000_000)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Skills{closings: c, signals: s, o: o, of: map[skillKey]*measured{}}
}

// Skill returns the skill of a strategy of an account's agent. It fails if closed signals cannot be read, and no skill is
// known of the last 10 seconds.
func (s *Skills) Skill(ctx context.Context, account signal.AccountID, agent signal.AgentID, name string) (strategy.Skill, error) {
	key := skillKey{account, strategyKey{agent, name}}
	m, skill, age := s.known(key)
	if age < skillAge {
		return skill, nil
	}
	select {
	case m.busy <- struct{}{}:
	default:
		if age < maxSkillAge {
			return skill, nil
		}
		if err := enter(ctx, m.busy); err != nil {
			return skill, err
		}
	}
	defer leave(m.busy)
	if _, skill, age := s.known(key); age < skillAge {
		return skill, nil // by who held it
	}
	began := time.Now()
	if err := s.read(ctx, key, m); err != nil {
		if age < maxSkillAge {
			return skill, nil
		}
		return skill, fmt.Errorf("measure a skill: %w", err)
	}
	trials := make([]strategy.Trial, len(m.trials))
	for i := range m.trials {
		trials[i] = m.trials[i].Trial
	}
	skill = strategy.SkillOf(trials)
	s.set(key, m, skill, began)
	return skill, nil
}

// known returns what is known of a strategy, and its age.
func (s *Skills) known(key skillKey) (*measured, strategy.Skill, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.of[key]
	if m == nil {
		m = &measured{busy: make(chan struct{}, 1), kept: 1}
		s.of[key] = m
		s.kept += m.kept
	}
	m.usedAt = time.Now()
	return m, m.skill, m.usedAt.Sub(m.asOf)
}

// set keeps a skill, and forgets those that were not used for longest while there is too much to keep.
func (s *Skills) set(key skillKey, m *measured, skill strategy.Skill, asOf time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.skill, m.asOf = skill, asOf
	if s.of[key] != m {
		return // it was forgotten meanwhile
	}
	s.kept += 1 + len(m.trials) - m.kept
	m.kept = 1 + len(m.trials)
	for s.kept > s.o.MaxTrials && len(s.of) > 1 {
		var last skillKey
		var oldest *measured
		for k, other := range s.of {
			if other != m && (oldest == nil || other.usedAt.Before(oldest.usedAt)) {
				last, oldest = k, other
			}
		}
		s.forget(last, oldest)
	}
}

func (s *Skills) forget(key skillKey, m *measured) {
	delete(s.of, key)
	s.kept -= m.kept
}

// read reads the signals that were closed since the last reading.
func (s *Skills) read(ctx context.Context, key skillKey, m *measured) error {
	oldest := s.o.Now().Add(-s.o.Retention).UnixMilli()
	if slices.ContainsFunc(m.trials, func(t trial) bool { return t.created <= oldest }) {
		m.upTo, m.trials = signal.Position{}, nil // others may follow in its place
	}
	at, err := s.closings.NewestClosed(ctx, key.account, key.agent, key.strategy, m.upTo, strategy.MaxTrials)
	if err != nil || len(at) == 0 {
		return err
	}
	closed, err := s.signals.SignalsAt(ctx, key.account, at)
	if err != nil {
		return err
	}
	for _, c := range closed {
		terms := strategy.ReadTerms(c.Metadata)
		if t, ok := terms.Trial(c.Direction, *c.Levels, c.Closing); ok {
			m.trials = append(m.trials, trial{t, c.CreatedAt.UnixMilli()})
		}
	}
	if n := len(m.trials) - strategy.MaxTrials; n > 0 {
		m.trials = slices.Delete(m.trials, 0, n)
	}
	m.upTo = at[len(at)-1].Closed
	return nil
}

// Trim forgets the skills that were not used for 10 minutes. It is called from time to time.
func (s *Skills) Trim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, m := range s.of {
		if time.Since(m.usedAt) >= skillIdle {
			s.forget(key, m)
		}
	}
}

// ForgetAll makes the next questions read all signals again, since Redis has lost records.
func (s *Skills) ForgetAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.of)
	s.kept = 0
}
