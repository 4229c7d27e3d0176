package service

import (
	"net/http"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// wireSchedule holds the members of a schedule that tests check.
type wireSchedule struct {
	ID        string     `json:"schedule_id"`
	Status    string     `json:"status"`
	NextRunAt *time.Time `json:"next_run_at"`
	LastRunAt *time.Time `json:"last_run_at"`
	LastError *struct {
		Code    string `json:"error_code"`
		Message string
		At      time.Time
	} `json:"last_error"`
	Failures int
	Skipped  int
}

// everySecond is a schedule of the content agent, which needs no market: bars of a
// minute last a second where there is a simulated one.
const everySecond = `{"agent_id":"seo","assets":["standing desk","oak chair"],"strategy":"meta_tags",` +
	`"timeframe":"1m","every":"bar","max_open":`

// addSchedule makes a schedule.
func (c *client) addSchedule(body string) wireSchedule {
	c.tb.Helper()
	return decode[wireSchedule](c.tb, c.post("/v1/schedules", body).ok(c.tb).Body)
}

// afterRound returns a schedule after its first round.
func (c *client) afterRound(id string) (s wireSchedule) {
	c.tb.Helper()
	eventually(c.tb, "the round is over", func() bool {
		s = c.schedule(id)
		return s.LastRunAt != nil
	})
	return s
}

func (c *client) schedule(id string) wireSchedule {
	c.tb.Helper()
	return decode[wireSchedule](c.tb, c.get("/v1/schedules/"+id).ok(c.tb).Body)
}

// afterRounds waits until a schedule has had the given number of rounds.
func (c *client) afterRounds(id string, rounds int) {
	c.tb.Helper()
	seen := map[time.Time]bool{}
	eventually(c.tb, "the schedule runs on", func() bool {
		if next := c.schedule(id).NextRunAt; next != nil {
			seen[*next] = true
		}
		return len(seen) > rounds
	})
}

func TestMarketSpeedIsTheSimulatedMarkets(t *testing.T) {
	t.Parallel()
	for sources, want := range map[string]int64{"simulated": 60, "stream, simulated": 60, "binance,simulated": 60,
		"stream": 1, "binance,stream": 1, "alpaca": 1} {
		if got := barSpeed(configs.Market{Source: sources, Speed: 60}); got != want {
			t.Errorf("%s: %d times real time, want %d", sources, got, want)
		}
	}
}

func TestASchedulesSignalsAreNoMoreThanMayBeOpen(t *testing.T) {
	t.Parallel()
	c := testConfig(t, redistest.New(t).URL())
	c.Market.Source = "simulated"
	trader, _ := start(t, c).account(t)
	s := trader.addSchedule(everySecond + `2}`)
	eventually(t, "each asset has two signals", func() bool { return trader.signals("").Total == 4 })
	trader.afterRounds(s.ID, 2)
	trader.lists("status=open&strategy=meta_tags&asset=OAK%20chair", 2)
	trader.lists("", 4)
	// A higher maximum is used, and none after it is disabled.
	trader.do("PATCH", "/v1/schedules/"+s.ID, `{"max_open":3}`).ok(t)
	eventually(t, "each asset has three signals", func() bool { return trader.signals("").Total == 6 })
	trader.do("PATCH", "/v1/schedules/"+s.ID, `{"max_open":9,"status":"disabled"}`).ok(t)
	if got := trader.schedule(s.ID); got.NextRunAt != nil || got.Status != "disabled" {
		t.Errorf("disabled it is %+v", got)
	}
	trader.do("DELETE", "/v1/schedules/"+s.ID, "").want(t, http.StatusNoContent)
	trader.get("/v1/schedules/"+s.ID).fails(t, "not_found")
}

// TestSchedulesDrawFromTheQuotaOfRuns: what a schedule runs, a client cannot run beside it.
func TestSchedulesDrawFromTheQuotaOfRuns(t *testing.T) {
	t.Parallel()
	c := testConfig(t, redistest.New(t).URL())
	c.RateLimit.Runs = "5/h"
	svc := start(t, c)
	trader, _ := svc.account(t)
	const subjects = `{"agent_id":"seo","strategy":"meta_tags","every":"1440m","assets":["a","b","c","d","e","f",` +
		`"g","h"]}`
	s := trader.addSchedule(subjects)
	if got := trader.afterRound(s.ID); got.Skipped != 1 || got.Failures != 0 || got.LastError != nil {
		t.Errorf("after a round of 8 runs with a quota of 5: %+v", got)
	}
	trader.lists("", 5)
	trader.post("/v1/agents/seo/run", runBody("i", "meta_tags")).fails(t, "rate_limited")
	if n := svc.metric(t, "agentsignal_scheduled_runs_total", `result="skipped"`); n != 3 {
		t.Errorf("%v runs are counted as skipped, want 3", n)
	}
}

// TestASchedulesLastErrorIsShown: an asset whose price was never sent has no data.
func TestASchedulesLastErrorIsShown(t *testing.T) {
	t.Parallel()
	trader, _ := start(t, testConfig(t, redistest.New(t).URL())).account(t)
	const nothing = `{"agent_id":"trading","strategy":"momentum","every":"1440m","assets":["NOSUCH"]}`
	s := trader.addSchedule(nothing)
	got := trader.afterRound(s.ID)
	if got.Failures != 1 || got.LastError == nil || got.LastError.Code != "DATA_UNAVAILABLE" ||
		got.LastError.Message == "" || got.LastError.At.Before(*got.LastRunAt) {
		t.Errorf("%+v, error %+v", got, got.LastError)
	}
}

// TestOpenSignalsOfAnAccountAreBounded: in requests, jobs and schedules alike.
func TestOpenSignalsOfAnAccountAreBounded(t *testing.T) {
	t.Parallel()
	c := testConfig(t, redistest.New(t).URL())
	c.Signals.MaxOpen = 2
	svc := start(t, c)
	trader, _ := svc.account(t)
	other, _ := svc.account(t)
	for range 2 {
		trader.post("/v1/agents/seo/run", runBody("desk", "meta_tags")).ok(t)
	}
	trader.lists("status=open", 2)
	a := trader.post("/v1/agents/seo/run", runBody("desk", "meta_tags"))
	a.fails(t, "too_many_signals")
	if a.Header.Get("Retry-After") != "60" {
		t.Errorf("Retry-After is %q", a.Header.Get("Retry-After"))
	}
	trader.post("/v1/agents/seo/run", runBody("desk", "meta_tags", `"async":true`)).fails(t, "too_many_signals")
	const chair = `{"agent_id":"seo","strategy":"meta_tags","every":"1440m","assets":["oak chair"]}`
	s := trader.addSchedule(chair)
	if got := trader.afterRound(s.ID); got.Failures != 1 || got.LastError == nil ||
		got.LastError.Code != "too_many_signals" {
		t.Errorf("%+v, error %+v", got, got.LastError)
	}
	other.post("/v1/agents/seo/run", runBody("desk", "meta_tags")).ok(t)
	eventually(t, "the other account, which lists nothing, is bounded", func() bool {
		return other.post("/v1/agents/seo/run", runBody("desk", "meta_tags")).Status == http.StatusTooManyRequests
	})
}

func TestSchedulesNeedTheScopeOfRuns(t *testing.T) {
	t.Parallel()
	reader, _ := shared(t).account(t, "signals:read", "agents:read", "webhooks:manage")
	for _, path := range []string{"/v1/schedules", "/v1/schedules/sch_01M7YQ1WTVKN9DZNWV9NV456V1"} {
		reader.get(path).fails(t, "insufficient_scope")
	}
	reader.post("/v1/schedules", everySecond+`1}`).fails(t, "insufficient_scope")
}

// TestSchedulesOutliveTheirOwner kills one of two nodes, which owns about half of the
// partitions.
func TestSchedulesOutliveTheirOwner(t *testing.T) {
	t.Parallel()
	n := startNodes(t, "stream,simulated")
	var traders []*client
	var ids []string
	for range 6 {
		trader, _ := n.second.account(t)
		s := trader.at(n.first.url).addSchedule(everySecond + `100}`)
		traders, ids = append(traders, trader), append(ids, s.ID)
	}
	// A daily schedule has one round, whichever node owns it.
	for _, trader := range traders {
		trader.post("/v1/schedules",
			`{"agent_id":"seo","assets":["desk","chair"],"strategy":"product_description",`+
				`"every":"1440m","max_open":9}`).ok(t)
		eventually(t, "the round of the day is over",
			func() bool { return trader.signals("strategy=product_description").Total == 2 })
	}
	before := make([]int, len(traders))
	for i, trader := range traders {
		eventually(t, "signals are there", func() bool { return trader.signals("").Total > 1 })
		if other := traders[(i+1)%len(traders)]; other.get("/v1/schedules/"+ids[i]).Status != http.StatusNotFound {
			t.Error("another account sees a schedule")
		}
	}
	n.first.kill()
	for i, trader := range traders {
		before[i] = trader.signals("").Total
	}
	for i, trader := range traders {
		// The runs in flight at the kill may have ended before or be lost.
		eventually(t, "signals come after the death", func() bool { return trader.signals("").Total > before[i]+4 })
		trader.lists("strategy=product_description", 2) // of the round of the day
	}
}

// TestSchedulesDoNotHoldEachOtherUp: signals of another timeframe or risk are those of
// another schedule.
func TestSchedulesDoNotHoldEachOtherUp(t *testing.T) {
	t.Parallel()
	trader, _ := shared(t).account(t)
	const body = `{"agent_id":"trading","assets":["ETH"],"strategy":"momentum","every":"1m"`
	for _, manner := range []string{`"timeframe":"1h"`, `"timeframe":"1d"`, `"timeframe":"1h","risk_level":"high"`} {
		trader.post("/v1/schedules", body+`,`+manner+`}`).ok(t)
	}
	eventually(t, "each has a signal", func() bool { return trader.signals("status=open&asset=eth").Total == 3 })
	// Another schedule with the same timeframe and risk has no room, one with others has.
	again := trader.addSchedule(body + `,"timeframe":"1d"}`)
	eventually(t, "its round is over",
		func() bool { return trader.schedule(again.ID).NextRunAt.After(time.Now().Add(30 * time.Second)) })
	trader.post("/v1/schedules", body+`,"timeframe":"1d","risk_level":"low"}`).ok(t)
	eventually(t, "the last has a signal", func() bool { return trader.signals("status=open&asset=eth").Total >= 4 })
	trader.lists("", 4)
}
