package lifecycle

import (
	"slices"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// A signal that is created while the open ones are being read may be missing there.
func TestSignalsCreatedDuringTheReadAreWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := unstartedHarness(t, openSignal("1"))
		h.reading = make(chan struct{})
		h.start(Options{})
		s := openSignal("2")
		s.Asset = "ETH"
		h.set(func() { h.open[s.ID] = s })
		listing := s.Listing()
		h.follower.Follow([]signal.Event{{Type: signal.SignalCreated, Account: s.Account, Listing: &listing}})
		synctest.Wait()
		close(h.reading)
		synctest.Wait()
		h.mu.Lock()
		defer h.mu.Unlock()
		if n, m := len(h.alerts["BTC"]), len(h.alerts["ETH"]); n != 1 || m != 1 {
			t.Errorf("%d alerts for the one that was open and %d for the one that was created, want 1 and 1", n, m)
		}
	})
}

// A million open signals are watched page by page as they are read, so that the first ones close at once.
func TestOpenSignalsAreWatchedBeforeMoreAreRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var list []signal.Signal
		for i := range 3*foundPage + 1 {
			list = append(list, openSignal(strconv.Itoa(i)))
		}
		h := unstartedHarness(t, list...)
		metrics, read := NewMetrics(prometheus.NewPedanticRegistry()), 0
		watched := metrics.watched.WithLabelValues("trading")
		h.onRead = func(i int) {
			if read = i; i%foundPage == 0 && testutil.ToFloat64(watched) != float64(i) {
				t.Errorf("%d are read, and %v are watched", i, testutil.ToFloat64(watched))
			}
		}
		h.start(Options{Metrics: metrics})
		synctest.Wait()
		if n := testutil.ToFloat64(watched); n != float64(len(list)) || read != len(list)-1 {
			t.Errorf("%v are watched in the end, and %d were read", n, read+1)
		}
	})
}

// When a partition is lost, or the parent of its signals fails, this node releases
// everything except the signals that are watched again.
func TestLostPartitionIsReleased(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(h *harness)
		left int // signals that are watched after it
	}{
		"the partition is lost": {func(h *harness) { h.owner.Tell(lose{}) }, 0},
		"the parent fails":      {func(h *harness) { h.follower.parent.Tell(alertDue{"an asset without alerts"}) }, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				registry := prometheus.NewPedanticRegistry()
				metrics := NewMetrics(registry)
				content := openSignal("1000")
				content.Agent, content.Asset, content.Levels = "seo", "standing desk", nil
				list := []signal.Signal{content}
				for i := range 100 {
					list = append(list, openSignal(strconv.Itoa(i)))
				}
				h := unstartedHarness(t, list...)
				h.start(Options{Metrics: metrics})
				gauge := func(agent string) int {
					return int(testutil.ToFloat64(metrics.watched.WithLabelValues(agent)))
				}
				if n, m := gauge("trading"), gauge("seo"); n != 100 || m != 1 {
					t.Fatalf("%d and %d signals are counted, want 100 and 1", n, m)
				}
				c.end(h)
				synctest.Wait()
				if n, m := gauge("trading"), gauge("seo"); n != c.left || m != min(c.left, 1) {
					t.Errorf("%d and %d signals are counted, want %d and %d", n, m, c.left, min(c.left, 1))
				}
				h.mu.Lock()
				defer h.mu.Unlock()
				for _, a := range h.alerts["BTC"][:100] {
					if !slices.Contains(h.undone, a.Ref) {
						t.Errorf("the alert of %s is not removed", a.Ref)
					}
				}
				if n := len(h.undone); n != 100 {
					t.Errorf("%d alerts are removed, want 100", n)
				}
				if n := len(h.alerts["BTC"]); n != 100+c.left {
					t.Errorf("%d alerts were added, want %d", n, 100+c.left)
				}
			})
		})
	}
}
