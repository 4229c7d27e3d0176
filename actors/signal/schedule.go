package signal

import "time"

// ScheduleStatus is whether a schedule runs.
type ScheduleStatus string

// The statuses of schedules.
const (
	ScheduleEnabled  ScheduleStatus = "enabled"
	ScheduleDisabled ScheduleStatus = "disabled"
)

// ScheduleStatuses lists them, for requests and the API description.
var ScheduleStatuses = []ScheduleStatus{ScheduleEnabled, ScheduleDisabled}

// Schedule runs an agent for its assets periodically. One pass over the assets is a
// round.
type Schedule struct {
	ID        ScheduleID
	Account   AccountID
	Agent     AgentID
	Assets    []string // 1 or more, as the client wrote them
	Strategy  string
	Timeframe Timeframe
	Risk      RiskLevel
	// Every is the time between two rounds, in whole minutes, or 0 for a round at each close
	// of a bar of Timeframe.
	Every time.Duration
	// MaxOpen is the limit, 1 or more, of open signals of one asset with the schedule's
	// agent, strategy, timeframe and risk, whether or not the schedule made them.
	MaxOpen   int
	Status    ScheduleStatus
	NextRunAt time.Time // zero while it is disabled
	CreatedAt time.Time
	UpdatedAt time.Time // of the last change by its owner

	// The outcome of its rounds. Set by the store.
	LastRunAt time.Time      // when the last round began, or zero
	LastError *ScheduleError // of the last failed run, or nil
	Failures  int            // failed runs since the last one that succeeded
	Skipped   int            // rounds that the quota of runs cut short or refused

	// Revision identifies the version that was read: a change based on an older one is
	// refused. Set by the store.
	Revision string
}

// ScheduleError is why a run of a schedule failed.
type ScheduleError struct {
	// Code is the ErrorCode of the run, or the code of the error that refused it.
	Code    string
	Message string
	At      time.Time
}

// Round is the outcome of one round of a schedule.
type Round struct {
	At       time.Time      // when it began
	Runs     int            // runs made, including failed ones
	Failures int            // runs that failed after the last one that succeeded
	Error    *ScheduleError // of the last failed run, or nil
	Skipped  bool           // the quota of runs cut the round short or refused it
}

const (
	// barMargin is the divisor of a bar's length that gives the delay of a round after
	// the close, so that the bar is stored by then; maxBarMargin bounds the delay.
	barMargin    = 10
	maxBarMargin = 2 * time.Second
	// minRoundGap is the minimum time between two rounds if bars are shorter.
	minRoundGap = time.Second
)

// Makes reports whether an open signal on one of the schedule's assets counts against
// MaxOpen. Weather signals always rest on daily bars, so their timeframe is not compared.
func (s *Schedule) Makes(x *Signal) bool {
	return x.Agent == s.Agent && x.Strategy == s.Strategy && x.Risk == s.Risk &&
		(x.Timeframe == s.Timeframe || x.Weather != nil)
}

// Fastest returns the highest speed of the schedule's assets, at least 1. With a fixed
// interval it is 1, and speedOf is not called.
func (s *Schedule) Fastest(speedOf func(asset string) int64) int64 {
	fastest := int64(1)
	if s.Every > 0 {
		return fastest
	}
	for _, asset := range s.Assets {
		fastest = max(fastest, speedOf(asset))
	}
	return fastest
}

// FirstRun returns the first run of a schedule that was created or enabled at now: at
// once with a fixed interval, otherwise shortly after the next close of a bar. speed, 1
// or more, is that of its fastest asset relative to real time.
func (s *Schedule) FirstRun(now time.Time, speed int64) time.Time {
	if s.Every > 0 {
		return now.Truncate(time.Millisecond)
	}
	return s.afterBar(now, speed)
}

// RunAfter returns the time of the round that follows the one at NextRunAt, which begins
// now. Missed rounds are skipped; the others keep their distance.
func (s *Schedule) RunAfter(now time.Time, speed int64) time.Time {
	if s.Every <= 0 {
		return s.afterBar(now, speed)
	}
	missed := max(0, now.Sub(s.NextRunAt)) / s.Every
	return s.NextRunAt.Add((missed + 1) * s.Every)
}

// Concerns reports whether the round at NextRunAt, which begins now, includes an asset
// with the given speed: every round includes the fastest assets, and a slower asset is
// included once a bar of it has closed since the previous round. If the fastest bars are
// shorter than minRoundGap, the time of the previous round is only known roughly and two
// rounds may include the same bar.
func (s *Schedule) Concerns(now time.Time, speed, fastest int64) bool {
	if s.Every > 0 || speed >= fastest {
		return true
	}
	length := s.Timeframe.Duration() / time.Duration(fastest)
	before := s.NextRunAt.Add(-minRoundGap - length)
	if length >= minRoundGap {
		before = s.afterBar(s.NextRunAt.Add(-length*3/2), fastest)
	}
	return !s.afterBar(before, speed).After(now)
}

// afterBar returns a time shortly after the next close of a bar. Bars begin at multiples
// of their length since 1970, in a market time that runs speed times as fast as the
// clock.
func (s *Schedule) afterBar(now time.Time, speed int64) time.Time {
	length := s.Timeframe.Duration() / time.Duration(max(speed, 1))
	margin := min(length/barMargin, maxBarMargin).Truncate(time.Millisecond)
	earliest := now.Add(-margin)
	if length < minRoundGap {
		earliest = now.Add(minRoundGap - margin)
	}
	frame := s.Timeframe.Duration().Milliseconds()
	for next := ((earliest.UnixMilli()+1)*max(speed, 1)-1)/frame + 1; ; next++ {
		if at := time.UnixMilli(next * frame / max(speed, 1)).Add(margin).UTC(); at.After(now) {
			return at
		}
	}
}
