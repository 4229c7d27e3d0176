package weather

import (
	"cmp"
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

// Source provides weather.
type Source interface {
	Name() string // as stated in signals
	// Attribution returns the text that its license requires, or "".
	Attribution() string
	// Newest returns the run of the source's newest forecast. known is the run of the
	// caller's newest one, or zero.
	Newest(now, known time.Time) time.Time
	// Archive returns the days of archiveFrom to archiveTo at some points, by name.
	Archive(ctx context.Context, at []*Point) (map[string]*Series, error)
	// Forecast returns at least the days from today on, and the run of the forecast. If it fails for some of the
	// points it still returns the others.
	Forecast(ctx context.Context, at []*Point, now time.Time) (map[string]*Series, time.Time, error)
}

// Store keeps what was fetched, for all nodes. See market.Store of persistence.
type Store interface {
	// WeatherRecord returns the value under a name, or nil.
	WeatherRecord(ctx context.Context, name string) ([]byte, error)
	// SaveWeatherRecord stores a value for a time; 0 means for good.
	SaveWeatherRecord(ctx context.Context, name string, value []byte, keep time.Duration) error
}

// Options are the optional parts of a Service.
type Options struct {
	Store     Store            // nil: for a source that computes the weather; archives are asked for each report
	Records   Records          // to which τ is fitted; nil: it is not fitted
	Retention time.Duration    // of signals, from their creation; default 90 days
	Speed     int64            // bars pass this many times as fast as real time; default 1
	Now       func() time.Time // the service's clock; default time.Now
	Log       *slog.Logger     // or nil
	// OnForecast is called with each question whose answer rests on a new forecast. It must
	// not wait; it may be nil.
	OnForecast func(Question)
}

const (
	// staleAfter is the maximum age of a forecast that is used.
	staleAfter = 12 * time.Hour
	// makeTimeout bounds the fetching of the weather for an outlook. It may exceed the
	// time limit of a run: what was fetched serves the next one.
	makeTimeout = 2 * time.Minute
	// retryPause is the minimum pause after an error before the source is asked again.
	retryPause = 5 * time.Second
	// refreshFor is how long an outlook is kept up to date after the last question: open
	// signals ask once a bar, which may be a day.
	refreshFor = 49 * time.Hour
	// refreshEvery is the interval of checks for new runs.
	refreshEvery = time.Second
)

// Report is an Outlook with its origin.
type Report struct {
	Outlook
	Source      string
	Attribution string    // or empty
	Run         time.Time // of the forecast
	Slope       Slope     // for Confidence
	Input       string    // the SHA-256 of all that the outlook is made of
}

const (
	minConfidence = .01
	maxConfidence = .99
)

// Confidence returns the probability of a profit, not rounded. prior is that of an entry
// without an opinion, and is returned while r is quiet.
func (r *Report) Confidence(prior float64) float64 {
	if r.Quiet() {
		return prior
	}
	return min(max(prior+r.Slope.Tau*(r.Likelihood(r.Direction())-.5), minConfidence), maxConfidence)
}

// Service answers questions about the weather. Only Likelihood may be called from an
// actor's Receive.
type Service struct {
	source Source
	store  Store
	now    func() time.Time
	log    *slog.Logger
	slopes *slopes

	arrived func(Question) // Options.OnForecast
	making  tasks.Group    // of answers

	mu   sync.Mutex
	kept map[Question]*answer

	judging   chan struct{}      // held while weather is fetched and judged; guards the following
	unstored  map[string]*Series // archives that could not be saved
	forecasts map[string]*forecast
}

// answer is the newest answer to a question. Service.mu guards it.
type answer struct {
	report Report // without a Run: not made yet
	err    error  // of the last try, or nil
	tried  time.Time
	asked  time.Time
	making chan struct{} // closed when the try under way ends; nil without one
}

// forecast is the forecast for one point.
type forecast struct {
	run    time.Time
	series *Series
}

// New returns a service that asks source.
func New(source Source, o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.OnForecast == nil {
		o.OnForecast = func(Question) {}
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler)).With("component", "weather")
	return &Service{
		source:    source,
		store:     o.Store,
		now:       o.Now,
		log:       o.Log,
		slopes:    newSlopes(o),
		arrived:   o.OnForecast,
		kept:      make(map[Question]*answer),
		judging:   make(chan struct{}, 1),
		unstored:  make(map[string]*Series),
		forecasts: make(map[string]*forecast),
	}
}

