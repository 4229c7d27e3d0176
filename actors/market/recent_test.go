package market

import (
	"testing"

	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

func TestTicksOfIdleAssetsAreRemoved(t *testing.T) {
	t.Parallel()
	var s recentTicks
	idle, busy := tickKey{"IDLE", source.Stream}, tickKey{"BUSY", source.Stream}
	s.note(idle, marketdata.Tick{Price: 1, Time: 9_000_000}, 1_000_000, false) // its own time does not count
	for at := int64(1_000_000); at < 1_000_000+3*recentKept; at += 60_000 {
		s.note(busy, marketdata.Tick{Price: 1, Time: at}, at, false)
		if _, ok := s.newest(idle); !ok && at <= 1_000_000+recentKept {
			t.Fatalf("removed after %d ms", at-1_000_000)
		}
	}
	if n := len(s.of[busy].ticks) - s.of[busy].first; len(s.of) != 1 || n != recentKept/60_000+1 {
		t.Errorf("%d assets, %d ticks of the last one", len(s.of), n)
	}
}

func TestRecentTicksHaveLittleSpareRoom(t *testing.T) {
	t.Parallel()
	var s recentTicks
	key := tickKey{"X", source.Stream}
	for at := int64(0); at < 5*recentKept; at += 500 {
		s.note(key, marketdata.Tick{Price: 1, Time: at}, at, false)
		if at < 2*recentKept {
			continue
		}
		if kept := recentKept/500 + 1; cap(s.of[key].ticks) > kept*3/2 {
			t.Fatalf("at %d: room for %d ticks, %d are kept", at, cap(s.of[key].ticks), kept)
		}
	}
}
