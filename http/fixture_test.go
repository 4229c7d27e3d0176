package http_test

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/dashboard"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	signalhttp "github.com/agentsignal/agentsignal/http"
	"github.com/agentsignal/agentsignal/http/apitest"
	"github.com/agentsignal/agentsignal/http/credentials"
	"github.com/agentsignal/agentsignal/http/limits"
)

// Identifiers that the fakes answer with.
const (
	accountID = signal.AccountID("acc_01M7YQ1WE0AE67Z5NHCJZHQ5XV")
	signalID  = signal.SignalID("sig_01M7YQ1WTVKN9DZNWV9NV456V1")
	runID     = signal.RunID("run_01M7YQ1WPJA84WKP9M7T9BM2EX")
	jobID     = signal.JobID("job_01M7YQ1WJ9KX5V8WQ8KXDH917J")
	keyID     = signal.KeyID("key_01M7YQ1WJ9KX5V8WQ8KXDH917J")
	secret    = "ask_0123456789abcdefghijABCDEFGHIJklmnopqrst4ZpQ2a"
)

var morning = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)

// fakes are the packages behind the server. A nil function has a plain answer.
type fakes struct {
	ownAgents fakeOwnAgents
	intakes   fakeIntakes
	readers   fakeReaders

	run      func(ctx context.Context, req signal.RunRequest) (agent.Outcome, error)
	submit   func(req signal.RunRequest, reply func(signal.Job) *signal.Reply) (signal.Job, error)
	job      func(account signal.AccountID, id signal.JobID) (signal.Job, error)
	jobs     func(account signal.AccountID, status signal.JobStatus, limit, offset int) ([]signal.Job, int, error)
	list     func(q catalogue.Query) ([]signal.Listing, int, error)
	locate   func(q catalogue.Query, before signal.Location) ([]signal.Location, int, error)
	at       func(account signal.AccountID, at []signal.Location) ([]*signal.Signal, error)
	suggest  func(account signal.AccountID, name string) []string
	counts   func(account signal.AccountID) (map[signal.AgentID]catalogue.Count, error)
	find     func(account signal.AccountID, id signal.SignalID) (created, closed signal.Position, err error)
	record   func(id signal.SignalID, created, closed signal.Position) (*signal.Signal, error)
	exit     func(account signal.AccountID, id signal.SignalID) error
	append   func(c signal.Change) error
	alerts   *signalhttp.AlertHandlers // of the server
	closing  func(ctx context.Context, account signal.AccountID, id signal.SignalID) error
	take     func(class limits.Class, who string) limits.Decision
	claim    func(account signal.AccountID, key signal.ReplyKey) (*signal.Reply, error)
	release  func(account signal.AccountID, key signal.ReplyKey) error
	save     func(account signal.AccountID, r *signal.Reply) error
	serve    func(ws *websocket.Conn, p *signal.Principal)
	events   func(conn dashboard.Conn, head []byte, p *signal.Principal) (leave func())
	refusal  string                              // of subscriptions at the handshake
	entered  atomic.Int64                        // connections of readers
	begins   func(first *dashboard.Subscription) // before serve
	settle   func(settled func())
	login    func(email, password string) (credentials.Tokens, error)
	refresh  func(token string) (credentials.Tokens, error)
	logout   func(p signal.Principal, all bool) error
	register func(email, password string) (credential.Account, error)
	password func(p signal.Principal, current, next string) error
	account  func(id signal.AccountID) (credential.Account, error)
	key      func(account signal.AccountID, name string, scopes []string,
		expiresIn *int64) (credential.APIKey, string, error)
	keys   func(account signal.AccountID, limit, offset int) ([]credential.APIKey, int, error)
	revoke func(account signal.AccountID, id signal.KeyID) error

	webhookFakes
	workFakes
	scheduleFakes
	recordFakes
	publicationFakes
}