// Outlook answers a question by the newest forecast. Errors are *signal.RunError
// (DATA_UNAVAILABLE without a forecast, STALE_DATA if it is too old, INSUFFICIENT_HISTORY
// if the archive is too short), or that of ctx.
func (s *Service) Outlook(ctx context.Context, q Question) (Report, error) {
	s.mu.Lock()
	a := s.answerTo(q)
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
	report, err := a.current(s.now())
	report.Slope = s.slopes.of(q.Commodity)
	return report, err
}

// answerTo returns the answer to q, or a new one. The caller holds mu.
func (s *Service) answerTo(q Question) *answer {
	a := s.kept[q]
	if a == nil {
		a = &answer{}
		s.kept[q] = a
	}
	return a
}

// refresh begins to update a and returns a channel that is closed at the end; nil if a is
// up to date, or failed just now. The caller holds mu.
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

// Close makes no further answers and waits for those under way. Later questions get
// earlier answers.
func (s *Service) Close(ctx context.Context) error { return s.making.Close(ctx) }

// pauseAfter returns how long an error is repeated before the source is asked again.
func pauseAfter(err error) time.Duration {
	if e, ok := errors.AsType[*signal.RunError](err); ok {
		return max(e.RetryAfter, retryPause)
	}
	return retryPause
}

// current returns the report unless it is missing or outdated.
func (a *answer) current(now time.Time) (Report, error) {
	known := !a.report.Run.IsZero()
	if known && now.Sub(a.report.Run) <= staleAfter {
		return a.report, nil
	}
	if e, ok := errors.AsType[*signal.RunError](a.err); ok && (!known || e.Code != signal.DataUnavailable) {
		return Report{}, e
	}
	if !known {
		return Report{}, &signal.RunError{Code: signal.DataUnavailable, Retryable: true, Cause: a.err, Passing: true,
			Message: "the weather cannot be read at the moment"}
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
		s.log.Warn("weather is missing", "strategy", q.Strategy, "commodity", q.Commodity, "region", q.Region,
			"outlook", !report.Run.IsZero(), "err", err)
	}
	if s.record(a, report, err) {
		s.arrived(q)
	}
}

// record stores the result of a try, and reports whether there is another forecast than before.
func (s *Service) record(a *answer, report Report, err error) (arrived bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.err = err; !report.Run.IsZero() {
		arrived = report.Run != a.report.Run || report.Input != a.report.Input
		a.report = report
	}
	a.tried = s.now()
	close(a.making)
	a.making = nil
	return arrived
}

// judge makes the report for q. It may return one with an error, which names what is missing in it.
func (s *Service) judge(ctx context.Context, q Question) (_ Report, err error) {
	select {
	case <-s.slopes.ready: // no report is made before τ is fitted
	case <-ctx.Done():
		return Report{}, ctx.Err()
	}
	select {
	case s.judging <- struct{}{}:
	case <-ctx.Done():
		return Report{}, ctx.Err()
	}
	defer func() { <-s.judging }()
	defer func() {
		if reason := recover(); reason != nil {
			cause := fmt.Errorf("panic: %v", reason)
			err = &signal.RunError{Code: signal.Internal, Message: "the weather could not be judged", Cause: cause}
		}
	}()
	at := distinct(pointsOf(q))
	run, missing := s.needForecast(ctx, at)
	if run.IsZero() {
		return Report{}, missing
	}
	archive, err := s.archives(ctx, at)
	if err != nil {
		return Report{}, err
	}
	series := make(map[string]*Series, len(at))
	for _, p := range at {
		series[p.Name] = &Series{}
		if f := s.forecasts[p.Name]; f != nil {
			series[p.Name] = f.series
		}
	}
	// Only the days from today on count, also in a forecast of yesterday.
	today := DateOf(s.now())
	o, err := outlookOf(q, today, series, archive)
	if err != nil {
		return Report{}, cmp.Or(missing, err)
	}
	input := inputHash(q, today, at, series, archive)
	return Report{Outlook: o, Source: s.source.Name(), Attribution: s.source.Attribution(), Run: run, Input: input}, missing
}

// distinct returns the points of stations without repetitions.
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

// archives loads or fetches the archives of points. They are read for each report and not kept, since a report is
// made once in hours, and the archive of a point is 0.3 MB. If some fail, the others have been stored for the next try.
func (s *Service) archives(ctx context.Context, at []*Point) (map[string]*Series, error) {
	all := make(map[string]*Series, len(at))
	var failed error
	for _, p := range at {
		archive, err := s.archiveOf(ctx, p)
		if _, ofSource := errors.AsType[*signal.RunError](err); err != nil && !ofSource {
			return nil, err // the store's, which holds for all
		}
		failed = cmp.Or(failed, err)
		all[p.Name] = archive
	}
	return all, failed
}

