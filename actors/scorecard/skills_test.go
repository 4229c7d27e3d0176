package scorecard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// ownLog has closed signals of accounts' agents. The n-th is at position n+1.
type ownLog struct {
	mu    sync.Mutex
	list  []*signal.Signal
	fail  error
	hold  chan struct{} // nil, or received from by each search
	finds int           // searches
	reads int           // signals that were read
}

// close adds a closed signal with a base probability of a half.
func (f *ownLog) close(agent signal.AgentID, name string, won bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	exit := map[bool]float64{true: 102, false: 98}[won]
	f.list = append(f.list, &signal.Signal{ID: signal.SignalID(fmt.Sprint(len(f.list))), Agent: agent, Strategy: name,
		Direction: signal.Long, Levels: &signal.Levels{Entry: 100, Stop: 98, Target: 102}, CreatedAt: time.Now(),
		Closing:  &signal.Closing{Reason: signal.Expired, ExitPrice: &exit},
		Metadata: []byte(`{"base_probability":0.5,"atr":1,"horizon_bars":24}`)})
}

func (f *ownLog) NewestClosed(_ context.Context, _ signal.AccountID, agent signal.AgentID, name string,
	after signal.Position, limit int) ([]signal.Location, error) {
	f.mu.Lock()
	hold := f.hold
	f.finds++
	f.mu.Unlock()
	if hold != nil {
		<-hold
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []signal.Location
	for i, s := range f.list {
		if s.Agent == agent && s.Strategy == name && int64(i+1) > after.MS {
			found = append(found, signal.Location{ID: s.ID, Closed: signal.Position{MS: int64(i + 1)}})
		}
	}
	return found[max(0, len(found)-limit):], f.fail
}

func (f *ownLog) SignalsAt(_ context.Context, _ signal.AccountID, at []signal.Location) (list []*signal.Signal, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range at {
		list = append(list, f.list[l.Closed.MS-1])
	}
	f.reads += len(at)
	return list, f.fail
}

// TestSkillsFollowClosedSignals: a closed signal counts within two seconds and is read once, only for its own strategy.
func TestSkillsFollowClosedSignals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &ownLog{}
		s := NewSkills(f, f, SkillOptions{Retention: time.Hour})
		measure := func() strategy.Skill {
			t.Helper()
			x, err := s.Skill(t.Context(), "acc", "mine", "cross")
			if err != nil {
				t.Fatal(err)
			}
			return x
		}
		if x := measure(); x != strategy.SkillOf(nil) {
			t.Errorf("without signals: %+v", x)
		}
		for i := range 30 {
			f.close("mine", "cross", i%3 != 0)
			f.close("mine", "other", false)
			f.close("other", "cross", false)
		}
		if x := measure(); x.N != 0 || f.finds != 1 {
			t.Errorf("at once: %+v after %d searches", x, f.finds)
		}
		time.Sleep(2 * time.Second)
		x := measure()
		if x.N != 30 || !x.Known() || x.Estimate <= 0 || f.reads != 30 {
			t.Errorf("%+v, %d were read", x, f.reads)
		}
		time.Sleep(time.Minute)
		f.close("mine", "cross", true)
		if y := measure(); y.N != 31 || y.Estimate <= x.Estimate || f.reads != 31 {
			t.Errorf("%+v after %+v, %d were read", y, x, f.reads)
		}
		time.Sleep(2 * time.Second)
		for range strategy.MaxTrials {
			f.close("mine", "cross", false)
		}
		if y := measure(); y.N != strategy.MaxTrials || y != strategy.SkillOf(make1000(0)) {
			t.Errorf("the newest alone count: %+v", y)
		}
		time.Sleep(time.Hour) // all are past the retention, and the lists have them no more
		f.list = nil
		if y := measure(); y.N != 0 {
			t.Errorf("past the retention: %+v", y)
		}
	})
}

// make1000 returns trials with a base of a half that ended as given.
func make1000(won float64) []strategy.Trial {
	list := make([]strategy.Trial, strategy.MaxTrials)
	for i := range list {
		list[i] = strategy.Trial{Base: 0.5, Won: won}
	}
	return list
}

