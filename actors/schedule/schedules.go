package schedule

import (
	"context"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// What the actor hears of.
type (
	// lookDue says that a schedule may be due, or that one has changed.
	lookDue struct{}
	// looked says which schedules have been moved and are to run now, and when the first
	// of the others is due; zero: none is.
	looked struct {
		due  []signal.Schedule
		next time.Time
		err  error
	}
	// roundOver reports that a round has ended, and how.
	roundOver struct {
		schedule signal.ScheduleID
		account  signal.AccountID
		ended    ended
	}
)

const (
	// lookLimit is how many schedules are moved at once, lookTimeout how long that may
	// take, lookEvery the time between two looks if nothing is due: an event may be missed.
	lookLimit   = 100
	lookTimeout = 10 * time.Second
	lookEvery   = 30 * time.Second
	// retryEvery is the pause after Redis could not be reached.
	retryEvery = time.Second
	// maxRounds is how many rounds a partition has at once, maxAccountRounds how many of
	// them an account has: each has one run at a time.
	maxRounds        = 16
	maxAccountRounds = 4
	// maxWaiting is how many rounds may wait; beyond it the newest are left out.
	maxWaiting = 10_000
)

// schedules is the actor of the schedules of an owned partition.
type schedules struct {
	o       *owned
	looking bool
	again   bool // to be looked once more
	failing bool // the last look failed, and that was logged
	timer   engine.Timer

	waiting  []signal.Schedule
	running  int
	accounts map[signal.AccountID]int   // rounds under way
	busy     map[signal.ScheduleID]bool // with a round that waits or is under way
	closed   map[string]time.Time       // assets whose market is closed, until when
	// cut has the asset at which the last round of a schedule ended for want of quota: the
	// next one begins with it, so that the quota reaches each asset in turn.
	cut map[signal.ScheduleID]string
}

func newSchedules(o *owned) *schedules {
	return &schedules{o: o, accounts: map[signal.AccountID]int{}, busy: map[signal.ScheduleID]bool{}, closed: map[string]time.Time{},
		cut: map[signal.ScheduleID]string{}}
}

// Receive implements engine.Actor.
func (s *schedules) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started, lookDue:
		s.look(c)
	case looked:
		s.onLooked(c, m)
	case roundOver:
		s.onRoundOver(c, m)
	}
}

// look finds what is due and moves it.
func (s *schedules) look(c engine.Context) {
	if s.looking {
		s.again = true
		return
	}
	s.looking = true
	s.timer.Stop()
	o := s.o
	c.Go(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		return o.move(ctx)
	})
}

// move gives what is due its next time, and returns it. What could not be moved does
// not run: it stays due, or another process has it.
func (o *owned) move(ctx context.Context) looked {
	now := o.now()
	list, next, err := o.store.DueSchedules(ctx, o.Partition, now, lookLimit)
	m := looked{next: next, err: err}
	if len(list) == lookLimit {
		m.next = now // there may be more
	}
	for _, s := range list {
		speeds := map[string]int64{}
		fastest := s.Fastest(func(asset string) int64 {
			speeds[asset] = o.speed(ctx, asset)
			return speeds[asset]
		})
		after := s.RunAfter(now, fastest)
		err := o.store.MoveSchedule(ctx, o.Partition, o.Epoch, s, after)
		switch {
		case err == nil:
			s.Assets = slices.DeleteFunc(slices.Clone(s.Assets), func(asset string) bool { return !s.Concerns(now, speeds[asset], fastest) })
			m.due = append(m.due, s)
			if m.next.IsZero() || after.Before(m.next) {
				m.next = after
			}
		case signal.KindOf(err) == signal.KindConflict && signal.CodeOf(err) != signal.CodeNotOwner:
			m.next = now // it was changed meanwhile, so it is read again
		default:
			m.err = err
			return m
		}
	}
	return m
}

func (s *schedules) onLooked(c engine.Context, m looked) {
	s.looking = false
	if s.o.Refused(m.err) {
		return
	}
	for _, due := range m.due {
		s.enqueue(due)
	}
	s.startNext(c)
	pause := lookEvery
	switch {
	case m.err != nil:
		if !s.failing {
			s.o.log.Warn("schedules are not readable", "err", m.err)
		}
		pause = retryEvery
	case s.again:
		pause = 0
	case !m.next.IsZero():
		pause = min(max(m.next.Sub(s.o.now()), 0), lookEvery)
	}
	s.failing, s.again = m.err != nil, false
	s.timer = c.After(pause, lookDue{})
}

// enqueue lets a round wait for its turn, unless the one before it is not over.
func (s *schedules) enqueue(due signal.Schedule) {
	if s.busy[due.ID] || len(s.waiting) >= maxWaiting {
		s.o.log.Info("a round of a schedule is left out: the one before it is not over", "schedule", string(due.ID))
		return
	}
	s.busy[due.ID] = true
	s.waiting = append(s.waiting, due)
}

// startNext starts the rounds that may start, in their order.
func (s *schedules) startNext(c engine.Context) {
	left := s.waiting[:0]
	for _, due := range s.waiting {
		if s.running >= maxRounds || s.accounts[due.Account] >= maxAccountRounds {
			left = append(left, due)
			continue
		}
		s.running++
		s.accounts[due.Account]++
		s.start(c, due)
	}
	clear(s.waiting[len(left):])
	s.waiting = left
}

// start begins a round with the assets whose market is not known to be closed.
func (s *schedules) start(c engine.Context, due signal.Schedule) {
	now := s.o.now()
	var assets []string
	for _, a := range due.Assets {
		if until, ok := s.closed[a]; ok && now.Before(until) {
			continue
		}
		delete(s.closed, a)
		assets = append(assets, a)
	}
	if first := slices.Index(assets, s.cut[due.ID]); first > 0 {
		assets = slices.Concat(assets[first:], assets[:first])
	}
	delete(s.cut, due.ID)
	due.Assets = assets
	o := s.o
	c.Go(func(ctx context.Context) any {
		e := o.round(ctx, &due)
		o.record(ctx, due, e.result)
		return roundOver{due.ID, due.Account, e}
	})
}

func (s *schedules) onRoundOver(c engine.Context, m roundOver) {
	s.running--
	if s.accounts[m.account]--; s.accounts[m.account] == 0 {
		delete(s.accounts, m.account)
	}
	delete(s.busy, m.schedule)
	for asset, until := range m.ended.closed {
		s.closed[asset] = until
	}
	if m.ended.cut != "" {
		s.cut[m.schedule] = m.ended.cut
	}
	s.startNext(c)
}
