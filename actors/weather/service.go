package weather

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/tasks"
)

// The years of the archive.
const (
	archiveFrom = 1991
	archiveTo   = 2020
)

// Source gives weather.
type Source interface {
	// Name is the name under which signals state it.
	Name() string
	// Attribution is what its license asks to be said; empty if nothing.
	Attribution() string
	// Newest returns the run of the newest forecast that the source has now. known is the
	// run of the newest one that the caller has, zero if it has none.
	Newest(now, known time.Time) time.Time
	// Archive returns the days of archiveFrom to archiveTo at some points, by name.
	Archive(ctx context.Context, at []*Point) (map[string]*Series, error)
	// Forecast returns at least the days from today on, and when they were forecast.
	Forecast(ctx context.Context, at []*Point, now time.Time) (map[string]*Series, time.Time, error)
}

// Store keeps what came from far away. A value that is not there is nil.
type Store interface {
	WeatherRecord(ctx context.Context, name string) ([]byte, error)
	// SaveWeatherRecord keeps a value for a time; for good if that is 0.
	SaveWeatherRecord(ctx context.Context, name string, value []byte, keep time.Duration) error
}

// Options are the parts of a Service that may be left out.
type Options struct {
	Store     Store            // nil: what is fetched is kept in this process only
	Records   Records          // on which τ is fitted; nil: it is not
	Retention time.Duration    // of signals, from their creation; default 90 days
	Speed     int64            // as many times as fast as real time bars go by; default 1
	Now       func() time.Time // the service's clock; default time.Now
	Log       *slog.Logger     // nil: none
	// OnForecast is called with each question whose answer rests on a new forecast. It must
	// not wait; nil: nothing is called.
	OnForecast func(Question)
}

const (
	// staleAfter is from which age on a forecast is not used.
	staleAfter = 12 * time.Hour
	// makeTimeout bounds the fetching of all that an outlook needs. It may be longer
	// than a run: what was fetched serves the next one.
	makeTimeout = 2 * time.Minute
	// retryPause is the least pause after an error before the source is asked again.
	retryPause = 5 * time.Second
	// wantedFor is how long the outlook of a question is kept up to date unasked: open
	// signals ask once a bar, which may be a day.
	wantedFor = 49 * time.Hour
	// refreshEvery is the pause between two looks for new runs.
	refreshEvery = time.Second
)

// Report is an Outlook with its origin.
type Report struct {
	Outlook
	Source      string
	Attribution string    // empty if none is asked for
	Run         time.Time // of the forecast
	Slope       Slope     // for Confidence
}

// Limits of a confidence.
const (
	minConfidence = .01
	maxConfidence = .99
)

// Confidence returns the probability of a profit, not rounded, where prior is that of
// an entry without an opinion.
func (r *Report) Confidence(prior float64) float64 {
	return min(max(prior+r.Slope.Tau*(r.Likelihood(r.Direction())-.5), minConfidence), maxConfidence)
}

// Service answers questions about the weather. Its methods may be called from
// anywhere but an actor's Receive, except Likelihood.
type Service struct {
	source Source
	store  Store
	now    func() time.Time
	log    *slog.Logger
	slopes *slopes

	gate chan struct{} // held by who fetches and judges

	arrived func(Question) // Options.OnForecast
	making  tasks.Group    // answers, for all who wait for one

	mu   sync.Mutex
	kept map[Question]*answer

	// Guarded by gate.
	archive   map[string]*Series
	forecasts map[string]*forecast
}

// answer is what is known of a question. Service.mu guards it.
type answer struct {
	report Report // without a Run: none yet
	err    error  // of the last try, nil if it went well
	tried  time.Time
	asked  time.Time
	making chan struct{} // closed when the try under way ends; nil: none is
}

// forecast is that of one point.
type forecast struct {
	run    time.Time
	series *Series
}

// New returns a service that asks source.
func New(source Source, o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.OnForecast == nil {
		o.OnForecast = func(Question) {}
	}
	o.Log = o.Log.With("component", "weather")
	return &Service{
		source:    source,
		store:     o.Store,
		now:       o.Now,
		log:       o.Log,
		slopes:    newSlopes(o),
		gate:      make(chan struct{}, 1),
		arrived:   o.OnForecast,
		kept:      make(map[Question]*answer),
		archive:   make(map[string]*Series),
		forecasts: make(map[string]*forecast),
	}
}

