package schedule

import (
	"context"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Messages to the actor.
type (
	// pollDue reports that a schedule may be due, or that one has changed.
	pollDue struct{}
	// polled lists the schedules that were moved and must run now; next is the due time of
	// the first other one, or zero.
	polled struct {
		due  []signal.Schedule
		next time.Time
		err  error
	}
	// roundOver is the result of a round.
	roundOver struct {
		schedule signal.ScheduleID
		ended    ended
	}
	// accountDeleted reports that an account was deleted.
	accountDeleted struct{ id signal.AccountID }
	// forgetDeleted ends the memory of a deleted account.
	forgetDeleted struct{ id signal.AccountID }
)

const (
	// pollLimit is the number of schedules moved in one poll, pollTimeout its time limit.
	// pollEvery is the longest time between two polls, in case the event of a change is
	// missed.
	pollLimit   = 100
	pollTimeout = 10 * time.Second
	pollEvery   = 30 * time.Second
	// retryEvery is the pause after a poll that failed.
	retryEvery = time.Second
	// maxWaiting bounds the waiting rounds; beyond it new ones are skipped.
	maxWaiting = 10_000
	// rememberDeleted is how long a deleted account is remembered. Its schedules are erased
	// in that time, and may be due until then.
	rememberDeleted = time.Hour
)

// limits bound the concurrent rounds of an agent of an account, of the account and of the partition. Each round has one
// run at a time. first bounds those of the account for an agent without any.
type limits struct{ agent, account, first, partition int }

// The rounds of accounts' agents, which may hang, have places of their own, so that other rounds never wait for them. Those of
// one agent leave room for the account's others, and all for some of the 20 runs that an account may have under way.
var (
	builtInRounds = limits{agent: 4, account: 4, first: 4, partition: 16}
	ownRounds     = limits{agent: 2, account: 8, first: 16, partition: 128}
)

// group is the built-in agents or those of accounts, as far as they are of an account, or one agent of it.
type group struct {
	builtIn bool
	account signal.AccountID // empty: of all
	agent   signal.AgentID   // empty: all
}

// groupsOf returns the groups in which a round of a schedule counts: of its agent, its account and the partition.
func groupsOf(s *signal.Schedule) [3]group {
	builtIn := s.Agent.BuiltIn()
	return [3]group{{builtIn, s.Account, s.Agent}, {builtIn, s.Account, ""}, {builtIn, "", ""}}
}

// underWay is a round that runs.
type underWay struct {
	groups  [3]group
	account signal.AccountID
	cancel  context.CancelFunc
}

// schedules is the actor of the schedules of an owned partition.
type schedules struct {
	o         *owned
	polling   bool
	pollAgain bool // a poll was requested during a poll
	failing   bool // the last poll failed and was logged
	timer     engine.Timer

	waiting []signal.Schedule
	running map[signal.ScheduleID]underWay
	rounds  map[group]int                 // number of running rounds
	deleted map[signal.AccountID]struct{} // accounts that run nothing more
	busy    map[signal.ScheduleID]bool    // schedules with a waiting or running round
	closed  map[string]time.Time          // when the closed markets of assets open again
	// cut holds the asset at which the last round of a schedule used up the quota. The
	// next one begins with it, so that each asset gets its share of the quota.
	cut map[signal.ScheduleID]string
}

func newSchedules(o *owned) *schedules {
	return &schedules{
		o:       o,
		running: map[signal.ScheduleID]underWay{},
		rounds:  map[group]int{},
		deleted: map[signal.AccountID]struct{}{},
		busy:    map[signal.ScheduleID]bool{},
		closed:  map[string]time.Time{},
		cut:     map[signal.ScheduleID]string{},
	}
}

// Receive implements engine.Actor.
func (s *schedules) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started, pollDue:
		s.poll(c)
	case polled:
		s.onPolled(c, m)
	case roundOver:
		s.onRoundOver(c, m)
	case accountDeleted:
		s.onAccountDeleted(c, m)
	case forgetDeleted:
		delete(s.deleted, m.id)
	}
}

// poll moves the due schedules to their next times.
func (s *schedules) poll(c engine.Context) {
	if s.polling {
		s.pollAgain = true
		return
	}
	s.polling = true
	s.timer.Stop()
	o := s.o
	c.Go(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, pollTimeout)
		defer cancel()
		return o.move(ctx)
	})
}

