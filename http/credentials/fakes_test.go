package credentials

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// cheap are parameters of fast hashes.
var cheap = argon2id.Params{Memory: 8, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32}

func testKeys() []credential.NamedKey {
	return []credential.NamedKey{
		{Name: "new", Value: [32]byte(bytes.Repeat([]byte{2}, 32))},
		{Name: "old", Value: [32]byte(bytes.Repeat([]byte{1}, 32))},
	}
}

// eventLog records appended events.
type eventLog struct {
	mu     sync.Mutex
	events []signal.Event
	err    error
}

func (l *eventLog) Append(ctx context.Context, c signal.Change) (signal.Position, error) {
	if ctx.Err() != nil {
		return signal.Position{}, signal.Unavailable(ctx.Err())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return signal.Position{}, l.err
	}
	for _, e := range c.Events {
		if e.Account != c.Account {
			return signal.Position{}, errors.New("an event belongs to another account than its change")
		}
		if e.ID == "" {
			return signal.Position{}, errors.New("an event has no id")
		}
		l.events = append(l.events, e)
	}
	return signal.Position{MS: 1}, nil
}

func (l *eventLog) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// take returns what was appended since the last call, without ids.
func (l *eventLog) take() []signal.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	events := l.events
	l.events = nil
	for i := range events {
		events[i].ID = ""
	}
	return events
}

// clock is a wall clock that a test sets forward.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.offset.Load())) }
func (c *clock) forward(d time.Duration) { c.offset.Add(int64(d)) }

// testService is a service over a Redis of its own.
type testService struct {
	*Service
	clock  *clock
	log    *eventLog
	store  *persistence.Store
	server *redistest.Server
}

func newTestService(t *testing.T, o Options) *testService {
	t.Helper()
	s := &testService{clock: &clock{}, log: &eventLog{}, server: redistest.New(t)}
	var err error
	if s.store, err = persistence.Open(persistence.Options{URL: s.server.URL()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.store.Client.Close() })
	if o.Password == (argon2id.Params{}) {
		o.Password = cheap
	}
	o.Now = s.clock.now
	s.Service = New(s.store.Credentials, s.log, testKeys(), o)
	return s
}

const goodPassword = "three brown foxes"