// Outlook answers a question by the newest forecast. Errors are *signal.RunError:
// DATA_UNAVAILABLE if the source gives nothing, STALE_DATA if what it gave is too old,
// INSUFFICIENT_HISTORY if the past is not known. If ctx ends first it is its error.
func (s *Service) Outlook(ctx context.Context, q Question) (Report, error) {
	s.mu.Lock()
	a := s.ask(q)
	a.asked = s.now()
	done := s.refresh(ctx, q, a)
	s.mu.Unlock()
	if done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return Report{}, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	report, err := a.given(s.now())
	report.Slope = s.slopes.of(q.Commodity)
	return report, err
}

// ask returns what is known of q. The caller holds mu.
func (s *Service) ask(q Question) *answer {
	a := s.kept[q]
	if a == nil {
		a = &answer{}
		s.kept[q] = a
	}
	return a
}

// refresh begins to bring a up to date, and returns a channel that is closed when that has
// ended; nil if a is up to date, or failed just now. The caller holds mu.
func (s *Service) refresh(ctx context.Context, q Question, a *answer) <-chan struct{} {
	now := s.now()
	switch {
	case a.making != nil:
		return a.making
	case a.err == nil && !a.report.Run.IsZero() && !s.source.Newest(now, a.report.Run).After(a.report.Run):
		return nil
	case a.err != nil && now.Sub(a.tried) < pauseAfter(a.err):
		return nil
	}
	if s.making.Go(ctx, func(ctx context.Context) {
		panics.Guard(s.log, panics.Weather, func() { s.make(ctx, q, a) }, "commodity", q.Commodity, "region", q.Region)
	}) {
		a.making = make(chan struct{})
	}
	return a.making
}

// Close ends the making of answers and waits for it. Later questions are answered by what
// is known.
func (s *Service) Close(ctx context.Context) error { return s.making.Close(ctx) }

// pauseAfter returns how long an error is repeated before the source is asked again.
func pauseAfter(err error) time.Duration {
	if e, ok := errors.AsType[*signal.RunError](err); ok {
		return max(e.RetryAfter, retryPause)
	}
	return retryPause
}

// given returns the answer, or why there is none.
func (a *answer) given(now time.Time) (Report, error) {
	known := !a.report.Run.IsZero()
	if known && now.Sub(a.report.Run) <= staleAfter {
		return a.report, nil
	}
	if e, ok := errors.AsType[*signal.RunError](a.err); ok && (!known || e.Code != signal.DataUnavailable) {
		return Report{}, e
	}
	if !known {
		return Report{}, &signal.RunError{
			Code:      signal.DataUnavailable,
			Retryable: true,
			Message:   "the weather cannot be read at the moment",
			Cause:     a.err,
		}
	}
	return Report{}, &signal.RunError{Code: signal.StaleData, Retryable: true, Cause: a.err,
		Message: fmt.Sprintf("the newest weather forecast is %s old", now.Sub(a.report.Run).Round(time.Minute))}
}

// make answers q by the newest forecast.
func (s *Service) make(ctx context.Context, q Question, a *answer) {
	ctx, cancel := context.WithTimeout(ctx, makeTimeout)
	defer cancel()
	report, err := s.judge(ctx, q)
	if err != nil {
		s.log.Warn("no outlook", "strategy", q.Strategy, "commodity", q.Commodity, "region", q.Region, "err", err)
	}
	s.keep(a, report, err)
	if err == nil {
		s.arrived(q)
	}
}

// keep notes how a try has ended.
func (s *Service) keep(a *answer, report Report, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.err = err; err == nil {
		a.report = report
	}
	a.tried = s.now()
	close(a.making)
	a.making = nil
}

func (s *Service) judge(ctx context.Context, q Question) (_ Report, err error) {
	select {
	case <-s.slopes.ready: // nothing is known without τ
	case <-ctx.Done():
		return Report{}, ctx.Err()
	}
	select {
	case s.gate <- struct{}{}:
	case <-ctx.Done():
		return Report{}, ctx.Err()
	}
	defer func() { <-s.gate }()
	defer func() {
		if reason := recover(); reason != nil {
			err = &signal.RunError{
				Code:    signal.Internal,
				Message: "the weather could not be judged",
				Cause:   fmt.Errorf("panic: %v", reason),
			}
		}
	}()
	at := distinct(pointsOf(q))
	if err := s.needArchive(ctx, at); err != nil {
		return Report{}, err
	}
	run, err := s.needForecast(ctx, at)
	if err != nil {
		return Report{}, err
	}
	series := make(map[string]*Series, len(at))
	for _, p := range at {
		series[p.Name] = s.forecasts[p.Name].series
	}
	// A forecast that was made yesterday is judged from today on.
	o, err := outlookOf(q, DateOf(s.now()), series, s.archive)
	if err != nil {
		return Report{}, err
	}
	return Report{Outlook: o, Source: s.source.Name(), Attribution: s.source.Attribution(), Run: run}, nil
}

