package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// The intakes of an agent are a part of its record, so that a change of them is a change of the agent, by whose revision
// alerts are appended. Beside it a key for each token says whose it is, in the slot of credentials. The key is
// made after the record and deleted before it: a key without a record opens nothing, since the record decides.

var (
	errNoIntake    = error(signal.NotFound("intake"))
	errManyIntakes = redisclient.Refused("limit_reached", fmt.Sprintf("the agent has %d intakes, which is as many as it may have",
		signal.MaxIntakes))
)

const (
	// maxOwners is how many tokens a process knows the owners of.
	maxOwners = 10_000
	// ownerFresh is how long it takes an owner for one that exists: whose account is deleted is erased later.
	ownerFresh = time.Second
)

// owner is whose intake has a token.
type owner struct {
	account signal.AccountID
	agent   signal.AgentID
	read    time.Time
}

// owners has the owners of tokens, by their digests.
type owners struct {
	mu sync.Mutex
	m  map[string]owner
}

func (o *owners) get(digest string) (owner, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	found, ok := o.m[digest]
	return found, ok && time.Since(found.read) < ownerFresh
}

func (o *owners) put(digest string, found owner) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.m == nil || len(o.m) >= maxOwners {
		o.m = map[string]owner{}
	}
	o.m[digest] = found
}

// AddIntake stores a new intake of an agent. KindNotFound: there is no such agent. KindConflict, "limit_reached".
func (s *Store) AddIntake(ctx context.Context, account signal.AccountID, id signal.AgentID, in signal.Intake) error {
	_, err := s.Change(ctx, account, id, func(a *signal.Agent) error {
		if len(a.Intakes) >= signal.MaxIntakes {
			return errManyIntakes
		}
		a.Intakes = append(slices.Clip(a.Intakes), in)
		return nil
	})
	if err != nil {
		return err
	}
	return s.tokens(ctx, func(pipe redis.Pipeliner) {
		pipe.Set(ctx, s.c.IntakeKey(in.Digest), tokenOwner(account, id), 0)
	})
}

// RemoveIntake revokes an intake: nothing that it receives is appended after that. KindNotFound.
func (s *Store) RemoveIntake(ctx context.Context, account signal.AccountID, id signal.AgentID, intake signal.IntakeID) error {
	a, err := s.Agent(ctx, account, id)
	if err != nil {
		return err
	}
	with := func(in signal.Intake) bool { return in.ID == intake }
	at := slices.IndexFunc(a.Intakes, with)
	if at < 0 {
		return errNoIntake
	}
	if err := s.forget(ctx, account, a.Intakes[at]); err != nil {
		return err
	}
	_, err = s.Change(ctx, account, id, func(a *signal.Agent) error {
		a.Intakes = slices.DeleteFunc(slices.Clone(a.Intakes), with)
		return nil
	})
	return err
}

// forget deletes what is stored of intakes beside their records.
func (s *Store) forget(ctx context.Context, account signal.AccountID, list ...signal.Intake) error {
	if len(list) == 0 {
		return nil
	}
	if err := s.tokens(ctx, func(pipe redis.Pipeliner) {
		for _, in := range list {
			pipe.Del(ctx, s.c.IntakeKey(in.Digest))
		}
	}); err != nil {
		return err
	}
	var keys []string
	for _, in := range list {
		keys = append(keys, s.c.IntakeRequestsKey(s.c.Partition(account), account, in.ID))
	}
	return redisclient.Failed(s.c.RDB.Unlink(ctx, keys...).Err(), "delete requests of intakes")
}

func (s *Store) tokens(ctx context.Context, add func(redis.Pipeliner)) error {
	return redisclient.Failed(s.c.Durable.Send(ctx, s.c.ConfirmAuthKey(), add), "change tokens of intakes")
}

func tokenOwner(account signal.AccountID, id signal.AgentID) string {
	return string(account) + " " + string(id)
}

// OfToken returns the agent that the token with a digest sends alerts to as Known does, and the intake. KindNotFound.
func (s *Store) OfToken(ctx context.Context, digest string) (signal.Agent, signal.Intake, error) {
	o, known := s.owners.get(digest)
	if !known {
		var err error
		if o, err = s.ownerOf(ctx, digest); err != nil {
			return signal.Agent{}, signal.Intake{}, err
		}
	}
	with := func(in signal.Intake) bool { return in.Digest == digest }
	a, err := s.Known(ctx, o.account, o.agent)
	at := slices.IndexFunc(a.Intakes, with)
	var in signal.Intake
	if err == nil && at >= 0 {
		in = a.Intakes[at]
	} else if a, in, err = s.intake(ctx, o.account, o.agent, with); err != nil { // it may be newer than what is known
		return a, in, err
	}
	if !known {
		s.owners.put(digest, o)
	}
	return a, in, nil
}

// OfIntake reads the agent of an intake, and the intake. KindNotFound.
func (s *Store) OfIntake(
	ctx context.Context, account signal.AccountID, id signal.AgentID, intake signal.IntakeID,
) (signal.Agent, signal.Intake, error) {
	return s.intake(ctx, account, id, func(in signal.Intake) bool { return in.ID == intake })
}

// intake reads an agent with its intake for which with is true. KindNotFound.
func (s *Store) intake(
	ctx context.Context, account signal.AccountID, id signal.AgentID, with func(signal.Intake) bool,
) (signal.Agent, signal.Intake, error) {
	a, err := s.Agent(ctx, account, id)
	at := slices.IndexFunc(a.Intakes, with)
	if signal.KindOf(err) == signal.KindNotFound || err == nil && at < 0 {
		err = errNoIntake
	}
	if err != nil {
		return signal.Agent{}, signal.Intake{}, err
	}
	return a, a.Intakes[at], nil
}