type (
	fakeAgents      struct{ *fakes }
	fakeCatalogue   struct{ *fakes }
	fakeRecords     struct{ *fakes }
	fakeLimits      struct{ *fakes }
	fakeReplies     struct{ *fakes }
	fakeHub         struct{ *fakes }
	fakeCredentials struct{ *fakes }
)

func (f fakeAgents) Catalogue() []signal.Agent { return signal.Agents() }

func (f fakeAgents) Run(ctx context.Context, req signal.RunRequest) (agent.Outcome, error) {
	return call2(f.run, agent.Outcome{Run: runID, Signal: newSignal()}, ctx, req)
}

func (f fakeAgents) Accept(ctx context.Context, req signal.RunRequest) (agent.Outcome, error) {
	return f.Run(ctx, req)
}

func (f fakeAgents) Submit(ctx context.Context, req signal.RunRequest,
	reply func(signal.Job) *signal.Reply) (signal.Job, error) {
	if ctx.Err() != nil {
		return signal.Job{}, signal.Unavailable(ctx.Err())
	}
	if f.submit == nil {
		return newJob(), nil
	}
	return f.submit(req, reply)
}

func (f fakeAgents) Job(_ context.Context, account signal.AccountID, id signal.JobID) (signal.Job, error) {
	return call2(f.job, newJob(), account, id)
}

func (f fakeAgents) Jobs(_ context.Context, account signal.AccountID, status signal.JobStatus,
	limit, offset int) ([]signal.Job, int, error) {
	if f.jobs == nil {
		return []signal.Job{newJob()}, 1, nil
	}
	return f.jobs(account, status, limit, offset)
}

func (f fakeCatalogue) List(_ context.Context, q catalogue.Query) ([]signal.Listing, int, error) {
	if f.list == nil {
		return []signal.Listing{newSignal().Listing()}, 1, nil
	}
	return f.list(q)
}

func (f fakeCatalogue) Locations(ctx context.Context, q catalogue.Query,
	before signal.Location) ([]signal.Location, int, error) {
	if ctx.Err() != nil {
		return nil, 0, signal.Unavailable(ctx.Err())
	}
	if f.locate == nil {
		return []signal.Location{{ID: signalID, Created: signal.Position{MS: 1}}}, 1, nil
	}
	return f.locate(q, before)
}

func (f fakeRecords) SignalsAt(_ context.Context, account signal.AccountID,
	at []signal.Location) ([]*signal.Signal, error) {
	return call2(f.at, []*signal.Signal{newSignal()}, account, at)
}

func (f fakeCatalogue) SuggestAssets(_ context.Context, account signal.AccountID, _ *signal.View, name string) []string {
	if f.suggest == nil {
		return nil
	}
	return f.suggest(account, name)
}

func (f fakeCatalogue) Counts(_ context.Context, account signal.AccountID, _ *signal.View) (
	map[signal.AgentID]catalogue.Count, error) {
	return call1(f.counts, nil, account)
}

func (f fakeCatalogue) Find(_ context.Context, account signal.AccountID, _ *signal.View,
	id signal.SignalID) (created, closed signal.Position, err error) {
	if f.find == nil {
		return signal.Position{MS: 1}, signal.Position{}, nil
	}
	return f.find(account, id)
}

func (f fakeCatalogue) AwaitClosing(ctx context.Context, account signal.AccountID, id signal.SignalID) error {
	if f.closing == nil {
		return nil
	}
	return f.closing(ctx, account, id)
}

func (f fakeRecords) RequestExit(_ context.Context, account signal.AccountID, id signal.SignalID) error {
	if f.exit == nil {
		return nil
	}
	return f.exit(account, id)
}

func (f fakeRecords) SignalByID(_ context.Context, _ signal.AccountID, id signal.SignalID,
	created, closed signal.Position) (*signal.Signal, error) {
	if f.record == nil {
		return newSignal(), nil
	}
	return f.record(id, created, closed)
}

