package redisclient

import (
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestKeys pins the names of keys: during a rolling upgrade two versions use them.
func TestKeys(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		EventsKey(7):               "{p07}:events",
		SignalsKey(63):             "{p63}:signals",
		OpenKey(0):                 "{p00}:open",
		BatchKey(1, "w"):           "{p01}:batch:w",
		ReplyKey(2, "acc_1", "d"):  "{p02}:reply:acc_1:d",
		RunsDueKey(3):              "{p03}:runsdue",
		EpochKey(4):                "{p04}:epoch",
		PositionKey(5):             "{p05}:position",
		JobKey(6, "job_1"):         "{p06}:job:job_1",
		JobsOfKey(6, "acc_1"):      "{p06}:jobs:acc_1",
		JobQueueKey(6):             "{p06}:jobqueue",
		OwnerKey(10):               "{p10}:owner",
		MarketTicksKey():           "market:ticks",
		MarketOwnTicksKey():        "{market}:ticks",
		MarketBarsKey():            "market:bars",
		MarketClosedKey():          "{market}:closed",
		BarsKey("BTC", signal.H1):  "{market}:bars:1h:BTC",
		MarketNewsKey():            "{market}:news",
		MarketStateKey():           "{market}:state",
		MarketAssetsKey():          "{market}:assets",
		MarketLiveKey():            "{market}:live",
		MarketOutcomesKey("1h"):    "{market}:outcomes:1h",
		MarketOutcomeBarsKey("5m"): "{market}:outcomebars:5m",
		FeederKey():                "{market}:feeder",
		FeederEpochKey():           "{market}:feederepoch",
	} {
		if got != want {
			t.Errorf("key is %q, want %q", got, want)
		}
	}
}
