package api

import (
	"net/http"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// everySecond is a schedule of the content agent, which needs no market: bars of a
// minute last a second where there is a simulated one.
const everySecond = `{"agent_id":"seo","assets":["standing desk","oak chair"],"strategy":"meta_tags",` +
	`"timeframe":"1m","every":"bar","max_open":`

func TestASchedulesSignalsAreNoMoreThanMayBeOpen(t *testing.T) {
	t.Parallel()
	c := e2e.TestConfig(t, redistest.New(t).URL())
	c.Market.Source = "simulated"
	trader, _ := e2e.Start(t, c).Account(t)
	s := trader.AddSchedule(everySecond + `2}`)
	e2e.Eventually(t, "each asset has two signals", func() bool { return trader.Signals("").Total == 4 })
	trader.AfterRounds(s.ID, 2)
	trader.Lists("status=open&strategy=meta_tags&asset=OAK%20chair", 2)
	trader.Lists("", 4)
	// A higher maximum is used, and none after it is disabled.
	trader.Do("PATCH", "/v1/schedules/"+s.ID, `{"max_open":3}`).Ok(t)
	e2e.Eventually(t, "each asset has three signals", func() bool { return trader.Signals("").Total == 6 })
	trader.Do("PATCH", "/v1/schedules/"+s.ID, `{"max_open":9,"status":"disabled"}`).Ok(t)
	if got := trader.Schedule(s.ID); got.NextRunAt != nil || got.Status != "disabled" {
		t.Errorf("disabled it is %+v", got)
	}
	trader.Do("DELETE", "/v1/schedules/"+s.ID, "").Want(t, http.StatusNoContent)
	trader.Get("/v1/schedules/"+s.ID).Fails(t, "not_found")
}

// TestSchedulesDrawFromTheQuotaOfRuns: what a schedule runs, a client cannot run beside it.
func TestSchedulesDrawFromTheQuotaOfRuns(t *testing.T) {
	t.Parallel()
	c := e2e.TestConfig(t, redistest.New(t).URL())
	c.RateLimit.Runs = "5/h"
	svc := e2e.Start(t, c)
	trader, _ := svc.Account(t)
	const subjects = `{"agent_id":"seo","strategy":"meta_tags","every":"1440m","assets":["a","b","c","d","e","f",` +
		`"g","h"]}`
	s := trader.AddSchedule(subjects)
	if got := trader.AfterRound(s.ID); got.Skipped != 1 || got.Failures != 0 || got.LastError != nil {
		t.Errorf("after a round of 8 runs with a quota of 5: %+v", got)
	}
	trader.Lists("", 5)
	trader.Post("/v1/agents/seo/run", e2e.RunBody("i", "meta_tags")).Fails(t, "rate_limited")
	if n := svc.Metric(t, "agentsignal_scheduled_runs_total", `result="skipped"`); n != 3 {
		t.Errorf("%v runs are counted as skipped, want 3", n)
	}
}

// TestASchedulesLastErrorIsShown: an asset whose price was never sent has no data.
func TestASchedulesLastErrorIsShown(t *testing.T) {
	t.Parallel()
	trader, _ := e2e.Start(t, e2e.TestConfig(t, redistest.New(t).URL())).Account(t)
	const nothing = `{"agent_id":"trading","strategy":"momentum","every":"1440m","assets":["NOSUCH"]}`
	s := trader.AddSchedule(nothing)
	got := trader.AfterRound(s.ID)
	if got.Failures != 1 || got.LastError == nil || got.LastError.Code != "DATA_UNAVAILABLE" ||
		got.LastError.Message == "" || got.LastError.At.Before(*got.LastRunAt) {
		t.Errorf("%+v, error %+v", got, got.LastError)
	}
}

// TestOpenSignalsOfAnAccountAreBounded: in requests, jobs and schedules alike.
func TestOpenSignalsOfAnAccountAreBounded(t *testing.T) {
	t.Parallel()
	c := e2e.TestConfig(t, redistest.New(t).URL())
	c.Signals.MaxOpen = 2
	svc := e2e.Start(t, c)
	trader, _ := svc.Account(t)
	other, _ := svc.Account(t)
	for range 2 {
		trader.Post("/v1/agents/seo/run", e2e.RunBody("desk", "meta_tags")).Ok(t)
	}
	trader.Lists("status=open", 2)
	a := trader.Post("/v1/agents/seo/run", e2e.RunBody("desk", "meta_tags"))
	a.Fails(t, "too_many_signals")
	if a.Header.Get("Retry-After") != "60" {
		t.Errorf("Retry-After is %q", a.Header.Get("Retry-After"))
	}
	trader.Post("/v1/agents/seo/run", e2e.RunBody("desk", "meta_tags", `"async":true`)).Fails(t, "too_many_signals")
	const chair = `{"agent_id":"seo","strategy":"meta_tags","every":"1440m","assets":["oak chair"]}`
	s := trader.AddSchedule(chair)
	if got := trader.AfterRound(s.ID); got.Failures != 1 || got.LastError == nil ||
		got.LastError.Code != "too_many_signals" {
		t.Errorf("%+v, error %+v", got, got.LastError)
	}
	other.Post("/v1/agents/seo/run", e2e.RunBody("desk", "meta_tags")).Ok(t)
	e2e.Eventually(t, "the other account, which lists nothing, is bounded", func() bool {
		return other.Post("/v1/agents/seo/run", e2e.RunBody("desk", "meta_tags")).Status == http.StatusTooManyRequests
	})
}

func TestSchedulesNeedTheScopeOfRuns(t *testing.T) {
	t.Parallel()
	reader, _ := e2e.Shared(t).Account(t, "signals:read", "agents:read", "webhooks:manage")
	for _, path := range []string{"/v1/schedules", "/v1/schedules/sch_01M7YQ1WTVKN9DZNWV9NV456V1"} {
		reader.Get(path).Fails(t, "insufficient_scope")
	}
	reader.Post("/v1/schedules", everySecond+`1}`).Fails(t, "insufficient_scope")
}

// TestSchedulesOutliveTheirOwner kills one of two nodes, which owns about half of the
// partitions.
func TestSchedulesOutliveTheirOwner(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	n := e2e.StartNodes(t, "stream,simulated")
	var traders []*e2e.Client
	var ids []string
	for range 6 {
		trader, _ := n.Second.Account(t)
		s := trader.At(n.First.URL).AddSchedule(everySecond + `100}`)
		traders, ids = append(traders, trader), append(ids, s.ID)
	}
	// A daily schedule has one round, whichever node owns it.
	for _, trader := range traders {
		trader.Post("/v1/schedules",
			`{"agent_id":"seo","assets":["desk","chair"],"strategy":"product_description",`+
				`"every":"1440m","max_open":9}`).Ok(t)
		e2e.Eventually(t, "the round of the day is over",
			func() bool { return trader.Signals("strategy=product_description").Total == 2 })
	}
	before := make([]int, len(traders))
	for i, trader := range traders {
		e2e.Eventually(t, "signals are there", func() bool { return trader.Signals("").Total > 1 })
		if other := traders[(i+1)%len(traders)]; other.Get("/v1/schedules/"+ids[i]).Status != http.StatusNotFound {
			t.Error("another account sees a schedule")
		}
	}
	n.First.Kill()
	for i, trader := range traders {
		before[i] = trader.Signals("").Total
	}
	for i, trader := range traders {
		// The runs in flight at the kill may have ended before or be lost.
		e2e.Eventually(t, "signals come after the death", func() bool { return trader.Signals("").Total > before[i]+4 })
		trader.Lists("strategy=product_description", 2) // of the round of the day
	}
}

// TestSchedulesDoNotHoldEachOtherUp: signals of another timeframe or risk are those of
// another schedule.
func TestSchedulesDoNotHoldEachOtherUp(t *testing.T) {
	t.Parallel()
	trader, _ := e2e.Shared(t).Account(t)
	const body = `{"agent_id":"trading","assets":["ETH"],"strategy":"momentum","every":"1m"`
	for _, manner := range []string{`"timeframe":"1h"`, `"timeframe":"1d"`, `"timeframe":"1h","risk_level":"high"`} {
		trader.Post("/v1/schedules", body+`,`+manner+`}`).Ok(t)
	}
	e2e.Eventually(t, "each has a signal", func() bool { return trader.Signals("status=open&asset=eth").Total == 3 })
	// Another schedule with the same timeframe and risk has no room, one with others has.
	again := trader.AddSchedule(body + `,"timeframe":"1d"}`)
	e2e.Eventually(t, "its round is over",
		func() bool { return trader.Schedule(again.ID).NextRunAt.After(time.Now().Add(30 * time.Second)) })
	trader.Post("/v1/schedules", body+`,"timeframe":"1d","risk_level":"low"}`).Ok(t)
	e2e.Eventually(t, "the last has a signal", func() bool { return trader.Signals("status=open&asset=eth").Total >= 4 })
	trader.Lists("", 4)
}