// ownerOf reads whose intake has the token with a digest. KindNotFound: none has, or the account is deleted.
func (s *Store) ownerOf(ctx context.Context, digest string) (owner, error) {
	o := owner{read: time.Now()}
	text, err := s.c.RDB.Get(ctx, s.c.IntakeKey(digest)).Result()
	if errors.Is(err, redis.Nil) {
		return o, errNoIntake
	}
	if err != nil {
		return o, redisclient.Failed(err, "read token of an intake")
	}
	account, id, _ := strings.Cut(text, " ")
	o.account, o.agent = signal.AccountID(account), signal.AgentID(id)
	exists, err := s.c.RDB.Exists(ctx, s.c.AccountKey(o.account)).Result()
	if err == nil && exists == 0 {
		return o, errNoIntake
	}
	return o, redisclient.Failed(err, "read account of an intake")
}

// Marks returns the marks of topics, by their names, as signal.AlertTopic has them.
func (s *Store) Marks(ctx context.Context, account signal.AccountID, topics []string) ([]signal.AlertTopic, error) {
	p := s.c.Partition(account)
	list, marks := make([]signal.AlertTopic, len(topics)), make([]*redis.StringCmd, len(topics))
	pipe := s.c.RDB.Pipeline()
	for i, name := range topics {
		list[i].Name, marks[i] = name, pipe.Get(ctx, s.c.AlertKey(p, account, name))
	}
	if err := redisclient.Execute(ctx, pipe); err != nil && !errors.Is(err, redis.Nil) {
		return nil, redisclient.Failed(err, "read marks of alerts")
	}
	for i, m := range marks {
		list[i].Mark = m.Val()
	}
	return list, nil
}

// NoteRequest adds a request that was not accepted to the list of an intake.
func (s *Store) NoteRequest(ctx context.Context, account signal.AccountID, id signal.IntakeID, request []byte) error {
	key := s.c.IntakeRequestsKey(s.c.Partition(account), account, id)
	args := []any{"XADD", key}
	for _, arg := range eventlog.IntakeRequest(request, "") {
		args = append(args, arg)
	}
	pipe := s.c.RDB.Pipeline()
	pipe.Do(ctx, args...)
	pipe.Expire(ctx, key, eventlog.IntakeRequestsKept)
	return redisclient.Failed(redisclient.Execute(ctx, pipe), "note request of an intake")
}

// Requests returns the newest requests of an intake, the newest first.
func (s *Store) Requests(ctx context.Context, account signal.AccountID, id signal.IntakeID) ([]signal.IntakeRequest, error) {
	key := s.c.IntakeRequestsKey(s.c.Partition(account), account, id)
	entries, err := s.c.RDB.XRevRangeN(ctx, key, "+", "-", signal.MaxIntakeRequests).Result()
	if err != nil {
		return nil, redisclient.Failed(err, "read requests of an intake")
	}
	list := make([]signal.IntakeRequest, 0, len(entries))
	for _, e := range entries {
		at, ok := signal.ParsePosition(e.ID)
		request, _ := e.Values["r"].(string)
		created, _ := e.Values["s"].(string)
		if !ok || !json.Valid([]byte(request)) {
			return nil, fmt.Errorf("request %s of intake %s is not readable", e.ID, id)
		}
		list = append(list, signal.IntakeRequest{At: at.Time(), Signal: signal.SignalID(created), Request: []byte(request)})
	}
	return list, nil
}

// intakeRecord is the stored form of an intake.
type intakeRecord struct {
	ID        signal.IntakeID `json:"id"`
	Digest    string          `json:"digest"`
	CreatedAt int64           `json:"created_at"` // milliseconds
}

func encodeIntakes(list []signal.Intake) (records []intakeRecord) {
	for _, in := range list {
		records = append(records, intakeRecord{in.ID, in.Digest, in.CreatedAt.UnixMilli()})
	}
	return records
}

func decodeIntakes(records []intakeRecord) (list []signal.Intake) {
	for _, r := range records {
		list = append(list, signal.Intake{ID: r.ID, Digest: r.Digest, CreatedAt: time.UnixMilli(r.CreatedAt).UTC()})
	}
	return list
}

// eraseIntakes deletes what is stored of an account's intakes beside their records.
func eraseIntakes(ctx context.Context, c *redisclient.Client, p int, account signal.AccountID) error {
	fields, err := c.RDB.HGetAll(ctx, c.AgentsKey(p, account)).Result()
	if err != nil {
		return err
	}
	pipe := c.RDB.Pipeline()
	for _, text := range fields {
		for _, in := range intakesOf(text) {
			pipe.Del(ctx, c.IntakeKey(in.Digest))
			pipe.Unlink(ctx, c.IntakeRequestsKey(p, account, in.ID))
		}
	}
	if pipe.Len() == 0 {
		return nil
	}
	return redisclient.Execute(ctx, pipe)
}

// intakesOf returns the intakes of a field of the hash of agents; none for one that is no record.
func intakesOf(field string) []intakeRecord {
	var r record
	if json.Unmarshal([]byte(field), &r) != nil {
		return nil
	}
	return r.Intakes
}

// Restored returns the keys and values that belong to a field of the hash of an account's agents, which a backup has alone.
func Restored(k redisclient.Keys, account signal.AccountID, field, value string) map[string]string {
	keys := map[string]string{}
	for _, in := range intakesOf(value) {
		keys[k.IntakeKey(in.Digest)] = tokenOwner(account, signal.AgentID(field))
	}
	return keys
}
