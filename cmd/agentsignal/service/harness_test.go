package service

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/http/apitest"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// password is that of the accounts of tests.
const password = "correct horse battery"

func TestMain(m *testing.M) {
	code := commandtest.Main(m)
	if !lasting.end() {
		code = 1
	}
	os.Exit(code)
}

// patience limits every wait for a condition.
const patience = commandtest.Patience

// journal is a log that tests read.
type journal = commandtest.Journal

// Short names of helpers that are shared with the tests of commands.
var (
	eventually = commandtest.Eventually
	must       = commandtest.Must
	written    = commandtest.Written
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
	must(tb, err)
	tb.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// The descriptions of the API.
const (
	openAPIFile  = "../../../http/openapi.yaml"
	asyncAPIFile = "../../../http/asyncapi.yaml"
)

// These compare exchanges with the descriptions.
var (
	httpCheck   = once(func(tb testing.TB) *apitest.HTTP { return apitest.NewHTTP(tb, openAPIFile) })
	streamCheck = once(func(tb testing.TB) *apitest.Stream { return apitest.NewStream(tb, asyncAPIFile) })
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

// service is a service in the test process.
type service struct {
	tb      testing.TB
	process *process
	log     *journal
	url     string // http://host:port
	end     context.CancelFunc
	ended   chan struct{}
	err     error // of run; set when ended is closed
}

// testConfig returns the settings of a service on the Redis at url; without one it
// starts its own. Prices come from outside, and rate limits are not reached.
func testConfig(tb testing.TB, url string) configs.Config {
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
	c.RateLimit = configs.RateLimit{Reads: many, Runs: many, Writes: many, Streams: many, Logins: many,
		Registrations: many, Sessions: many, Failures: many, Scrapes: many}
	return c
}

// newKeys makes the names of keys of a new installation.
var newKeys = redisclient.Installation{Partitions: redisclient.NewPartitions, Even: true}.Keys()

// begin builds and runs a service. It is stopped when the test ends. change may
// change it between the two.
func begin(tb testing.TB, c configs.Config, change ...func(*process)) *service {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &service{tb: tb, log: &journal{}, end: cancel, ended: make(chan struct{})}
	p, err := newProcess(ctx, c, Options{
		log:      slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		shutdown: patience,
	})
	if err != nil {
		cancel()
		s.err = fmt.Errorf("build service: %w", err)
		close(s.ended)
		return s
	}
	for _, f := range change {
		f(p)
	}
	s.process, s.url = p, "http://"+p.listener.Addr().String()
	go func() {
		defer close(s.ended)
		s.err = p.run(ctx)
	}()
	tb.Cleanup(func() {
		s.end()
		<-s.ended
		s.log.Blame(tb)
		s.process = nil // s lives until all parallel tests have ended
	})
	return s
}

// start is begin for a service that is to be used: it waits until it is ready, and
// it must end well.
func start(tb testing.TB, c configs.Config, change ...func(*process)) *service {
	tb.Helper()
	s := begin(tb, c, change...)
	tb.Cleanup(func() { s.stop(tb) })
	s.awaitReady(tb)
	return s
}

func (s *service) awaitReady(tb testing.TB) {
	tb.Helper()
	eventually(tb, "the service is ready", func() bool {
		select {
		case <-s.ended:
			tb.Fatalf("the service ended: %v", s.err)
		default:
		}
		return s.process.serving.Load().Ready(context.Background()).Status == "ready"
	})
}

// stop ends the service as SIGTERM does.
func (s *service) stop(tb testing.TB) {
	tb.Helper()
	s.end()
	<-s.ended
	if s.err != nil {
		tb.Errorf("the service ended with: %v", s.err)
	}
}

// client returns a client without a credential.
func (s *service) client(tb testing.TB) *client { return newClient(tb, s.url, "") }

// account makes an account and returns a client with an API key of it, which has
// the scopes, all if none is named.
func (s *service) account(tb testing.TB, scopes ...string) (*client, credential.Account) {
	tb.Helper()
	a, err := s.process.credentials.CreateAccount(tb.Context(), newEmail(), password)
	if err != nil {
		tb.Fatalf("create account: %v", err)
	}
	_, secret, err := s.process.credentials.CreateKey(tb.Context(), a.ID, "key", scopes, nil)
	if err != nil {
		tb.Fatalf("create key: %v", err)
	}
	return newClient(tb, s.url, secret), a
}

// startTrading is start for a service with a last trade of ACME at 101.25, with a client.
func startTrading(
	tb testing.TB, redis *redistest.Server, change ...func(*process),
) (*service, *client, credential.Account) {
	tb.Helper()
	s := start(tb, testConfig(tb, redis.URL()), change...)
	newMarket(tb, redis.Client()).open("ACME", "101.25")
	s.awaitTrade(tb, "ACME", 101.25)
	trader, account := s.account(tb)
	return s, trader, account
}

// newEmail returns an address that no other account has.
func newEmail() string { return strings.ToLower(string(signal.NewAccountID())) + "@example.com" }

// shared returns a service that many tests use at once, each with an account of its
// own. Some assets have bars and no trades, so that no run finds them too old.
var shared = once(func(tb testing.TB) *service {
	long := lastingTB{tb}
	redis := redistest.New(long)
	s := begin(long, testConfig(long, redis.URL()))
	s.awaitReady(tb)
	prices := newMarket(long, redis.Client())
	for _, asset := range []string{"BTC", "ETH", "AAPL", "oil"} {
		prices.hours(asset, 400)
		s.awaitPrices(tb, asset, signal.H1)
	}
	prices.bars("ETH", signal.D1, 24*time.Hour, 400) // of 5 minutes they would be too old for the last tests
	s.awaitPrices(tb, "ETH", signal.D1)
	return s
})

// awaitPrices waits until the asset can be run on.
func (s *service) awaitPrices(tb testing.TB, asset string, tf signal.Timeframe) {
	tb.Helper()
	eventually(tb, "there are prices of "+asset, func() bool {
		_, err := s.process.market.Series(context.Background(), asset, tf)
		return err == nil
	})
}

// awaitTrade waits until the last trade of the asset is the one with the price.
func (s *service) awaitTrade(tb testing.TB, asset string, price float64) {
	tb.Helper()
	eventually(tb, "the last trade of "+asset+" is known", func() bool {
		seen, err := s.process.market.Series(context.Background(), asset, signal.H1)
		return err == nil && seen.Ticks && seen.Last.Price == price
	})
}

// metric returns the sum of a metric of the service, see metricOf.
func (s *service) metric(tb testing.TB, name string, labels ...string) float64 {
	tb.Helper()
	w := httptest.NewRecorder() // GET /metrics may give an answer that is a second old
	promhttp.HandlerFor(s.process.registry, promhttp.HandlerOpts{}).
		ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return metricOf(w.Body.String(), name, labels...)
}
