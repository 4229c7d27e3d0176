package redisclient

import (
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestKeys pins the names of keys: during a rolling upgrade two versions use them.
func TestKeys(t *testing.T) {
	t.Parallel()
	var k Keys
	for got, want := range map[string]string{
		k.EventsKey(7):               "{p07}:events",
		k.SignalsKey(63):             "{p63}:signals",
		k.OpenKey(0):                 "{p00}:open",
		k.BatchKey(1, "w"):           "{p01}:batch:w",
		k.ReplyKey(2, "acc_1", "d"):  "{p02}:reply:acc_1:d",
		k.RunsDueKey(3):              "{p03}:runsdue",
		k.EpochKey(4):                "{p04}:epoch",
		k.PositionKey(5):             "{p05}:position",
		k.JobKey(6, "job_1"):         "{p06}:job:job_1",
		k.JobsOfKey(6, "acc_1"):      "{p06}:jobs:acc_1",
		k.JobQueueKey(6):             "{p06}:jobqueue",
		k.OwnerKey(10):               "{p10}:owner",
		k.MarketTicksKey():           "market:ticks",
		k.MarketOwnTicksKey():        "{market}:ticks",
		k.MarketBarsKey():            "market:bars",
		k.MarketClosedKey():          "{market}:closed",
		k.BarsKey("BTC", signal.H1):  "{market}:bars:1h:BTC",
		k.MarketNewsKey():            "{market}:news",
		k.MarketStateKey():           "{market}:state",
		k.MarketAssetsKey():          "{market}:assets",
		k.MarketLiveKey():            "{market}:live",
		k.MarketOutcomesKey("1h"):    "{market}:outcomes:1h",
		k.MarketOutcomeBarsKey("5m"): "{market}:outcomebars:5m",
		k.FeederKey():                "{market}:feeder",
		k.FeederEpochKey():           "{market}:feederepoch",
	} {
		if got != want {
			t.Errorf("key is %q, want %q", got, want)
		}
	}
}
