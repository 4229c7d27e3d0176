// Package agents keeps the agents that belong to accounts.
package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// The agents of an account are one hash: the record of each by its id, also of removed ones, and its revision
// under '#' and its id while it lives. A submission is appended only if that is still the revision by which it
// was made (eventlog). The empty field counts the changes of all, by which one of two concurrent changes is refused.

var (
	errNoAgent   = error(signal.NotFound("agent"))
	errNameTaken = redisclient.Refused("name_taken", "the account has, or had, an agent with this id")
	errTooMany   = redisclient.Refused("limit_reached", fmt.Sprintf("the account has %d agents, which is as many as it may have",
		signal.MaxAgents))
	errTooManyEver = redisclient.Refused("limit_reached", fmt.Sprintf("the account has had %d agents, which is as many as it "+
		"may ever have", signal.MaxAgentsEver))
	errChanged = redisclient.Refused(signal.CodeAgentChanged, "the agents of the account were changed meanwhile")
)

// attempts is how often a change is tried that others overtake.
const attempts = 5

// Sealer encrypts secrets. See keyring.Ring.
type Sealer interface {
	Seal(plain []byte, purpose string) []byte
	Open(sealed []byte, purpose string) ([]byte, error)
}

// Store keeps agents. All methods are safe for concurrent use. KindUnavailable: a change may be made or not.
type Store struct {
	c      *redisclient.Client
	log    *eventlog.Log
	sealer Sealer
	owners owners

	mu    sync.Mutex // guards known
	known map[knownKey]signal.Agent
}

type knownKey struct {
	account signal.AccountID
	id      signal.AgentID
}

// maxKnown is how many agents Known remembers. Beyond it all are forgotten.
const maxKnown = 10_000

// New returns the agents of c. Changes are written by log, and secrets are encrypted by sealer.
func New(c *redisclient.Client, log *eventlog.Log, sealer Sealer) *Store {
	return &Store{c: c, log: log, sealer: sealer, known: map[knownKey]signal.Agent{}}
}

// Agents returns the living agents of an account, the oldest first.
func (s *Store) Agents(ctx context.Context, account signal.AccountID) ([]signal.Agent, error) {
	all, err := s.read(ctx, account)
	if err != nil {
		return nil, err
	}
	return all.list, nil
}

// Agent returns a living agent of an account. KindNotFound.
func (s *Store) Agent(ctx context.Context, account signal.AccountID, id signal.AgentID) (signal.Agent, error) {
	values, err := s.c.RDB.HMGet(ctx, s.key(account), string(id), eventlog.AgentRevision(id)).Result()
	if err != nil {
		return signal.Agent{}, redisclient.Failed(err, "read agent")
	}
	k := knownKey{account, id}
	record, ok := values[0].(string)
	revision, living := values[1].(string)
	if !ok || !living {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.known, k)
		return signal.Agent{}, errNoAgent
	}
	a, err := s.decode(account, id, record, revision)
	if err != nil {
		return signal.Agent{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	s.known[k] = a
	return a, nil
}

// ForgetAll makes Known read agents again: after a rollback of Redis a revision may name another state.
func (s *Store) ForgetAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.known)
}

// Known returns an agent as this process has read it last, or else as Agent. It may have been changed or removed
// since: what is appended by a former revision is refused (eventlog.ErrAgentChanged).
func (s *Store) Known(ctx context.Context, account signal.AccountID, id signal.AgentID) (signal.Agent, error) {
	s.mu.Lock()
	a, ok := s.known[knownKey{account, id}]
	s.mu.Unlock()
	if ok {
		return a, nil
	}
	return s.Agent(ctx, account, id)
}

// Add stores a new agent and returns it with its revision. KindConflict: "name_taken" if the account has or had the id,
// "limit_reached" if it has too many.
func (s *Store) Add(ctx context.Context, a signal.Agent) (signal.Agent, error) {
	return s.update(ctx, a.Account, a.ID, func(all *agents) (*signal.Agent, error) {
		switch {
		case all.records[a.ID] != "":
			return nil, errNameTaken
		case len(all.list) >= signal.MaxAgents:
			return nil, errTooMany
		case len(all.records) >= signal.MaxAgentsEver:
			return nil, errTooManyEver
		}
		return &a, nil
	})
}