func distinct(list []station) []*Point {
	var all []*Point
	seen := map[string]bool{}
	for _, s := range list {
		if !seen[s.Name] {
			seen[s.Name] = true
			all = append(all, s.Point)
		}
	}
	return all
}

// needArchive loads or fetches the archive of points of which it is not known.
func (s *Service) needArchive(ctx context.Context, at []*Point) error {
	var lacking []*Point
	for _, p := range at {
		if s.archive[p.Name] != nil {
			continue
		}
		if record := s.load(ctx, archiveRecord(p)); record != nil {
			s.archive[p.Name] = record.series
			continue
		}
		lacking = append(lacking, p)
	}
	// One at a time: thirty years are much, and what has come is kept if the next fails.
	for _, p := range lacking {
		got, err := s.source.Archive(ctx, []*Point{p})
		if err != nil {
			return err
		}
		if got[p.Name] == nil {
			return unavailable(errors.New("no archive of " + p.Name))
		}
		s.archive[p.Name] = got[p.Name]
		s.save(ctx, archiveRecord(p), forecast{series: got[p.Name]}, 0)
	}
	return nil
}

// needForecast loads or fetches current forecasts of points, and returns their oldest run.
func (s *Service) needForecast(ctx context.Context, at []*Point) (time.Time, error) {
	now := s.now()
	current := func(f *forecast) bool { return f != nil && !s.source.Newest(now, f.run).After(f.run) }
	var lacking []*Point
	for _, p := range at {
		if current(s.forecasts[p.Name]) {
			continue
		}
		if f := s.load(ctx, forecastRecord(p)); current(f) {
			s.forecasts[p.Name] = f
			continue
		}
		lacking = append(lacking, p)
	}
	if len(lacking) > 0 {
		got, run, err := s.source.Forecast(ctx, lacking, now)
		if err != nil {
			return time.Time{}, err
		}
		for _, p := range lacking {
			if got[p.Name] == nil {
				return time.Time{}, unavailable(errors.New("no forecast of " + p.Name))
			}
			f := &forecast{run, got[p.Name]}
			s.forecasts[p.Name] = f
			s.save(ctx, forecastRecord(p), *f, staleAfter)
		}
	}
	oldest := now
	for _, p := range at {
		if f := s.forecasts[p.Name]; f.run.Before(oldest) {
			oldest = f.run
		}
	}
	return oldest, nil
}

func archiveRecord(p *Point) string  { return "archive:" + p.Name }
func forecastRecord(p *Point) string { return "forecast:" + p.Name }

// load returns what the store has under a name; nil if nothing, or nothing that can
// be read.
func (s *Service) load(ctx context.Context, name string) *forecast {
	if s.store == nil {
		return nil
	}
	value, err := s.store.WeatherRecord(ctx, name)
	if err == nil && value == nil {
		return nil
	}
	var f forecast
	if err == nil {
		f, err = decodeForecast(value)
	}
	if err != nil {
		s.log.Warn("stored weather is not readable", "record", name, "err", err)
		return nil
	}
	return &f
}

func (s *Service) save(ctx context.Context, name string, f forecast, keep time.Duration) {
	if s.store == nil {
		return
	}
	if err := s.store.SaveWeatherRecord(ctx, name, appendForecast(nil, f), keep); err != nil {
		s.log.Warn("weather is not stored", "record", name, "err", err)
	}
}

// Likelihood returns the probability, by the newest forecast that is known here, that
// the anomaly is on the side of a direction, and τ; false if none is known. It does not
// wait, but from then on the question is kept up to date for a while.
func (s *Service) Likelihood(q Question, d signal.Direction) (likelihood, tau float64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	a := s.ask(q)
	a.asked = now
	report, err := a.given(now)
	if err != nil {
		return 0, 0, false
	}
	return report.Likelihood(d), s.slopes.of(q.Commodity).Tau, true
}

// Run keeps τ and the answers to questions up to date that were asked lately, until ctx
// ends.
func (s *Service) Run(ctx context.Context) error {
	var fitting sync.WaitGroup
	fitting.Go(func() { s.slopes.run(ctx) })
	defer fitting.Wait()
	t := time.NewTicker(refreshEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		panics.Guard(s.log, panics.Weather, func() { s.refreshAll(ctx) })
	}
}

// refreshAll brings answers up to date that were asked for lately, and drops others.
func (s *Service) refreshAll(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for q, a := range s.kept {
		if now.Sub(a.asked) > wantedFor {
			if a.making == nil && now.Sub(a.report.Run) > staleAfter {
				delete(s.kept, q)
			}
			continue
		}
		s.refresh(ctx, q, a)
	}
}
