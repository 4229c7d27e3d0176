package main

import (
	"net/http"
	"testing"
	"time"
)

// wireSchedule is what tests look at of a schedule.
type wireSchedule struct {
	ID        string     `json:"schedule_id"`
	Status    string     `json:"status"`
	NextRunAt *time.Time `json:"next_run_at"`
}

// everySecond is a schedule of the content agent, which needs no market: bars of a
// minute last a second here.
const everySecond = `{"agent_id":"seo","assets":["standing desk","oak chair"],"strategy":"meta_tags","timeframe":"1m","every":"bar","max_open":`

func (c *client) schedule(id string) wireSchedule {
	c.tb.Helper()
	return decode[wireSchedule](c.tb, c.get("/v1/schedules/"+id).want(c.tb, http.StatusOK).Body)
}

// afterRounds waits until a schedule has been moved on so many times.
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

func TestASchedulesSignalsAreNoMoreThanMayBeOpen(t *testing.T) {
	t.Parallel()
	trader, _ := shared(t).account(t)
	s := decode[wireSchedule](t, trader.post("/v1/schedules", everySecond+`2}`).want(t, http.StatusOK).Body)
	eventually(t, "each asset has two signals", func() bool { return trader.signals("").Total == 4 })
	trader.afterRounds(s.ID, 2)
	if all := trader.signals("status=open&strategy=meta_tags&asset=OAK%20chair"); all.Total != 2 || trader.signals("").Total != 4 {
		t.Errorf("%d signals of the chair, %d in all", all.Total, trader.signals("").Total)
	}
	// More room is used, none after it is disabled.
	trader.do("PATCH", "/v1/schedules/"+s.ID, `{"max_open":3}`).want(t, http.StatusOK)
	eventually(t, "each asset has three signals", func() bool { return trader.signals("").Total == 6 })
	trader.do("PATCH", "/v1/schedules/"+s.ID, `{"max_open":9,"status":"disabled"}`).want(t, http.StatusOK)
	if got := trader.schedule(s.ID); got.NextRunAt != nil || got.Status != "disabled" {
		t.Errorf("disabled it is %+v", got)
	}
	trader.do("DELETE", "/v1/schedules/"+s.ID, "").want(t, http.StatusNoContent)
	trader.get("/v1/schedules/"+s.ID).fails(t, http.StatusNotFound, "not_found")
}

func TestSchedulesNeedTheScopeOfRuns(t *testing.T) {
	t.Parallel()
	reader, _ := shared(t).account(t, "signals:read", "agents:read", "webhooks:manage")
	for _, path := range []string{"/v1/schedules", "/v1/schedules/sch_01M7YQ1WTVKN9DZNWV9NV456V1"} {
		reader.get(path).fails(t, http.StatusForbidden, "insufficient_scope")
	}
	reader.post("/v1/schedules", everySecond+`1}`).fails(t, http.StatusForbidden, "insufficient_scope")
}

// TestSchedulesOutliveTheirOwner kills one of two nodes, which owns about half of the
// partitions.
func TestSchedulesOutliveTheirOwner(t *testing.T) {
	t.Parallel()
	n := startNodes(t)
	var traders []*client
	var ids []string
	for range 6 {
		trader, _ := n.second.account(t)
		s := decode[wireSchedule](t, trader.at(n.first.url).post("/v1/schedules", everySecond+`100}`).want(t, http.StatusOK).Body)
		traders, ids = append(traders, trader), append(ids, s.ID)
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
		// What the killed process had begun counts for before, or is left out.
		eventually(t, "signals come after the death", func() bool { return trader.signals("").Total > before[i]+4 })
	}
}

// TestDemoSchedulesDoNotHoldEachOtherUp: open signals are counted by agent, strategy and
// asset, whatever their timeframe.
func TestDemoSchedulesDoNotHoldEachOtherUp(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range demoSchedules {
		for _, asset := range s.Assets {
			key := string(s.Agent) + " " + s.Strategy + " " + asset
			if seen[key] {
				t.Errorf("%s is made by two schedules", key)
			}
			seen[key] = true
		}
	}
}