func (f fakeLimits) Take(_ context.Context, class limits.Class, who string) limits.Decision {
	if f.take == nil {
		return limits.Decision{Class: class, Allowed: true, Limit: 600, Window: time.Minute, Remaining: 599,
			Reset: 100 * time.Millisecond}
	}
	return f.take(class, who)
}

// Peek returns the length of who as what remains, and a refusal.
func (f fakeLimits) Peek(class limits.Class, who string) limits.Decision {
	return limits.Decision{Class: class, Limit: 600, Window: time.Minute, Remaining: len(who), RetryAfter: time.Second}
}

func (f fakeReplies) Claim(_ context.Context, account signal.AccountID, key signal.ReplyKey) (*signal.Reply, error) {
	if f.claim == nil {
		return nil, nil
	}
	return f.claim(account, key)
}

func (f fakeReplies) Release(ctx context.Context, account signal.AccountID, key signal.ReplyKey) error {
	if ctx.Err() != nil {
		return signal.Unavailable(ctx.Err())
	}
	if f.release == nil {
		return nil
	}
	return f.release(account, key)
}

func (f fakeReplies) NewClaim() string { return "" }

func (f fakeReplies) Hold(signal.AccountID, signal.ReplyKey) func() { return func() {} }

func (f fakeReplies) SaveReply(_ context.Context, account signal.AccountID, r *signal.Reply) error {
	return fail2(f.save, account, r)
}

func (f fakeHub) Refusal(context.Context, *signal.Principal, *dashboard.Subscription) (name, detail string) {
	return "assets", f.refusal
}

func (f fakeHub) EnterReader(_ context.Context, p *signal.Principal) error {
	if f.entered.Add(1) > int64(p.MaxConnections) {
		f.entered.Add(-1)
		return dashboard.ErrTooManyConnections
	}
	return nil
}

func (f fakeHub) LeaveReader(*signal.Principal) { f.entered.Add(-1) }

func (f fakeHub) ServeEvents(conn dashboard.Conn, head []byte, p *signal.Principal,
	first *dashboard.Subscription) (leave func()) {
	if f.begins != nil {
		f.begins(first)
	}
	return f.events(conn, head, p)
}

func (f fakeHub) Serve(ws *websocket.Conn, p *signal.Principal, first *dashboard.Subscription, settled func()) {
	if f.settle != nil {
		f.settle(settled)
	} else {
		settled()
	}
	if f.begins != nil {
		f.begins(first)
	}
	if f.serve == nil {
		_ = ws.Close()
		return
	}
	f.serve(ws, p)
}

// Tokens that fakeCredentials knows. "reader" stands for a key with signals:read
// only, "bare" for one without scopes, "view" with JSON behind it, and perhaps a key before it, for a
// reader; all others are refused.
func (f fakeCredentials) Authenticate(_ context.Context, token string) (signal.Principal, error) {
	if key, text, ok := strings.Cut(token, "view"); ok {
		view, err := signal.ParseView(text)
		return signal.Principal{Account: accountID, Key: cmp.Or(signal.KeyID(key), keyID), Scopes: signal.ReaderScopes,
			View: view, MaxConnections: 5}, err
	}
	switch token {
	case "key":
		return signal.Principal{Account: accountID, Key: keyID, Scopes: signal.AllScopes}, nil
	case "jwt":
		return signal.Principal{Account: accountID, Session: "ses_1", Scopes: signal.AllScopes}, nil
	case "reader":
		return signal.Principal{Account: accountID, Key: keyID, Scopes: signal.ScopesOf(signal.SignalsRead)}, nil
	case "bare":
		return signal.Principal{Account: accountID, Key: keyID}, nil
	case "":
		return signal.Principal{}, &signal.Error{Kind: signal.KindUnauthorized, Code: "missing_credentials",
			Message: "no token"}
	}
	return signal.Principal{}, &signal.Error{Kind: signal.KindUnauthorized, Code: "invalid_token", Message: "not valid"}
}

