package weather

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/market"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// fakeSource is simulated weather that can fail and counts the calls.
type fakeSource struct {
	*Simulated
	refresh time.Duration

	mu                  sync.Mutex
	archives, forecasts int
	failing             error
	without, noArchive  string // names of points of which it has no forecast and no archive
	took                time.Duration
}

func (f *fakeSource) Newest(now, known time.Time) time.Time {
	if now.Sub(known) < f.refresh {
		return known
	}
	return now
}

func (f *fakeSource) Archive(ctx context.Context, at []*Point) (map[string]*Series, error) {
	f.mu.Lock()
	f.archives += len(at)
	err := f.failing
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if at[0].Name == f.noArchive {
		return nil, unavailable(errors.New("no archive of " + f.noArchive))
	}
	return archiveOf(f.Simulated, at), nil
}

// drawnArchives are the archives that tests have drawn, each once: a draw of 30 years takes a while with the race detector.
var drawnArchives struct {
	sync.Mutex
	archives map[archiveKey]*Series
}

type archiveKey struct {
	seed  uint64
	point string
}

// archiveOf returns what s.Archive does.
func archiveOf(s *Simulated, at []*Point) map[string]*Series {
	drawnArchives.Lock()
	defer drawnArchives.Unlock()
	if drawnArchives.archives == nil {
		drawnArchives.archives = make(map[archiveKey]*Series)
	}
	all := make(map[string]*Series, len(at))
	for _, p := range at {
		key := archiveKey{s.seed, p.Name}
		if drawnArchives.archives[key] == nil {
			one, _ := s.Archive(context.Background(), []*Point{p}) // never fails
			drawnArchives.archives[key] = one[p.Name]
		}
		all[p.Name] = drawnArchives.archives[key]
	}
	return all
}

// archived is simulated weather that draws each archive once.
type archived struct{ *Simulated }

func (a archived) Archive(_ context.Context, at []*Point) (map[string]*Series, error) {
	return archiveOf(a.Simulated, at), nil
}

func (f *fakeSource) Forecast(ctx context.Context, at []*Point, now time.Time) (map[string]*Series, time.Time, error) {
	f.mu.Lock()
	f.forecasts += len(at)
	err, took := f.failing, f.took
	f.mu.Unlock()
	time.Sleep(took)
	if err != nil {
		return nil, time.Time{}, err
	}
	got, _, err := f.Simulated.Forecast(ctx, at, now)
	if got[f.without] != nil {
		delete(got, f.without)
		err = unavailable(errors.New("no forecast of " + f.without))
	}
	return got, now, err
}

func (f *fakeSource) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing = err
}

var (
	gas  = Question{"energy_demand", "natural_gas", "us"}
	gulf = Question{"commodity_impact", "oil", "us"} // needs the points of gas and two at the Gulf
)

func newSource() *fakeSource {
	return &fakeSource{Simulated: NewSimulated(7, 1), refresh: time.Hour}
}

// withService calls f in a bubble, beside other tests, with a service whose source takes a
// time for each forecast.
func withService(t *testing.T, took time.Duration, f func(t *testing.T, source *fakeSource, s *Service)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		source.took = took
		f(t, source, New(source, Options{}))
	})
}

// run keeps s up to date until the test ends.
func run(t *testing.T, s *Service) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func TestForecastsAreFetchedOnceUntilTheyAreOld(t *testing.T) {
	withService(t, time.Second, func(t *testing.T, source *fakeSource, s *Service) {
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				if _, err := s.Outlook(t.Context(), gas); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if source.forecasts != 6 {
			t.Errorf("%d forecasts were fetched, want 6", source.forecasts)
		}
		first, _ := s.Outlook(t.Context(), gas)
		if _, err := s.Outlook(t.Context(), gulf); err != nil || source.forecasts != 8 {
			t.Errorf("%d forecasts, %v", source.forecasts, err)
		}
		time.Sleep(30 * time.Minute)
		if again, err := s.Outlook(t.Context(), gas); err != nil || again.Run != first.Run || source.forecasts != 8 {
			t.Errorf("after half an hour: %v, %v", again.Run, err)
		}
		time.Sleep(31 * time.Minute)
		again, err := s.Outlook(t.Context(), gas)
		if err != nil || !again.Run.After(first.Run) {
			t.Errorf("after an hour: %v, %v", again.Run, err)
		}
	})
}