// Change stores what change makes of an agent, and returns it with its new revision. change may run more than once.
// KindNotFound, and the errors of change.
func (s *Store) Change(
	ctx context.Context, account signal.AccountID, id signal.AgentID, change func(*signal.Agent) error,
) (signal.Agent, error) {
	return s.update(ctx, account, id, func(all *agents) (*signal.Agent, error) {
		a, ok := all.agent(id)
		if !ok {
			return nil, errNoAgent
		}
		return a, change(a)
	})
}

// Names returns the ids and the strategies that a view has of all agents that an account has or had: its signals may
// have them.
func (s *Store) Names(ctx context.Context, account signal.AccountID, view *signal.View) (
	ids []signal.AgentID, strategies []string, err error) {
	all, err := s.read(ctx, account)
	if err != nil {
		return nil, nil, err
	}
	for id, text := range all.records {
		var r record
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			return nil, nil, fmt.Errorf("decode agent %s: %w", id, err)
		}
		if a, ok := view.Agent(signal.Agent{ID: id, Strategies: r.Strategies}); ok {
			ids, strategies = append(ids, a.ID), append(strategies, a.Strategies...)
		}
	}
	slices.Sort(ids)
	slices.Sort(strategies)
	return ids, slices.Compact(strategies), nil
}

// Remove removes an agent, whose id stays taken. No signal of it is appended after that. KindNotFound.
func (s *Store) Remove(ctx context.Context, account signal.AccountID, id signal.AgentID) error {
	a, err := s.Agent(ctx, account, id)
	if err == nil {
		err = s.forget(ctx, account, a.Intakes...)
	}
	if err != nil {
		return err
	}
	_, err = s.update(ctx, account, id, func(all *agents) (*signal.Agent, error) {
		if _, ok := all.agent(id); !ok {
			return nil, errNoAgent
		}
		return nil, nil
	})
	return err
}

// update stores the agent that f returns, or removes the one with the id if f returns none.
func (s *Store) update(
	ctx context.Context, account signal.AccountID, id signal.AgentID, f func(*agents) (*signal.Agent, error),
) (signal.Agent, error) {
	for range attempts {
		all, err := s.read(ctx, account)
		if err != nil {
			return signal.Agent{}, err
		}
		a, err := f(all)
		if err != nil {
			return signal.Agent{}, err
		}
		o := eventlog.NewOperation(s.c.Keys)
		k := o.Key(s.key(account))
		if all.revision == 0 {
			o.Guard(eventlog.GuardLengthBelow, k, errChanged, "1")
		} else {
			o.Guard(eventlog.GuardFieldIs, k, errChanged, "", strconv.FormatInt(all.revision, 10))
		}
		revision := strconv.FormatInt(all.revision+1, 10)
		o.Step(eventlog.CmdHSet, k, "", revision)
		if a == nil {
			if a, _ = all.agent(id); len(a.Intakes) > 0 {
				a.Intakes = nil
				record, err := s.encode(a)
				if err != nil {
					return signal.Agent{}, err
				}
				o.Step(eventlog.CmdHSet, k, string(id), record)
			}
			o.Step(eventlog.CmdHDel, k, eventlog.AgentRevision(id))
		} else {
			record, err := s.encode(a)
			if err != nil {
				return signal.Agent{}, err
			}
			a.Revision = revision
			o.Step(eventlog.CmdHSet, k, string(id), record, eventlog.AgentRevision(id), revision)
		}
		_, err = s.log.Apply(ctx, s.c.Partition(account), o)
		s.mu.Lock()
		delete(s.known, knownKey{account, id})
		s.mu.Unlock()
		if !errors.Is(err, errChanged) {
			return *a, err
		}
	}
	return signal.Agent{}, errChanged
}

// Erase erases the agents of a deleted account.
func Erase(ctx context.Context, c *redisclient.Client, p int, account signal.AccountID) (string, error) {
	if err := eraseIntakes(ctx, c, p, account); err != nil {
		return "", err
	}
	return "", c.RDB.Del(ctx, c.AgentsKey(p, account)).Err()
}