func (s *testService) register(t *testing.T, email string) credential.Account {
	t.Helper()
	a, err := s.Accounts.CreateAccount(t.Context(), email, goodPassword)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (s *testService) login(t *testing.T, email string) Tokens {
	t.Helper()
	tokens, err := s.Sessions.Login(t.Context(), email, goodPassword)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func (s *testService) refresh(t *testing.T, token string) Tokens {
	t.Helper()
	tokens, err := s.Sessions.Refresh(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// wantNoRefresh demands that the refresh token is not valid.
func (s *testService) wantNoRefresh(t *testing.T, token string) {
	t.Helper()
	_, err := s.Sessions.Refresh(t.Context(), token)
	wantCode(t, err, "invalid_refresh_token")
}

// key creates a key with all scopes.
func (s *testService) key(t *testing.T, account signal.AccountID, name string) (k credential.APIKey, secret string) {
	t.Helper()
	k, secret, err := s.Keys.CreateKey(t.Context(), account, name, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return k, secret
}

func (s *testService) principal(t *testing.T, token string) signal.Principal {
	t.Helper()
	p, err := s.Authenticator.Authenticate(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// wantCode demands an error with a code.
func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	e, ok := errors.AsType[*signal.Error](err)
	if !ok || e.Code != code {
		t.Errorf("got %v, want %s", err, code)
	}
}

// wantRefused demands that the token is not valid.
func (s *testService) wantRefused(t *testing.T, token string) {
	t.Helper()
	_, err := s.Authenticator.Authenticate(t.Context(), token)
	wantCode(t, err, "invalid_token")
}

// wantFields demands faults of these fields with these codes: "name required".
func wantFields(t *testing.T, err error, want ...string) {
	t.Helper()
	v, _ := errors.AsType[ValidationError](err)
	got := []string{}
	for _, f := range v {
		got = append(got, f.Field+" "+f.Code)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got faults %q (%v), want %q", got, err, want)
	}
}

// memory is a store of the keys and sessions that a test sets, by the clock of a synctest
// bubble.
type memory struct {
	Store // nil: other methods must not be called

	mu          sync.Mutex
	keys        map[credential.Digest]credential.APIKey
	sessions    map[signal.SessionID]credential.Session
	uses        []map[credential.Digest]time.Time
	publication credential.Publication
	err         error
	delay       time.Duration // before the record is read
	after       time.Duration // between reading it and answering
	lookups     int
	unsettled,
	settled,
	notified []signal.Event
}

func (m *memory) read(f func()) error {
	m.mu.Lock()
	m.lookups++
	delay, after := m.delay, m.after
	m.mu.Unlock()
	time.Sleep(delay)
	m.mu.Lock()
	f()
	err := m.err
	m.mu.Unlock()
	time.Sleep(after)
	return err
}

func (m *memory) KeyByDigest(_ context.Context, d credential.Digest) (k credential.APIKey, err error) {
	var ok bool
	if err := m.read(func() { k, ok = m.keys[d] }); err != nil {
		return k, err
	}
	if !ok {
		return k, signal.NotFound("API key")
	}
	return k, nil
}

func (m *memory) SessionByID(_ context.Context, id signal.SessionID) (n credential.Session, err error) {
	var ok bool
	if err := m.read(func() { n, ok = m.sessions[id] }); err != nil {
		return n, err
	}
	if !ok {
		return n, signal.NotFound("session")
	}
	return n, nil
}

func (m *memory) RevokeKey(_ context.Context, a signal.AccountID, id signal.KeyID,
	_ time.Time) ([]signal.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for d, k := range m.keys {
		if k.ID == id {
			delete(m.keys, d)
		}
	}
	return []signal.Event{{Account: a, Type: signal.KeyRevoked, Subject: string(id)}}, nil
}

func (m *memory) EndSession(_ context.Context, a signal.AccountID, id signal.SessionID,
	_ time.Time) ([]signal.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sessions, id)
	return []signal.Event{{Account: a, Type: signal.SessionEnded, Subject: string(id)}}, nil
}

func (m *memory) Publish(_ context.Context, p credential.Publication, _ int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.publication = p
	return nil
}

func (m *memory) PublicationBySlug(_ context.Context, slug string) (p credential.Publication, err error) {
	if err := m.read(func() { p = m.publication }); err != nil {
		return p, err
	}
	if p.Slug != slug {
		return credential.Publication{}, signal.NotFound("record")
	}
	return p, nil
}

func (m *memory) NoteKeyUses(_ context.Context, uses map[credential.Digest]time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	m.uses = append(m.uses, uses)
	for d, at := range uses {
		k := m.keys[d]
		k.LastUsedAt = at
		m.keys[d] = k
	}
	return nil
}

func (m *memory) Notify(_ context.Context, events []signal.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notified = append(m.notified, events...)
	return nil
}

func (m *memory) Settle(_ context.Context, events []signal.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settled = append(m.settled, events...)
	m.unsettled = nil
	return m.err
}

func (m *memory) Unsettled(context.Context, time.Time, int) ([]signal.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unsettled, m.err
}

// counted returns how many lookups there were since the last call.
func (m *memory) counted() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.lookups
	m.lookups = 0
	return n
}

func (m *memory) do(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// addKey gives the store a key of account and returns its secret.
func (m *memory) addKey(k credential.APIKey) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	secret := newKeySecret()
	if m.keys == nil {
		m.keys = map[credential.Digest]credential.APIKey{}
	}
	m.keys[credential.DigestOf(secret)] = k
	return secret
}

// addSession gives the store a session and returns an access token of it.
func (m *memory) addSession(t *testing.T, s *Service, account signal.AccountID) (signal.SessionID, string) {
	t.Helper()
	n := credential.Session{ID: signal.NewSessionIDAt(time.Now()), Account: account, EndsAt: s.Accounts.now().Add(time.Hour)}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sessions == nil {
		m.sessions = map[signal.SessionID]credential.Session{}
	}
	m.sessions[n.ID] = n
	token, err := s.Authenticator.jwt.issue(account, n.ID, s.Accounts.now(), s.Accounts.now().Add(15*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return n.ID, token
}