func (f fakeCredentials) RequireJWT(p signal.Principal) error {
	if p.Session == "" {
		return &signal.Error{Kind: signal.KindUnauthorized, Code: "jwt_required", Message: "an API key does not do"}
	}
	return nil
}

func newTokens() credentials.Tokens {
	return credentials.Tokens{Access: "eyJ", ExpiresIn: 15 * time.Minute,
		Refresh: "rt_q3V0xH7mW2cY8nB5kR1tZ6pL4sD9fG0jA7eU2iO5vXw"}
}

func (f fakeCredentials) Login(_ context.Context, email, password string) (credentials.Tokens, error) {
	return call2(f.login, newTokens(), email, password)
}

func (f fakeCredentials) Refresh(_ context.Context, token string) (credentials.Tokens, error) {
	return call1(f.refresh, newTokens(), token)
}

func (f fakeCredentials) Logout(_ context.Context, p signal.Principal, all bool) error {
	return fail2(f.logout, p, all)
}

func (f fakeCredentials) CreateAccount(_ context.Context, email, password string) (credential.Account, error) {
	return call2(f.register, credential.Account{ID: accountID, Email: email, CreatedAt: morning}, email, password)
}

func (f fakeCredentials) ChangePassword(_ context.Context, p signal.Principal, current, next string) error {
	if f.password == nil {
		return nil
	}
	return f.password(p, current, next)
}

func (f fakeCredentials) Account(_ context.Context, id signal.AccountID) (credential.Account, error) {
	return call1(f.account, credential.Account{ID: id, Email: "ada@example.com", CreatedAt: morning}, id)
}

func (f fakeCredentials) CreateKey(_ context.Context, account signal.AccountID, name string, scopes []string,
	expiresIn *int64) (credential.APIKey, string, error) {
	if f.key == nil {
		return credential.APIKey{ID: keyID, Account: account, Name: name, Prefix: secret[:8], Scopes: signal.AllScopes,
			CreatedAt: morning}, secret, nil
	}
	return f.key(account, name, scopes, expiresIn)
}

func (f fakeCredentials) List(_ context.Context, account signal.AccountID,
	limit, offset int) ([]credential.APIKey, int, error) {
	if f.keys == nil {
		return nil, 0, nil
	}
	return f.keys(account, limit, offset)
}

func (f fakeCredentials) RevokeKey(_ context.Context, account signal.AccountID, id signal.KeyID) error {
	return fail2(f.revoke, account, id)
}

// call1 and call2 call the function of a fake. Without one they return plain.
func call1[A, T any](f func(A) (T, error), plain T, a A) (T, error) {
	if f == nil {
		return plain, nil
	}
	return f(a)
}

func call2[A, B, T any](f func(A, B) (T, error), plain T, a A, b B) (T, error) {
	if f == nil {
		return plain, nil
	}
	return f(a, b)
}

// fail2 is call2 for a function that only returns an error.
func fail2[A, B any](f func(A, B) error, a A, b B) error {
	if f == nil {
		return nil
	}
	return f(a, b)
}

func newSignal() *signal.Signal {
	return &signal.Signal{ID: signalID, Account: accountID, Agent: "trading", Run: runID, Asset: "BTC",
		Strategy: "momentum", Timeframe: signal.H1, Risk: signal.MediumRisk, Direction: signal.Long,
		Confidence: 0.4372, FirstConfidence: 0.4372,
		Levels:    &signal.Levels{Entry: 64250.125, Stop: 62900.125, Target: 66275.125},
		Metadata:  json.RawMessage(`{"indicators":["ema_12_26"],"reasoning":"EMA12 is above EMA26."}`),
		CreatedAt: morning, ExpiresAt: morning.Add(24 * time.Hour), UpdatedAt: morning, Sequence: 1}
}

