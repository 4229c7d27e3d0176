package e2e

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/http/apitest"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// Password is that of the accounts of tests.
const Password = "correct horse battery"

// Main runs the tests of a package and ends what they have shared. It returns the exit code.
func Main(m *testing.M) int { return end(commandtest.Main(m)) }

// MainUnlessShort is Main for tests that take long: with -short none of them runs.
func MainUnlessShort(m *testing.M) int { return end(commandtest.MainUnlessShort(m)) }

func end(code int) int {
	if !lasting.end() {
		return 1
	}
	return code
}

// WaitLimit limits every wait for a condition.
const WaitLimit = commandtest.WaitLimit

// Journal is a log that tests read.
type Journal = commandtest.Journal

// Short names of helpers that are shared with the tests of commands.
var (
	Eventually = commandtest.Eventually
	Must       = commandtest.Must
	Written    = commandtest.Written
)

// lasting holds what outlives the test that made it, for the tests that share it.
var lasting steps

// steps are run at the end, the last first.
type steps struct {
	mu   sync.Mutex
	list []func()
	bad  bool // something went wrong after the last test
}

func (s *steps) add(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, f)
}

func (s *steps) end() (ok bool) {
	for i := len(s.list) - 1; i >= 0; i-- {
		s.list[i]()
	}
	return !s.bad
}

// lastingTB is a testing.TB whose cleanups wait for the end of all tests, and may
// report what they find then.
type lastingTB struct{ testing.TB }