// TestAnOutlookIsAsOldAsItsOldestForecast checks the age of an outlook whose points were
// fetched at different times.
func TestAnOutlookIsAsOldAsItsOldestForecast(t *testing.T) {
	withService(t, 0, func(t *testing.T, source *fakeSource, s *Service) {
		first, err := s.Outlook(t.Context(), gas)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Minute)
		got, err := s.Outlook(t.Context(), gulf)
		if err != nil || source.forecasts != 8 || !got.Run.Equal(first.Run) {
			t.Fatalf("%d forecasts, run of %v, want %v, %v", source.forecasts, got.Run, first.Run, err)
		}
		time.Sleep(30 * time.Minute) // the Gulf's is 30 minutes old, the others' 70
		got, err = s.Outlook(t.Context(), gulf)
		if want := first.Run.Add(40 * time.Minute); err != nil || source.forecasts != 14 || !got.Run.Equal(want) {
			t.Errorf("%d forecasts, run of %v, want %v, %v", source.forecasts, got.Run, want, err)
		}
	})
}

// shortSource forecasts a number of days.
type shortSource struct {
	*fakeSource
	days int
}

func (f shortSource) Forecast(ctx context.Context, at []*Point, now time.Time) (map[string]*Series, time.Time, error) {
	got, run, err := f.fakeSource.Forecast(ctx, at, now)
	for name, s := range got {
		end := int(DateOf(now)-s.From) + f.days
		got[name] = &Series{From: s.From, Days: s.Days[:end]}
	}
	return got, run, err
}

// TestTooShortForecastGivesNoOutlook checks that a forecast counts only with four
// fifths of its days, since a missing day looks like normal weather.
func TestTooShortForecastGivesNoOutlook(t *testing.T) {
	t.Parallel()
	for days, known := range map[int]bool{horizon: true, 10: true, 9: false, 3: false} {
		synctest.Test(t, func(t *testing.T) {
			_, err := New(shortSource{newSource(), days}, Options{}).Outlook(t.Context(), gas)
			fault, _ := errors.AsType[*signal.RunError](err)
			if known && err != nil || !known && (fault == nil || fault.Code != signal.DataUnavailable) {
				t.Errorf("%d days: %v, want an outlook: %v", days, err, known)
			}
		})
	}
}

// TestAPointThatIsMissingAloneIsAskedForAgain checks that the forecasts of the others are kept, and used if they
// have four fifths of the region's weight.
func TestAPointThatIsMissingAloneIsAskedForAgain(t *testing.T) {
	for name, judged := range map[string]bool{"Boston": true, "Chicago": false} { // .12 and .28 of the region
		t.Run(name, func(t *testing.T) {
			withService(t, 0, func(t *testing.T, source *fakeSource, s *Service) {
				begun := time.Now()
				source.without = name
				ask := func(when string, judged bool, forecasts int) Report {
					t.Helper()
					r, err := s.Outlook(t.Context(), gas)
					e, _ := errors.AsType[*signal.RunError](err)
					if judged && err != nil || !judged && (e == nil || e.Code != signal.DataUnavailable || !e.Retryable) ||
						source.forecasts != forecasts {
						t.Errorf("%s: %d forecasts, want %d; %v", when, source.forecasts, forecasts, err)
					}
					return r
				}
				first := ask("at first", judged, 6)
				if judged && !strings.Contains(first.Finding, "without the forecast of Boston") {
					t.Errorf("the finding is %q", first.Finding)
				}
				ask("at once", judged, 6)
				time.Sleep(missingPause)
				ask("after the pause", judged, 7)
				source.without = ""
				time.Sleep(missingPause)
				whole := ask("when it is back", true, 8)
				if whole.Input == first.Input || strings.Contains(whole.Finding, "without") {
					t.Errorf("the finding is %q", whole.Finding)
				}
				ask("later", true, 8)
				source.without = name
				time.Sleep(time.Hour)
				if r := ask("with its former forecast", true, 14); !r.Run.Equal(begun.Add(2 * missingPause)) {
					t.Errorf("the run is %v", r.Run)
				}
			})
		})
	}
}

// TestAPointThatIsMissingForTheNextQuestion checks that a question whose other points are known by then is answered.
func TestAPointThatIsMissingForTheNextQuestion(t *testing.T) {
	withService(t, 0, func(t *testing.T, source *fakeSource, s *Service) {
		source.without = "Boston"
		for _, q := range []Question{gulf, gas} {
			if _, err := s.Outlook(t.Context(), q); err != nil {
				t.Errorf("%v: %v", q, err)
			}
		}
	})
}