func newJob() signal.Job {
	return signal.Job{ID: jobID, Run: runID, Status: signal.JobQueued, CreatedAt: morning,
		Request: signal.RunRequest{Account: accountID, Agent: "trading", Asset: "BTC", Strategy: "momentum",
			Timeframe: signal.H1, Risk: signal.MediumRisk}}
}

// checker is shared: the description is the same for all tests.
var checker = sync.OnceValue(func() func(testing.TB) *apitest.HTTP {
	var once sync.Once
	var h *apitest.HTTP
	return func(tb testing.TB) *apitest.HTTP {
		once.Do(func() { h = apitest.NewHTTP(tb, "openapi.yaml") })
		return h
	}
})()

// config is what tests change of a server over fakes.
type config struct {
	signalhttp.Options
	Assets                        signalhttp.Assets
	Weather                       signalhttp.Weather
	Speed                         func(ctx context.Context, asset string) int64
	Registration                  bool
	Gatherer                      prometheus.Gatherer
	CORSOrigins                   []string
	MaxAnonymous                  int
	TrustedProxies                []netip.Prefix
	MaxExports, MaxAccountExports int
	ExportStall                   time.Duration
}

// newServer returns a server with all resources over fakes.
func newServer(tb testing.TB, f *fakes, change ...func(*config)) *signalhttp.Server {
	tb.Helper()
	c := &config{Assets: everyAsset{}, Weather: &fakeWeather{}, Registration: true, Gatherer: prometheus.NewRegistry(),
		Speed: func(context.Context, string) int64 { return 1 }}
	c.Authenticator, c.Limits, c.Now = fakeCredentials{f}, fakeLimits{f}, func() time.Time { return morning }
	for _, set := range change {
		set(c)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	var err error
	if c.Origins, err = signalhttp.NewOrigins(c.CORSOrigins); err != nil {
		tb.Fatal(err)
	}
	c.Connections = signalhttp.NewConnectionLimit(c.MaxAnonymous, c.TrustedProxies, c.Metrics)
	s, err := signalhttp.New(c.Options, f.resources(c)...)
	if err != nil {
		tb.Fatalf("make server: %v", err)
	}
	return s
}

// resources returns all resources.
func (f *fakes) resources(c *config) []signalhttp.Resource {
	agents, signals, access := fakeAgents{f}, fakeCatalogue{f}, fakeCredentials{f}
	all := signalhttp.NewAgentCatalogue(agents, &f.ownAgents)
	specs := signalhttp.NewRunSpecs(all, c.Assets)
	once := signalhttp.NewIdempotency(fakeReplies{f}, fakeSealer{}, c.Log)
	webhooks := signalhttp.WebhookOptions{Webhooks: fakeWebhooks{f}, Addresses: fakeAddresses{f}, Assets: signals,
		Sealer: fakeSealer{}, Once: once, Agents: all, Log: c.Log, Now: c.Now}
	if f.challenge != nil {
		webhooks.Challenges = fakeChallenges{f}
	}
	submissions := signalhttp.NewSubmissionHandlers(agents, all, specs, once, 90*24*time.Hour)
	list := signalhttp.NewSignalHandlers(signals, fakeRecords{f}, fakeRecords{f},
		signalhttp.NewExports(c.MaxExports, c.MaxAccountExports, c.ExportStall), all)
	f.intakes.fakeOwnAgents = &f.ownAgents
	f.alerts = signalhttp.NewAlertHandlers(signalhttp.AlertOptions{Intakes: &f.intakes, Submissions: submissions, Signals: list,
		Events: fakeRecords{f}, Now: time.Now, Log: c.Log})
	return []signalhttp.Resource{
		signalhttp.NewRunHandlers(agents, specs, once),
		signalhttp.NewWeatherHandlers(c.Weather),
		list,
		signalhttp.NewJobHandlers(agents),
		signalhttp.NewAgentHandlers(all, signalhttp.NewOwnAgentHandlers(&f.ownAgents, fakeHealth{}, fakeAddresses{f}, c.Now)),
		submissions,
		signalhttp.NewIntakeHandlers(&f.intakes, &f.ownAgents, c.Now),
		f.alerts,
		signalhttp.NewAssetHandlers(c.Assets),
		signalhttp.NewWorkHandlers(fakeWork{&f.workFakes}, specs),
		signalhttp.NewScorecardHandlers(fakeWork{&f.workFakes}, signals, all, c.Now),
		signalhttp.NewAuditHandlers(fakeWork{&f.workFakes}),
		signalhttp.NewRecordHandlers(fakeRecord{&f.recordFakes}, fakeWitnesses{&f.recordFakes}, signals,
			[]string{"name+1a2b3c4d+AAAA"}),
		signalhttp.NewScheduleHandlers(fakeSchedules{&f.scheduleFakes}, specs, c.Speed, c.Now),
		signalhttp.NewWebhookHandlers(webhooks),
		signalhttp.NewDeliveryHandlers(fakeDeliveries{f}, fakeWebhooks{f}, fakeEnvelope, once, c.Now),
		signalhttp.NewMCPHandlers(c.Origins),
		signalhttp.NewStreamHandlers(fakeHub{f}, access, c.Origins, c.Connections),
		signalhttp.NewAccessHandlers(access, access, c.Registration),
		signalhttp.NewKeyHandlers(access, signalhttp.NewReaderHandlers(signalhttp.ReaderOptions{Readers: &f.readers,
			Connections: &f.readers, Agents: all, Assets: c.Assets, Suggester: signals, Now: c.Now}), c.Now),
		signalhttp.NewPublicationHandlers(fakePublications{f}),
		signalhttp.NewPublicRecordHandlers(fakePublications{f}, fakePublications{f}, "noindex"),
		signalhttp.NewPageHandlers(),
		signalhttp.ConsoleHandlers{},
		signalhttp.NewMetricsHandlers(c.Gatherer),
	}
}

// answer is the answer to a request.
type answer struct {
	Status int
	Header http.Header
	Body   string
}

// problem holds the members of an error document that tests check.
type problem struct {
	Code, Detail, Instance string
	RequestID              string `json:"request_id"`
	RequiredScope          string `json:"required_scope"`
	RunID                  string `json:"run_id"`
	ErrorCode              string `json:"error_code"`
	Retryable              bool
	Errors                 []struct {
		Pointer, Parameter, Header *string
		Code, Detail               string
	}
}

func (a answer) problem(tb testing.TB) problem {
	tb.Helper()
	var p problem
	if err := json.Unmarshal([]byte(a.Body), &p); err != nil {
		tb.Fatalf("read problem %q: %v", a.Body, err)
	}
	return p
}

// faults returns the faults of a 400 as "place code".
func (a answer) faults(tb testing.TB) []string {
	tb.Helper()
	var list []string
	for _, e := range a.problem(tb).Errors {
		switch {
		case e.Pointer != nil:
			list = append(list, "body "+*e.Pointer+" "+e.Code)
		case e.Parameter != nil:
			list = append(list, "query "+*e.Parameter+" "+e.Code)
		case e.Header != nil:
			list = append(list, "header "+*e.Header+" "+e.Code)
		}
	}
	return list
}

// do sends a request to the server's handler and compares the exchange with the description.
// Headers are "Name: value". Without an Authorization among them the API key is sent, with
// "Authorization:" no credential.
func do(tb testing.TB, s *signalhttp.Server, method, target, body string, headers ...string) answer {
	tb.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, target, reader)
	r.Header.Set("Authorization", "Bearer key")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ":")
		if name == "Authorization" {
			r.Header.Del(name)
		}
		if value = strings.TrimSpace(value); value != "" || name != "Authorization" {
			r.Header.Add(name, value)
		}
	}
	w := httptest.NewRecorder()
	checker(tb).Handler(tb, s.Handler()).ServeHTTP(w, r)
	return answer{w.Code, w.Header(), w.Body.String()}
}
