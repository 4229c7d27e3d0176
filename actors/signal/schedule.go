package signal

import "time"

// ScheduleStatus says whether a schedule runs.
type ScheduleStatus string

// The statuses of schedules.
const (
	ScheduleEnabled  ScheduleStatus = "enabled"
	ScheduleDisabled ScheduleStatus = "disabled"
)

// ScheduleStatuses lists them, for requests and the API description.
var ScheduleStatuses = []ScheduleStatus{ScheduleEnabled, ScheduleDisabled}

// Schedule runs an agent for assets again and again.
type Schedule struct {
	ID        ScheduleID
	Account   AccountID
	Agent     AgentID
	Assets    []string // 1 or more, as the client wrote them
	Strategy  string
	Timeframe Timeframe
	Risk      RiskLevel
	// Every is the time between two rounds, in whole minutes; 0: at each close of a bar
	// of Timeframe.
	Every time.Duration
	// MaxOpen is how many open signals an asset may have of those that the schedule makes:
	// of its agent, strategy, timeframe and risk, whoever made them; 1 or more.
	MaxOpen   int
	Status    ScheduleStatus
	NextRunAt time.Time // zero while it is disabled
	CreatedAt time.Time
	UpdatedAt time.Time // of the last change by its owner

	// What came of its rounds. Set by the store.
	LastRunAt time.Time      // when the last one began; zero: there was none
	LastError *ScheduleError // of the last run that failed; nil: none has
	Failures  int            // runs that failed since the last round without one
	Skipped   int            // rounds of which the quota of runs refused a part, or all

	// Revision is what the record was read from, so that a change of it is refused if
	// another came first. Set by the store.
	Revision string
}

// ScheduleError is why a run of a schedule failed.
type ScheduleError struct {
	// Code is the ErrorCode of the run, or the code of the error that refused it.
	Code    string
	Message string
	At      time.Time
}

// Round is what came of a round of a schedule.
type Round struct {
	At       time.Time      // when it began
	Runs     int            // that were made, failed ones included
	Failures int            // runs that failed
	Error    *ScheduleError // of the last of these; nil: there is none
	Skipped  bool           // the quota of runs refused a part of it, or all
}

const (
	// barMargin is which part of a bar a round comes after its close, so that the bar
	// is there; maxBarMargin bounds it.
	barMargin    = 10
	maxBarMargin = 2 * time.Second
	// minRoundGap is the least time between two rounds, where bars are shorter.
	minRoundGap = time.Second
)

// Makes says that an open signal on one of its assets counts against MaxOpen. The weather
// agent rests on bars of a day, whatever timeframe it is asked for.
func (s *Schedule) Makes(x *Signal) bool {
	return x.Agent == s.Agent && x.Strategy == s.Strategy && x.Risk == s.Risk && (x.Timeframe == s.Timeframe || x.Weather != nil)
}

// Fastest returns the greatest speed of its assets; 1 if none is known. Of a schedule that
// does not wait for bars it is 1, and no asset is asked for.
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

// FirstRun returns when a schedule that is new, or enabled again, runs first: at once,
// or shortly after the next close of a bar. speed is how many times as fast as real
// time bars go by, 1 or more; that of its fastest asset.
func (s *Schedule) FirstRun(now time.Time, speed int64) time.Time {
	if s.Every > 0 {
		return now.Truncate(time.Millisecond)
	}
	return s.afterBar(now, speed)
}

// RunAfter returns when the schedule runs after the round at NextRunAt, which begins
// now. Rounds that were missed are left out; the others keep their distance.
func (s *Schedule) RunAfter(now time.Time, speed int64) time.Time {
	if s.Every <= 0 {
		return s.afterBar(now, speed)
	}
	missed := max(0, now.Sub(s.NextRunAt)) / s.Every
	return s.NextRunAt.Add((missed + 1) * s.Every)
}

// Concerns says that the round at NextRunAt, which begins now, is one of an asset whose
// bars go by with a speed: of the schedule's fastest asset each one, of others those at
// which a bar of their own has closed since the round before. Where the fastest bars are
// shorter than minRoundGap it is not known when that was: then two rounds may have one bar.
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

// afterBar returns a little later than the next close of a bar after now. Bars lie at
// multiples of their length since 1970, in a time that runs speed times as fast.
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