// Errorf implements testing.TB.
func (lastingTB) Errorf(format string, args ...any) {
	lasting.bad = true
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

// Logf implements testing.TB.
func (lastingTB) Logf(string, ...any) {}

func (lastingTB) Cleanup(f func()) { lasting.add(f) }

func (tb lastingTB) TempDir() string {
	dir, err := os.MkdirTemp("", "agentsignal")
	Must(tb, err)
	tb.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Repository is the path of the repository from the packages of tests.
const Repository = "../../../.."

// The descriptions of the API.
const (
	OpenAPIFile  = "../../../../http/openapi.yaml"
	asyncAPIFile = "../../../../http/asyncapi.yaml"
)

// These compare exchanges with the descriptions.
var (
	httpCheck   = once(func(tb testing.TB) *apitest.HTTP { return apitest.NewHTTP(tb, OpenAPIFile) })
	StreamCheck = once(func(tb testing.TB) *apitest.Stream { return apitest.NewStream(tb, asyncAPIFile) })
)

// once returns a function that makes a value at its first call.
func once[T any](f func(testing.TB) T) func(testing.TB) T {
	var o sync.Once
	var v T
	made := false
	return func(tb testing.TB) T {
		tb.Helper()
		o.Do(func() { v, made = f(tb), true })
		if !made {
			tb.Fatal("what this test shares with others could not be made")
		}
		return v
	}
}

// Service is a service in the test process.
type Service struct {
	*service.Instance
	tb    testing.TB
	Log   *Journal
	URL   string // http://host:port
	end   context.CancelFunc
	Ended chan struct{}
	Err   error // of run; set when ended is closed
}

// TestConfig returns the settings of a service on the Redis at url; without one it
// starts its own. Prices come from outside, and rate limits are not reached.
func TestConfig(tb testing.TB, url string) configs.Config {
	c := configs.Default()
	c.HTTP.Addr = "127.0.0.1:0"
	c.DataDir = tb.TempDir()
	c.Redis.URL = configs.Secret(url)
	// The machine may be busy.
	c.Redis.Timeout, c.Lease = configs.Duration(20*time.Second), configs.Duration(15*time.Second)
	c.Runs.Timeout = configs.Duration(3 * time.Minute)
	c.Market.Source = "stream"
	c.Audit.Every = 0 // some tests store signals that no run has made
	many := "1000000/m"
	c.RateLimit = configs.RateLimit{Reads: many, Runs: many, Intakes: many, Writes: many, Streams: many, Logins: many,
		Registrations: many, Sessions: many, Failures: many, Pages: many, Scrapes: many}
	return c
}

// NewKeys makes the names of keys of a new installation.
var NewKeys = redisclient.NewKeys(redisclient.NewPartitions)

// Begin builds and runs a service. It is stopped when the test ends.
func Begin(tb testing.TB, c configs.Config) *Service {
	tb.Helper()
	return beginWith(tb, c, service.Options{})
}

// beginWith is begin with options.
func beginWith(tb testing.TB, c configs.Config, o service.Options) *Service {
	tb.Helper()
	o.AlertWait = cmp.Or(o.AlertWait, time.Minute) // on a slow machine, too, an alert is answered with its signal
	ctx, cancel := context.WithCancel(context.Background())
	s := &Service{tb: tb, Log: &Journal{}, end: cancel, Ended: make(chan struct{})}
	o.Log = cmp.Or(o.Log, slog.New(slog.NewJSONHandler(s.Log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	o.Shutdown = WaitLimit
	i, err := service.New(ctx, c, o)
	if err != nil {
		cancel()
		s.Err = fmt.Errorf("build service: %w", err)
		close(s.Ended)
		return s
	}
	s.Instance, s.URL = i, "http://"+i.Addr().String()
	go func() {
		defer close(s.Ended)
		s.Err = i.Run(ctx)
	}()
	tb.Cleanup(func() {
		s.end()
		<-s.Ended
		s.Log.Blame(tb)
		s.Instance = nil // s lives until all parallel tests have ended
	})
	return s
}

// Start is begin for a service that is to be used: it waits until it is ready, and
// it must end well.
func Start(tb testing.TB, c configs.Config) *Service {
	tb.Helper()
	return StartWith(tb, c, service.Options{})
}

// StartWith is start with options.
func StartWith(tb testing.TB, c configs.Config, o service.Options) *Service {
	tb.Helper()
	s := beginWith(tb, c, o)
	tb.Cleanup(func() { s.Stop(tb) })
	s.AwaitReady(tb)
	return s
}

// AwaitReady waits until the service takes requests.
func (s *Service) AwaitReady(tb testing.TB) {
	tb.Helper()
	Eventually(tb, "the service is ready", func() bool {
		select {
		case <-s.Ended:
			tb.Fatalf("the service ended: %v", s.Err)
		default:
		}
		return s.Ready(context.Background())
	})
}

// Stop ends the service as SIGTERM does.
func (s *Service) Stop(tb testing.TB) {
	tb.Helper()
	s.end()
	<-s.Ended
	if s.Err != nil {
		tb.Errorf("the service ended with: %v", s.Err)
	}
}

// Client returns a client without a credential.
func (s *Service) Client(tb testing.TB) *Client { return NewClient(tb, s.URL, "") }

// Account makes an account and returns a client with an API key of it, which has
// the scopes, all if none is named.
func (s *Service) Account(tb testing.TB, scopes ...string) (*Client, credential.Account) {
	tb.Helper()
	a, err := s.Credentials().Accounts.CreateAccount(tb.Context(), NewEmail(), Password)
	if err != nil {
		tb.Fatalf("create account: %v", err)
	}
	_, secret, err := s.Credentials().Keys.CreateKey(tb.Context(), a.ID, "key", scopes, nil)
	if err != nil {
		tb.Fatalf("create key: %v", err)
	}
	return NewClient(tb, s.URL, secret), a
}

// StartTrading is start for a service with a last trade of ACME at 101.25, with a client.
func StartTrading(
	tb testing.TB, redis *redistest.Server, change ...func(*service.Instance),
) (*Service, *Client, credential.Account) {
	tb.Helper()
	s := Start(tb, TestConfig(tb, redis.URL()))
	NewMarket(tb, redis.Client()).Open("ACME", "101.25")
	s.AwaitTrade(tb, "ACME", 101.25)
	trader, account := s.Account(tb)
	return s, trader, account
}

// NewEmail returns an address that no other account has.
func NewEmail() string { return strings.ToLower(string(signal.NewAccountID())) + "@example.com" }

// Shared returns a service that many tests use at once, each with an account of its
// own. Some assets have bars and no trades, so that no run finds them too old.
var Shared = once(func(tb testing.TB) *Service {
	long := lastingTB{tb}
	redis := redistest.New(long)
	s := Begin(long, TestConfig(long, redis.URL()))
	s.AwaitReady(tb)
	prices := NewMarket(long, redis.Client())
	for _, asset := range []string{"BTC", "ETH", "AAPL", "oil"} {
		prices.Hours(asset, 400)
		s.AwaitPrices(tb, asset, signal.H1)
	}
	prices.bars("ETH", signal.D1, 24*time.Hour, 400) // of 5 minutes they would be too old for the last tests
	s.AwaitPrices(tb, "ETH", signal.D1)
	return s
})

// AwaitPrices waits until the asset can be run on.
func (s *Service) AwaitPrices(tb testing.TB, asset string, tf signal.Timeframe) {
	tb.Helper()
	Eventually(tb, "there are prices of "+asset, func() bool {
		_, err := s.Market().Series(context.Background(), asset, tf)
		return err == nil
	})
}

// AwaitTrade waits until the last trade of the asset is the one with the price.
func (s *Service) AwaitTrade(tb testing.TB, asset string, price float64) {
	tb.Helper()
	Eventually(tb, "the last trade of "+asset+" is known", func() bool {
		seen, err := s.Market().Series(context.Background(), asset, signal.H1)
		return err == nil && seen.Ticks && seen.Last.Price == price
	})
}

// Metric returns the sum of a metric of the service, see metricOf.
func (s *Service) Metric(tb testing.TB, name string, labels ...string) float64 {
	tb.Helper()
	w := httptest.NewRecorder() // GET /metrics may give an answer that is a second old
	promhttp.HandlerFor(s.Metrics(), promhttp.HandlerOpts{}).
		ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return MetricOf(w.Body.String(), name, labels...)
}

// MetricOf returns the sum of a metric in the text of /metrics over the series that
// have all labels, each like `code="200"`.
func MetricOf(text, name string, labels ...string) float64 {
	total := 0.
series:
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(rest, "{"+l) && !strings.Contains(rest, ","+l) {
				continue series
			}
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
		if err == nil {
			total += value
		}
	}
	return total
}

// Warnings returns the warnings of /readyz, and its status.
func (s *Service) Warnings(t *testing.T) ([]string, int) {
	t.Helper()
	a := s.Client(t).Get("/readyz")
	return Decode[struct{ Warnings []string }](t, a.Body).Warnings, a.Status
}

// User makes an account and returns a client with an access token of it, the tokens,
// and its email.
func (s *Service) User(tb testing.TB) (*Client, Tokens, string) {
	tb.Helper()
	email := NewEmail()
	if _, err := s.Credentials().Accounts.CreateAccount(tb.Context(), email, Password); err != nil {
		tb.Fatalf("create account: %v", err)
	}
	got := s.Client(tb).Login(email, Password)
	return NewClient(tb, s.URL, got.Access), got, email
}

// Refused waits for a service that must not run, and returns why.
func (s *Service) Refused(tb testing.TB) string {
	tb.Helper()
	Eventually(tb, "the service ends", func() bool {
		if s.Instance != nil && s.Ready(context.Background()) {
			tb.Error("a service is ready that may not take part")
		}
		select {
		case <-s.Ended:
			return true
		default:
			return false
		}
	})
	if s.Err == nil {
		tb.Fatal("the service ended without an error")
	}
	return s.Err.Error()
}
