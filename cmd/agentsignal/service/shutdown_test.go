package service

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/apitest"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// slowRequest is a request whose body is not complete.
type slowRequest struct {
	tb      testing.TB
	conn    net.Conn
	request *http.Request
	body    string
}

// beginRun sends a run without the end of its body.
func (c *client) beginRun(body string) *slowRequest {
	c.tb.Helper()
	conn := rawConn(c.tb, c.url)
	r, err := http.NewRequest(http.MethodPost, c.url+"/v1/agents/trading/run", strings.NewReader(body))
	must(c.tb, err)
	r.Header.Set("Authorization", "Bearer "+c.token)
	var whole strings.Builder
	must(c.tb, r.Write(&whole))
	head := strings.TrimSuffix(whole.String(), body)
	if _, err := io.WriteString(conn, head+body[:1]); err != nil {
		c.tb.Fatal(err)
	}
	return &slowRequest{c.tb, conn, r, body}
}

// finish sends the rest and returns the answer.
func (s *slowRequest) finish() answer {
	s.tb.Helper()
	if _, err := io.WriteString(s.conn, s.body[1:]); err != nil {
		s.tb.Fatalf("send the rest: %v", err)
	}
	w, err := http.ReadResponse(bufio.NewReader(s.conn), s.request)
	if err != nil {
		s.tb.Fatalf("read the answer: %v", err)
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	if err != nil {
		s.tb.Fatalf("read the answer: %v", err)
	}
	s.request.Body = http.NoBody
	if err := httpCheck(s.tb).Check(apitest.Exchange{Request: s.request, RequestBody: []byte(s.body),
		Status: w.StatusCode, Header: w.Header, Body: text}); err != nil {
		s.tb.Errorf("%v: %s", err, text)
	}
	return answer{Status: w.StatusCode, Header: w.Header, Body: string(text)}
}

// endsWithin is more than a service may take to end on a busy machine, and less than it takes if it waits for what
// it should have cancelled.
const endsWithin = 30 * time.Second

func TestSIGTERMEndsTheServiceInOrder(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	const delay = 8 * time.Second // a busy machine is asked in time whether it drains
	settings := childSettings(t, redis.URL(), "AUTH_REGISTRATION=open", "SHUTDOWN_DELAY="+delay.String())
	c := launch(t, settings...)
	public, trader := c.client(t), c.newTrader(t, redis)
	live := trader.dial()
	slow := trader.beginRun(runBody("ACME", "momentum"))
	eventually(t, "the slow run is being answered", func() bool {
		return metricOf(public.get("/metrics").Body, "agentsignal_http_requests_in_flight") == 2 // and this one
	})

	began := time.Now()
	c.signal(syscall.SIGTERM)
	eventually(t, "it drains", func() bool {
		_, ready, status := public.health()
		return ready == http.StatusServiceUnavailable && status == "draining"
	})
	during := trader.run("ACME", "momentum") // load balancers may not have noticed yet
	eventually(t, "it stops listening", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(c.url, "http://"))
		if err == nil {
			conn.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	last := decode[wireSignal](t, slow.finish().ok(t).Body)
	live.closes(1001)
	live.signals(during.ID, last.ID)
	code, _ := c.exit()
	if took := time.Since(began); code != 0 || took < delay || took > delay+endsWithin {
		t.Errorf("it ended with %d after %s", code, took)
	}

	again := launchReady(t, settings...)
	trader.at(again.url).lists("strategy=momentum", 2, last.ID, during.ID)
}

func TestASecondSIGTERMEndsTheServiceAtOnce(t *testing.T) {
	t.Parallel()
	impatient := launch(t, childSettings(t, redistest.New(t).URL(), "SHUTDOWN_DELAY=1h")...)
	impatient.signal(syscall.SIGTERM)
	public := impatient.client(t)
	// A signal that is sent before the first one has been received is lost: they do not queue.
	eventually(t, "it drains", func() bool {
		_, _, status := public.health()
		return status == "draining"
	})
	impatient.signal(syscall.SIGTERM)
	impatient.exits(exitForced)
}

func TestADataDirectoryHasOneService(t *testing.T) {
	t.Parallel()
	c := testConfig(t, "")
	s := start(t, c)
	second := spawn(t, []string{"serve"}, "DATA_DIR="+c.DataDir)
	second.exits(exitFailed)
	if second.log.Line("agentsignal: ", c.DataDir, "in use by another agentsignal process") == "" {
		t.Errorf("a second service on the data directory logs: %s", second.log)
	}
	s.awaitReady(t) // a check of Redis may take too long on a busy machine
}

// refused waits for a service that must not run, and returns why.
func (s *service) refused(tb testing.TB) string {
	tb.Helper()
	eventually(tb, "the service ends", func() bool {
		if s.process != nil && s.process.serving.Load().Ready(context.Background()).Status == "ready" {
			tb.Error("a service is ready that may not take part")
		}
		select {
		case <-s.ended:
			return true
		default:
			return false
		}
	})
	if s.err == nil {
		tb.Fatal("the service ended without an error")
	}
	return s.err.Error()
}

func TestAServiceThatDoesNotFitIsRefused(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	c := testConfig(t, redis.URL())
	first := start(t, c)

	other := testConfig(t, redis.URL())
	other.Partitions = 4
	has := fmt.Sprintf("partitions: %d, and the setting says 4:", redisclient.NewPartitions)
	if why := begin(t, other).refused(t); !strings.Contains(why, has) {
		t.Errorf("other partitions are refused with: %s", why)
	}
	alone := testConfig(t, redis.URL())
	if why := begin(t, alone).refused(t); !strings.Contains(why,
		"cluster: true: set it for both, stop one, or give one another redis.url") {
		t.Errorf("a second service without cluster is refused with: %s", why)
	}
	trader, _ := first.account(t)
	trader.lists("", 0)
	first.awaitReady(t)
	if n := first.process.joined.Load().Owned(); n != first.process.store.Client.Partitions() {
		t.Errorf("the first service owns %d partitions", n)
	}
}

func TestStreamsGetEveryEventBeforeTheyEnd(t *testing.T) {
	t.Parallel()
	// Each read of the event log keeps the node busy for a while.
	s, trader, _ := startTrading(t, redistest.New(t), func(p *process) {
		p.tail.Subscribe(func(int, []signal.Event) { time.Sleep(100 * time.Millisecond) })
	})
	live := trader.dial()
	var made []string
	for range 3 {
		made = append(made, trader.run("ACME", "momentum").ID)
	}
	s.stop(t)
	live.closes(1001)
	live.signals(made...)
}