// move sets the next time of each due schedule and returns those schedules. One that could
// not be moved does not run: it stays due, or another process moves it.
func (o *owned) move(ctx context.Context) polled {
	now := o.now()
	list, next, err := o.store.DueSchedules(ctx, o.Partition, now, pollLimit)
	m := polled{next: next, err: err}
	if len(list) == pollLimit {
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
			s.Assets = slices.DeleteFunc(slices.Clone(s.Assets), func(asset string) bool {
				return !s.Concerns(now, speeds[asset], fastest)
			})
			m.due = append(m.due, s)
			if m.next.IsZero() || after.Before(m.next) {
				m.next = after
			}
		case signal.KindOf(err) == signal.KindConflict && signal.CodeOf(err) != signal.CodeNotOwner:
			m.next = now // it was changed meanwhile: poll again
		default:
			m.err = err
			return m
		}
	}
	return m
}

func (s *schedules) onPolled(c engine.Context, m polled) {
	s.polling = false
	if s.o.Refused(m.err) {
		return
	}
	for _, due := range m.due {
		s.enqueue(due)
	}
	s.startNext(c)
	pause := pollEvery
	switch {
	case m.err != nil:
		if !s.failing {
			s.o.log.Warn("schedules are not readable", "err", m.err)
		}
		pause = retryEvery
	case s.pollAgain:
		pause = 0
	case !m.next.IsZero():
		pause = min(max(m.next.Sub(s.o.now()), 0), pollEvery)
	}
	s.failing, s.pollAgain = m.err != nil, false
	s.timer = c.After(pause, pollDue{})
}

// enqueue adds a round to the queue, unless the schedule's previous round is not over or its
// account was deleted.
func (s *schedules) enqueue(due signal.Schedule) {
	if _, deleted := s.deleted[due.Account]; deleted {
		return
	}
	if s.busy[due.ID] || len(s.waiting) >= maxWaiting {
		s.o.log.Info("a round of a schedule is left out: the one before it is not over", "schedule", string(due.ID))
		return
	}
	s.busy[due.ID] = true
	s.waiting = append(s.waiting, due)
}

// startNext starts the waiting rounds that the limits allow, in their order.
func (s *schedules) startNext(c engine.Context) {
	left := s.waiting[:0]
	for _, due := range s.waiting {
		if groups := groupsOf(&due); s.fits(groups) {
			s.start(c, due, groups)
		} else {
			left = append(left, due)
		}
	}
	clear(s.waiting[len(left):])
	s.waiting = left
}

// fits reports whether the limits allow a round in groups.
func (s *schedules) fits(groups [3]group) bool {
	most := ownRounds
	if groups[0].builtIn {
		most = builtInRounds
	}
	ofAgent, ofAccount := s.rounds[groups[0]], most.account
	if ofAgent == 0 {
		ofAccount = most.first
	}
	return ofAgent < most.agent && s.rounds[groups[1]] < ofAccount && s.rounds[groups[2]] < most.partition
}

// start starts a round with the assets whose market is not known to be closed.
func (s *schedules) start(c engine.Context, due signal.Schedule, groups [3]group) {
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
	ctx, cancel := context.WithCancel(c.Context())
	for _, g := range groups {
		s.rounds[g]++
	}
	s.running[due.ID] = underWay{groups, due.Account, cancel}
	c.Go(func(context.Context) any {
		defer cancel()
		e := o.round(ctx, &due)
		o.record(ctx, due, e.result)
		return roundOver{due.ID, e}
	})
}

func (s *schedules) onRoundOver(c engine.Context, m roundOver) {
	for _, g := range s.running[m.schedule].groups {
		if s.rounds[g]--; s.rounds[g] == 0 {
			delete(s.rounds, g)
		}
	}
	delete(s.running, m.schedule)
	delete(s.busy, m.schedule)
	for asset, until := range m.ended.closed {
		s.closed[asset] = until
	}
	if m.ended.cut != "" {
		s.cut[m.schedule] = m.ended.cut
	}
	s.startNext(c)
}

// onAccountDeleted drops the waiting rounds of an account, whose records are being erased, and
// ends its running ones.
func (s *schedules) onAccountDeleted(c engine.Context, m accountDeleted) {
	s.deleted[m.id] = struct{}{}
	c.After(rememberDeleted, forgetDeleted(m))
	s.waiting = slices.DeleteFunc(s.waiting, func(due signal.Schedule) bool {
		if due.Account != m.id {
			return false
		}
		delete(s.busy, due.ID)
		return true
	})
	for _, r := range s.running {
		if r.account == m.id {
			r.cancel()
		}
	}
}