func (s *Store) key(account signal.AccountID) string {
	return s.c.AgentsKey(s.c.Partition(account), account)
}

// agents are all that an account has or had.
type agents struct {
	records  map[signal.AgentID]string
	list     []signal.Agent // the living ones
	revision int64
}

func (s *Store) read(ctx context.Context, account signal.AccountID) (*agents, error) {
	fields, err := s.c.RDB.HGetAll(ctx, s.key(account)).Result()
	if err != nil {
		return nil, redisclient.Failed(err, "read agents")
	}
	all := &agents{records: map[signal.AgentID]string{}}
	for name, value := range fields {
		switch {
		case name == "":
			if all.revision, err = strconv.ParseInt(value, 10, 64); err != nil {
				return nil, fmt.Errorf("read agents: %w", err)
			}
		case name[0] != '#':
			all.records[signal.AgentID(name)] = value
		}
	}
	for id, record := range all.records {
		revision, living := fields[eventlog.AgentRevision(id)]
		if !living {
			continue
		}
		a, err := s.decode(account, id, record, revision)
		if err != nil {
			return nil, err
		}
		all.list = append(all.list, a)
	}
	slices.SortFunc(all.list, func(a, b signal.Agent) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

func (a *agents) agent(id signal.AgentID) (*signal.Agent, bool) {
	i := slices.IndexFunc(a.list, func(a signal.Agent) bool { return a.ID == id })
	if i < 0 {
		return nil, false
	}
	return &a.list[i], true
}

// record is the stored form of an agent, as JSON.
type record struct {
	Version     int                  `json:"v"`
	CreatedAt   int64                `json:"created_at"` // milliseconds
	Name        string               `json:"name"`
	Category    signal.Category      `json:"category"`
	Description string               `json:"description,omitempty"`
	Strategies  []string             `json:"strategies"`
	Status      signal.AgentStatus   `json:"status"`
	Defaults    signal.AgentDefaults `json:"defaults,omitzero"`
	URL         string               `json:"url,omitempty"`
	Secret      []byte               `json:"secret,omitempty"` // sealed
	Intakes     []intakeRecord       `json:"intakes,omitempty"`
}

func purpose(account signal.AccountID, id signal.AgentID) string {
	return string(account) + " " + string(id)
}

func (s *Store) encode(a *signal.Agent) (string, error) {
	r := record{Version: 1, CreatedAt: a.CreatedAt.UnixMilli(), Name: a.Name, Category: a.Category, Description: a.Description,
		Strategies: a.Strategies, Status: a.Status, Defaults: a.Defaults,
		Intakes: encodeIntakes(a.Intakes)}
	if e := a.Endpoint; e != nil {
		r.URL, r.Secret = e.URL, s.sealer.Seal([]byte(e.Secret), purpose(a.Account, a.ID))
	}
	b, err := json.Marshal(r)
	return string(b), err
}

func (s *Store) decode(account signal.AccountID, id signal.AgentID, text, revision string) (signal.Agent, error) {
	var r record
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return signal.Agent{}, fmt.Errorf("decode agent %s: %w", id, err)
	}
	if r.Version != 1 {
		return signal.Agent{}, fmt.Errorf("decode agent %s: version %d is not known", id, r.Version)
	}
	a := signal.Agent{ID: id, Account: account, Name: r.Name, Category: r.Category, Description: r.Description,
		Strategies: r.Strategies, Status: r.Status, Defaults: r.Defaults, CreatedAt: time.UnixMilli(r.CreatedAt).UTC(),
		Revision: revision, Intakes: decodeIntakes(r.Intakes)}
	if r.URL != "" {
		secret, err := s.sealer.Open(r.Secret, purpose(account, id))
		if err != nil {
			return signal.Agent{}, fmt.Errorf("open secret of agent %s: %w", id, err)
		}
		a.Endpoint = &signal.Endpoint{URL: r.URL, Secret: string(secret)}
	}
	return a, nil
}
