package durability

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestSIGTERMEndsTheServiceInOrder(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	const delay = 8 * time.Second // a busy machine is asked in time whether it drains
	settings := e2e.ChildSettings(t, redis.URL(), "AUTH_REGISTRATION=open", "SHUTDOWN_DELAY="+delay.String())
	c := e2e.Launch(t, settings...)
	public, trader := c.Client(t), c.NewTrader(t, redis)
	live := trader.Dial()
	slow := trader.BeginRun(e2e.RunBody("ACME", "momentum"))
	e2e.Eventually(t, "the slow run is being answered", func() bool {
		return e2e.MetricOf(public.Get("/metrics").Body, "agentsignal_http_requests_in_flight") == 2 // and this one
	})

	began := time.Now()
	c.Signal(syscall.SIGTERM)
	e2e.Eventually(t, "it drains", func() bool {
		_, ready, status := public.Health()
		return ready == http.StatusServiceUnavailable && status == "draining"
	})
	during := trader.Run("ACME", "momentum") // load balancers may not have noticed yet
	e2e.Eventually(t, "it stops listening", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(c.URL, "http://"))
		if err == nil {
			conn.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	last := e2e.Decode[e2e.WireSignal](t, slow.Finish().Ok(t).Body)
	live.Closes(1001)
	live.Signals(during.ID, last.ID)
	code, _ := c.Exit()
	if took := time.Since(began); code != 0 || took < delay || took > delay+e2e.EndsWithin {
		t.Errorf("it ended with %d after %s", code, took)
	}

	again := e2e.LaunchReady(t, settings...)
	trader.At(again.URL).Lists("strategy=momentum", 2, last.ID, during.ID)
}

func TestASecondSIGTERMEndsTheServiceAtOnce(t *testing.T) {
	t.Parallel()
	impatient := e2e.Launch(t, e2e.ChildSettings(t, redistest.New(t).URL(), "SHUTDOWN_DELAY=1h")...)
	impatient.Signal(syscall.SIGTERM)
	public := impatient.Client(t)
	// A signal that is sent before the first one has been received is lost: they do not queue.
	e2e.Eventually(t, "it drains", func() bool {
		_, _, status := public.Health()
		return status == "draining"
	})
	impatient.Signal(syscall.SIGTERM)
	impatient.Exits(e2e.ExitForced)
}

func TestADataDirectoryHasOneService(t *testing.T) {
	t.Parallel()
	c := e2e.TestConfig(t, "")
	s := e2e.Start(t, c)
	second := e2e.Spawn(t, []string{"serve"}, "DATA_DIR="+c.DataDir)
	second.Exits(e2e.ExitFailed)
	if second.Log.Line("agentsignal: ", c.DataDir, "in use by another agentsignal process") == "" {
		t.Errorf("a second service on the data directory logs: %s", second.Log)
	}
	s.AwaitReady(t) // a check of Redis may take too long on a busy machine
}

func TestAServiceThatDoesNotFitIsRefused(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	c := e2e.TestConfig(t, redis.URL())
	first := e2e.Start(t, c)

	other := e2e.TestConfig(t, redis.URL())
	other.Partitions = 4
	has := fmt.Sprintf("partitions: %d, and the setting says 4:", redisclient.NewPartitions)
	if why := e2e.Begin(t, other).Refused(t); !strings.Contains(why, has) {
		t.Errorf("other partitions are refused with: %s", why)
	}
	alone := e2e.TestConfig(t, redis.URL())
	if why := e2e.Begin(t, alone).Refused(t); !strings.Contains(why,
		"cluster: true: set it for both, stop one, or give one another redis.url") {
		t.Errorf("a second service without cluster is refused with: %s", why)
	}
	trader, _ := first.Account(t)
	trader.Lists("", 0)
	first.AwaitReady(t)
	if n := first.Partitions().Owned(); n != first.Store().Client.Partitions() {
		t.Errorf("the first service owns %d partitions", n)
	}
}

func TestStreamsGetEveryEventBeforeTheyEnd(t *testing.T) {
	t.Parallel()
	// Each read of the event log keeps the node busy for a while.
	s, trader, _ := e2e.StartTrading(t, redistest.New(t), func(i *service.Instance) {
		i.Tail().Subscribe(func(int, []signal.Event) { time.Sleep(100 * time.Millisecond) })
	})
	live := trader.Dial()
	var made []string
	for range 3 {
		made = append(made, trader.Run("ACME", "momentum").ID)
	}
	s.Stop(t)
	live.Closes(1001)
	live.Signals(made...)
}