// TestAFailingArchiveDoesNotHoldUpOthers checks that each archive is read once, although one cannot be.
func TestAFailingArchiveDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	client, err := redisclient.NewClient(redisclient.Options{URL: redistest.New(t).URL(), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	source := newSource()
	source.noArchive = "Chicago" // the first one
	s := New(source, Options{Store: market.New(client), Now: func() time.Time { return now }})
	for archives := 6; archives < 8; archives++ {
		_, err := s.Outlook(t.Context(), gas)
		if e, _ := errors.AsType[*signal.RunError](err); e == nil || e.Code != signal.DataUnavailable ||
			source.archives != archives {
			t.Errorf("%d archives, want %d, %v", source.archives, archives, err)
		}
		now = now.Add(missingPause)
	}
}

func TestForecastsOutliveTheirSourceForAWhile(t *testing.T) {
	withService(t, 0, func(t *testing.T, source *fakeSource, s *Service) {
		code := func() (signal.ErrorCode, bool) {
			t.Helper()
			_, err := s.Outlook(t.Context(), gas)
			e, _ := errors.AsType[*signal.RunError](err)
			if e == nil {
				return "", false
			}
			return e.Code, e.Retryable
		}
		source.fail(&signal.RunError{Code: signal.DataUnavailable, Retryable: true, Message: "away"})
		if got, again := code(); got != signal.DataUnavailable || !again {
			t.Errorf("without any forecast: %s", got)
		}
		asked := source.forecasts
		code()
		if source.forecasts != asked {
			t.Error("a source that failed just now is asked again")
		}
		if _, _, ok := s.Likelihood(gas, signal.Long); ok {
			t.Error("there is a likelihood without a forecast")
		}
		source.fail(nil)
		time.Sleep(retryPause)
		if got, _ := code(); got != "" {
			t.Errorf("when it is back: %s", got)
		}
		source.fail(errors.New("not one of ours"))
		time.Sleep(11 * time.Hour)
		if got, _ := code(); got != "" {
			t.Errorf("after 11 hours: %s", got)
		}
		if _, _, ok := s.Likelihood(gas, signal.Long); !ok {
			t.Error("after 11 hours there is no likelihood")
		}
		time.Sleep(2 * time.Hour)
		if got, again := code(); got != signal.StaleData || !again {
			t.Errorf("after 13 hours: %s", got)
		}
		source.fail(nil)
		time.Sleep(retryPause)
		if got, _ := code(); got != "" {
			t.Errorf("when it is back again: %s", got)
		}
	})
}

// TestSourceRestsAsItRequests checks that a source is not asked during the pause that it requests.
func TestSourceRestsAsItRequests(t *testing.T) {
	withService(t, 0, func(t *testing.T, source *fakeSource, s *Service) {
		source.fail(&signal.RunError{Code: signal.DataUnavailable, Retryable: true, RetryAfter: 10 * time.Minute,
			Message: "limited"})
		for range 20 {
			s.Outlook(t.Context(), gas)
			time.Sleep(29 * time.Second)
		}
		if source.forecasts != 6 {
			t.Errorf("asked for %d forecasts in ten minutes, want the 6 of one time", source.forecasts)
		}
		source.fail(nil)
		time.Sleep(time.Minute)
		if _, err := s.Outlook(t.Context(), gas); err != nil {
			t.Error(err)
		}
	})
}

func TestRecentQuestionsAreRefreshed(t *testing.T) {
	withService(t, 0, func(t *testing.T, source *fakeSource, s *Service) {
		run(t, s)
		if _, _, ok := s.Likelihood(gas, signal.Long); ok {
			t.Error("there is a likelihood before the first fetch")
		}
		time.Sleep(2 * time.Second)
		long, tau, ok := s.Likelihood(gas, signal.Long)
		short, _, _ := s.Likelihood(gas, signal.Short)
		if !ok || long+short < .999 || long+short > 1.001 || tau != assumedTau {
			t.Errorf("likelihoods are %v and %v, τ is %v", long, short, tau)
		}
		time.Sleep(5 * time.Hour)
		if r, err := s.Outlook(t.Context(), gas); err != nil || time.Since(r.Run) > time.Hour+time.Minute {
			t.Errorf("after hours without a question the forecast is of %v, %v", r.Run, err)
		}
		time.Sleep(refreshFor + 2*staleAfter)
		asked := source.forecasts
		time.Sleep(5 * time.Hour)
		if source.forecasts != asked {
			t.Error("forecasts are still fetched without questions")
		}
	})
}

// TestForecastsArePublishedWhenTheyArrive checks that each is published once, after
// Likelihood uses it.
func TestForecastsArePublishedWhenTheyArrive(t *testing.T) {
	withService(t, 0, func(t *testing.T, source *fakeSource, s *Service) {
		var runs []time.Time
		s = New(source, Options{OnForecast: func(q Question) {
			r, err := s.Outlook(t.Context(), q)
			if _, _, ok := s.Likelihood(q, signal.Long); !ok || q != gas || err != nil {
				t.Errorf("%v is published, %v", q, err)
			}
			runs = append(runs, r.Run)
		}})
		run(t, s)
		begin := time.Now()
		s.Likelihood(gas, signal.Long)
		time.Sleep(90 * time.Minute)
		source.fail(errors.New("away"))
		time.Sleep(time.Hour)
		source.fail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(runs) != 3 || runs[0].Sub(begin) > time.Minute || runs[1].Sub(runs[0]) > time.Hour+time.Minute ||
			runs[2].Sub(runs[1]) < time.Hour {
			t.Errorf("published runs: %v", runs)
		}
	})
}

func TestOutlookStopsWithItsContext(t *testing.T) {
	withService(t, time.Minute, func(t *testing.T, source *fakeSource, s *Service) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Outlook(ctx, gas); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
		time.Sleep(2 * time.Minute)
		if _, err := s.Outlook(t.Context(), gas); err != nil || source.forecasts != 6 {
			t.Errorf("%d forecasts, %v", source.forecasts, err)
		}
	})
}