// TestASkillIsMeasuredOnce: of many callers one reads, and the others wait only without a recent skill.
func TestASkillIsMeasuredOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &ownLog{hold: make(chan struct{})}
		f.close("mine", "cross", true)
		s := NewSkills(f, f, SkillOptions{})
		done := make(chan int, 100)
		ask := func(n int) {
			for range n {
				go func() {
					x, err := s.Skill(t.Context(), "acc", "mine", "cross")
					if err != nil {
						x.N = -1
					}
					done <- x.N
				}()
			}
			synctest.Wait()
		}
		ask(10)
		if len(done) != 0 || f.finds != 1 {
			t.Errorf("%d have an answer of no measurement, %d searches", len(done), f.finds)
		}
		f.hold <- struct{}{}
		for range 10 {
			if n := <-done; n != 1 {
				t.Errorf("%d signals", n)
			}
		}
		f.close("mine", "cross", true)
		time.Sleep(3 * time.Second)
		ask(10)
		if len(done) != 9 || f.finds != 2 {
			t.Errorf("%d have the skill of before, %d searches", len(done), f.finds)
		}
		for range 9 {
			<-done
		}
		f.hold <- struct{}{}
		if n := <-done; n != 2 {
			t.Errorf("%d signals", n)
		}
		time.Sleep(time.Hour)
		ask(1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Skill(ctx, "acc", "mine", "cross"); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that has gone: %v", err)
		}
		close(f.hold)
		<-done
	})
}

// TestSkillsWithoutTheLog: what was known shortly before still holds, and nothing older.
func TestSkillsWithoutTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &ownLog{}
		f.close("mine", "cross", true)
		s := NewSkills(f, f, SkillOptions{})
		ask := func() (int, error) {
			x, err := s.Skill(t.Context(), "acc", "mine", "cross")
			return x.N, err
		}
		if n, err := ask(); n != 1 || err != nil {
			t.Error(n, err)
		}
		f.fail = errors.New("no redis")
		time.Sleep(9 * time.Second)
		if n, err := ask(); n != 1 || err != nil {
			t.Error(n, err)
		}
		time.Sleep(time.Second)
		if _, err := ask(); !errors.Is(err, f.fail) {
			t.Errorf("of an old skill: %v", err)
		}
		f.fail, f.list = nil, nil
		s.ForgetAll() // Redis has lost it
		if n, err := ask(); n != 0 || err != nil {
			t.Error(n, err)
		}
	})
}

// TestSkillsAreBounded: those that were not used for longest are read again.
func TestSkillsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &ownLog{}
		const each, strategies = 10, 50
		for i := range each * strategies {
			f.close("mine", fmt.Sprint(i%strategies), true)
		}
		s := NewSkills(f, f, SkillOptions{MaxTrials: 5 * (each + 1)})
		ask := func(i int) {
			if x, err := s.Skill(t.Context(), "acc", "mine", fmt.Sprint(i)); err != nil || x.N != each {
				t.Errorf("%d: %+v, %v", i, x, err)
			}
		}
		for i := range strategies {
			ask(0) // used all the time
			ask(i)
			time.Sleep(time.Millisecond)
			if len(s.of) > 6 || s.kept > s.o.MaxTrials+1 {
				t.Fatalf("%d skills with %d trials are kept", len(s.of), s.kept)
			}
		}
		if f.finds != strategies {
			t.Errorf("%d searches", f.finds)
		}
		time.Sleep(10 * time.Minute)
		if s.Trim(); len(s.of) != 0 || s.kept != 0 {
			t.Errorf("%d with %d trials are left", len(s.of), s.kept)
		}
	})
}

// BenchmarkSkill is what a submission costs.
func BenchmarkSkill(b *testing.B) {
	f := &ownLog{}
	for range strategy.MaxTrials {
		f.close("mine", "cross", true)
	}
	s := NewSkills(f, f, SkillOptions{})
	for b.Loop() {
		if _, err := s.Skill(b.Context(), "acc", "mine", "cross"); err != nil {
			b.Fatal(err)
		}
	}
}