// archiveOf loads or fetches the archive of a point. It does not ask the source for thirty years because the store
// cannot be read.
func (s *Service) archiveOf(ctx context.Context, p *Point) (*Series, error) {
	if archive := s.unstored[p.Name]; archive != nil {
		return archive, nil
	}
	record, err := s.load(ctx, archiveRecord(p))
	if err != nil {
		return nil, err
	}
	if record != nil {
		return record.series, nil
	}
	got, err := s.source.Archive(ctx, []*Point{p})
	if err != nil {
		return nil, err
	}
	archive := got[p.Name]
	if archive == nil {
		return nil, unavailable(errors.New("no archive of " + p.Name))
	}
	if s.store != nil && !s.save(ctx, archiveRecord(p), forecast{series: archive}, 0) {
		s.unstored[p.Name] = archive
	}
	return archive, nil
}

// needForecast loads or fetches current forecasts of points, and returns the oldest run of those that there are; zero
// without any. The error is for the points of which there is no forecast, or only a former one.
func (s *Service) needForecast(ctx context.Context, at []*Point) (oldest time.Time, err error) {
	now := s.now()
	current := func(f *forecast) bool { return f != nil && !s.source.Newest(now, f.run).After(f.run) }
	var missing []*Point
	for _, p := range at {
		if current(s.forecasts[p.Name]) {
			continue
		}
		if f, _ := s.load(ctx, forecastRecord(p)); f != nil {
			s.forecasts[p.Name] = f
		}
		if !current(s.forecasts[p.Name]) {
			missing = append(missing, p)
		}
	}
	if len(missing) > 0 {
		var got map[string]*Series
		var run time.Time
		if got, run, err = s.source.Forecast(ctx, missing, now); len(got) == 0 && len(missing) == len(at) && err != nil {
			return time.Time{}, err // the source's, which holds for all
		}
		for _, p := range missing {
			if got[p.Name] != nil {
				f := &forecast{run, got[p.Name]}
				s.forecasts[p.Name] = f
				s.save(ctx, forecastRecord(p), *f, staleAfter)
				continue
			}
			if err == nil {
				err = unavailable(errors.New("no forecast of " + p.Name))
			}
			if f := s.forecasts[p.Name]; f != nil && now.Sub(f.run) > staleAfter {
				delete(s.forecasts, p.Name)
			}
		}
	}
	for _, p := range at {
		if f := s.forecasts[p.Name]; f != nil && (oldest.IsZero() || f.run.Before(oldest)) {
			oldest = f.run
		}
	}
	return oldest, err
}

func archiveRecord(p *Point) string  { return "archive:" + p.Name }
func forecastRecord(p *Point) string { return "forecast:" + p.Name }

// load returns the record under a name; nil if it is missing or unreadable. It fails if the store does.
func (s *Service) load(ctx context.Context, name string) (*forecast, error) {
	if s.store == nil {
		return nil, nil
	}
	value, err := s.store.WeatherRecord(ctx, name)
	if err != nil {
		s.log.Warn("stored weather cannot be read", "record", name, "err", err)
		return nil, err
	}
	if value == nil {
		return nil, nil
	}
	f, err := decodeForecast(value)
	if err != nil {
		s.log.Warn("stored weather is not readable", "record", name, "err", err)
		return nil, nil
	}
	return &f, nil
}

// save stores a record and reports whether the store has it.
func (s *Service) save(ctx context.Context, name string, f forecast, keep time.Duration) bool {
	if s.store == nil {
		return false
	}
	err := s.store.SaveWeatherRecord(ctx, name, appendForecast(nil, f), keep)
	if err != nil {
		s.log.Warn("weather is not stored", "record", name, "err", err)
	}
	return err == nil
}

// Likelihood returns the probability, by the newest forecast of this process, that the
// anomaly supports a direction, and τ; false without a forecast. It does not wait, but
// keeps the answer up to date for a while.
func (s *Service) Likelihood(q Question, d signal.Direction) (likelihood, tau float64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	a := s.answerTo(q)
	a.asked = now
	report, err := a.current(now)
	if err != nil {
		return 0, 0, false
	}
	return report.Likelihood(d), s.slopes.of(q.Commodity).Tau, true
}

// Run keeps τ and the answers to recent questions up to date until ctx ends.
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

// refreshAll updates the answers to recent questions and drops others.
func (s *Service) refreshAll(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for q, a := range s.kept {
		if now.Sub(a.asked) > refreshFor {
			if a.making == nil && now.Sub(a.report.Run) > staleAfter {
				delete(s.kept, q)
			}
			continue
		}
		s.refresh(ctx, q, a)
	}
}