// TestNodesShareFetchedWeather checks that a second node does not ask the source.
func TestNodesShareFetchedWeather(t *testing.T) {
	t.Parallel()
	client, err := redisclient.NewClient(redisclient.Options{URL: redistest.New(t).URL(), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	store := market.New(client)
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	o := Options{Store: store, Now: func() time.Time { return now }}
	first, second := newSource(), newSource()
	a, err := New(first, o).Outlook(t.Context(), gas)
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(second, o).Outlook(t.Context(), gas)
	if err != nil {
		t.Fatal(err)
	}
	if a != b {
		t.Errorf("one node has %+v, the other %+v", a, b)
	}
	if second.archives+second.forecasts != 0 {
		t.Errorf("the second node fetched %d archives and %d forecasts", second.archives, second.forecasts)
	}
	now = now.Add(2 * time.Hour)
	if _, err := New(second, o).Outlook(t.Context(), gas); err != nil || second.archives != 0 || second.forecasts != 6 {
		t.Errorf("later: %d archives and %d forecasts, %v", second.archives, second.forecasts, err)
	}
	if err := store.SaveWeatherRecord(t.Context(), "archive:Chicago", []byte("junk"), 0); err != nil {
		t.Fatal(err)
	}
	third := newSource()
	if _, err := New(third, o).Outlook(t.Context(), gas); err != nil || third.archives != 1 {
		t.Errorf("with a record that cannot be read: %d archives, %v", third.archives, err)
	}
}

// brokenStore fails to read some records.
type brokenStore struct {
	Store
	prefix string // of their names
}

func (s *brokenStore) WeatherRecord(ctx context.Context, name string) ([]byte, error) {
	if s.prefix != "" && strings.HasPrefix(name, s.prefix) {
		return nil, errors.New("no answer")
	}
	return s.Store.WeatherRecord(ctx, name)
}

// TestArchivesAreReadForEachReport checks that a service does not keep thirty years of each point in its memory, and
// does not ask the source for them because the store cannot be read.
func TestArchivesAreReadForEachReport(t *testing.T) {
	t.Parallel()
	client, err := redisclient.NewClient(redisclient.Options{URL: redistest.New(t).URL(), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	store := &brokenStore{Store: market.New(client)}
	source := newSource()
	s := New(source, Options{Store: store, Now: func() time.Time { return now }})
	first, err := s.Outlook(t.Context(), gas)
	if err != nil || source.archives != 6 {
		t.Fatalf("%d archives were fetched, %v", source.archives, err)
	}
	store.prefix = "archive:"
	now = now.Add(2 * time.Hour)
	if again, err := s.Outlook(t.Context(), gas); err != nil || again.Run != first.Run || source.archives != 6 {
		t.Errorf("without answers of the store: a report of %v, %d archives, %v", again.Run, source.archives, err)
	}
	store.prefix = ""
	now = now.Add(time.Minute)
	if again, err := s.Outlook(t.Context(), gas); err != nil || !again.Run.After(first.Run) || source.archives != 6 {
		t.Errorf("with the store: a report of %v, %d archives, %v", again.Run, source.archives, err)
	}
}

func TestCloseWaitsForTheAnswerUnderWay(t *testing.T) {
	withService(t, time.Minute, func(t *testing.T, source *fakeSource, s *Service) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Outlook(ctx, gas); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		begun := time.Now()
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < 50*time.Second {
			t.Errorf("Close returned after %v", took)
		}
		time.Sleep(24 * time.Hour)
		if _, err := s.Outlook(t.Context(), gas); err == nil {
			t.Error("a question after Close was answered by an old forecast")
		}
	})
}
