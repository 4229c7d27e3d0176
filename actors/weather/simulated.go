package weather

import (
	"context"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"
)

// SimulatedName is the name of the simulated weather as a source.
const SimulatedName = "simulated"

// The simulated climate: a wave over the year, and around it anomalies that last.
const (
	anomalyMemory = .70 // correlation of a day's anomaly with that of the day before
	regional      = .6  // correlation of what is new on a day within a region
	winterSpread  = 4.5 // °C, deviation of anomalies
	summerSpread  = 2.5
	coldestDay    = 19 // place in the year
	rainMemory    = .25
	rainMean      = 7 // mm on a wet day
	stormChance   = .006
	forecastError = 1   // °C on the first day
	errorGrowth   = .35 // a day
	errorMemory   = .7  // between neighbouring days of one forecast
	simulatedFrom = 1991
	// Days by which a path exceeds the requested ones.
	simulatedBehind, simulatedAhead = 30, 400
)

// runsEvery is the time between two runs of a forecast model, and runsInBlend how
// many runs apart two errors have nothing in common.
const (
	runsEvery   = 6 * time.Hour
	runsInBlend = 4
)

// Simulated is simulated weather. It is a function of the seed and the time. Its methods
// may be called from any goroutine.
type Simulated struct {
	seed  uint64
	speed int64

	mu          sync.Mutex
	from, until Date // of paths
	paths       map[string]*Series

	effectsMu sync.Mutex
	effects   map[string]*effect // by commodity
}

// shock is the daily innovation of a region.
type shock struct{ warmth, storm float32 }

// NewSimulated returns the weather of a seed. Dates are those of the clock; forecasts are
// made speed times as often as in real time.
func NewSimulated(seed uint64, speed int64) *Simulated {
	return &Simulated{seed: seed, speed: max(speed, 1), paths: make(map[string]*Series),
		effects: make(map[string]*effect)}
}

// Name implements Source.
func (s *Simulated) Name() string { return SimulatedName }

// Attribution implements Source.
func (s *Simulated) Attribution() string { return "" }

// Newest implements Source.
func (s *Simulated) Newest(now, _ time.Time) time.Time {
	return now.Truncate(s.every()).UTC()
}

// every returns the time between two runs by the clock.
func (s *Simulated) every() time.Duration {
	return max(runsEvery/time.Duration(s.speed), time.Second)
}

// run returns the number of the run at a time.
func (s *Simulated) run(at time.Time) int64 { return at.UnixNano() / int64(s.every()) }

// Archive implements Source.
func (s *Simulated) Archive(_ context.Context, at []*Point) (map[string]*Series, error) {
	all := make(map[string]*Series, len(at))
	for _, p := range at {
		all[p.Name] = &Series{From: firstOf(simulatedFrom), Days: s.draw(p, firstOf(archiveTo+1))}
	}
	return all, nil
}

// Forecast implements Source.
func (s *Simulated) Forecast(_ context.Context, at []*Point, now time.Time) (map[string]*Series, time.Time, error) {
	run := s.Newest(now, time.Time{})
	from := DateOf(run)
	all := make(map[string]*Series, len(at))
	for _, p := range at {
		path := s.path(p, from, from+horizon)
		all[p.Name] = s.forecast(p, path, from, s.run(run))
	}
	return all, run, nil
}

func (s *Simulated) generator(parts ...string) *rand.Rand {
	h := fnv.New64a()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return rand.New(rand.NewPCG(s.seed, h.Sum64()))
}

// path returns the weather of a point on the days from one date to before another at least, past and future. Of
// what it draws it keeps the days around them.
func (s *Simulated) path(p *Point, from, until Date) *Series {
	s.mu.Lock()
	defer s.mu.Unlock()
	if from < s.from || until > s.until {
		s.from, s.until = max(from-simulatedBehind, firstOf(simulatedFrom)), until+simulatedAhead
		clear(s.paths)
	}
	path := s.paths[p.Name]
	if path == nil {
		days := s.draw(p, s.until)
		path = &Series{From: s.from, Days: slices.Clone(days[s.from-firstOf(simulatedFrom):])}
		s.paths[p.Name] = path
	}
	return path
}

// draw returns the weather of a point from simulatedFrom to before a date. Later days do not change earlier ones.
func (s *Simulated) draw(p *Point, until Date) []Day {
	from := firstOf(simulatedFrom)
	days := make([]Day, until-from)
	shocks := s.shocks(p.Region, len(days))
	own := s.generator("point", p.Name)
	var radiation [yearDays]float64
	for day := range radiation {
		radiation[day] = radiationAt(p.lat, day)
	}
	warmth, wet := own.NormFloat64(), false
	for i := range days {
		fresh := math.Sqrt(regional)*float64(shocks[i].warmth) + math.Sqrt(1-regional)*own.NormFloat64()
		warmth = anomalyMemory*warmth + math.Sqrt(1-anomalyMemory*anomalyMemory)*fresh
		chance := p.wet * (1 - rainMemory)
		if wet {
			chance = p.wet + rainMemory*(1-p.wet)
		}
		wet = own.Float64() < chance
		rain := 0.0
		if amount := own.ExpFloat64() * rainMean; wet {
			rain = amount
		}
		day, _ := (from + Date(i)).calendar()
		gust := 20 + 12*math.Sqrt(2*own.ExpFloat64())
		if force := own.ExpFloat64(); p.gulf && day >= monthStarts[5] && day < monthStarts[11] &&
			shocks[i].storm < stormChance {
			gust = math.Min(70+40*force, 250)
		}
		days[i] = p.day(day, radiation[day], p.normalMean(day)+spread(day)*warmth, rain, gust)
	}
	return days
}

// shocks returns the innovations of a region on each of n days.
func (s *Simulated) shocks(region string, n int) []shock {
	r := s.generator("region", region)
	list := make([]shock, n)
	for i := range list {
		list[i] = shock{float32(r.NormFloat64()), float32(r.Float64())}
	}
	return list
}

// wave is 1 on the coldest day of the year and -1 half a year later.
func wave(day int) float64 { return waves[day] }

var waves = func() (table [yearDays]float64) {
	for day := range table {
		table[day] = math.Cos(2 * math.Pi * float64(day-coldestDay) / yearDays)
	}
	return table
}()

func (p *Point) normalMean(day int) float64 { return p.mean - p.swing*wave(day) }

// spread returns the deviation of anomalies on a day of the year, °C.
func spread(day int) float64 {
	return (winterSpread+summerSpread)/2 + (winterSpread-summerSpread)/2*wave(day)
}

// day returns the weather of a day: dry days have a wider range and evaporate more.
func (p *Point) day(day int, radiation, mean, rain, gust float64) Day {
	half := 5 - 1.5*wave(day)
	if rain > 0 {
		half *= .65
	}
	return Day{Mean: tenth(mean), Max: tenth(mean + half), Min: tenth(mean - half), Rain: tenth(rain),
		ET0: tenth(evaporation(radiation, mean, 2*half)), Gust: tenth(gust)}
}

func tenth(v float64) float32 { return float32(math.Round(v*10) / 10) }

// evaporation returns an estimate of reference evapotranspiration, mm a day, from the
// extraterrestrial radiation, the mean temperature and its range, by Hargreaves and
// Samani (1985).
func evaporation(radiation, mean, width float64) float64 {
	return math.Max(0, .0023*(mean+17.8)*math.Sqrt(width)*.408*radiation)
}

// radiationAt returns the extraterrestrial radiation in MJ per square metre and day, by
// FAO paper 56, equation 21.
func radiationAt(latitude float64, day int) float64 {
	j, phi := float64(day+1), latitude*math.Pi/180
	tilt := .409 * math.Sin(2*math.Pi*j/yearDays-1.39)
	sunset := math.Acos(math.Min(1, math.Max(-1, -math.Tan(phi)*math.Tan(tilt))))
	return 24 * 60 / math.Pi * .0820 * (1 + .033*math.Cos(2*math.Pi*j/yearDays)) *
		(sunset*math.Sin(phi)*math.Sin(tilt) + math.Cos(phi)*math.Cos(tilt)*math.Sin(sunset))
}

// forecast returns the forecast of run n for the days from a date on: the actual weather
// with a growing error. Errors of consecutive runs are similar, as in real models: each
// is a blend of two that are drawn.
func (s *Simulated) forecast(p *Point, path *Series, from Date, n int64) *Series {
	block, turn := n/runsInBlend, float64(n%runsInBlend)/runsInBlend*math.Pi/2
	first, second := s.errors(p, block), s.errors(p, block+1)
	f := &Series{From: from, Days: make([]Day, horizon)}
	for k := range f.Days {
		d := from + Date(k)
		day, _ := d.calendar()
		truth := path.At(d)
		size := math.Min(forecastError+errorGrowth*float64(k), spread(day))
		a, b := &first[k], &second[k]
		mean := float64(truth.Mean) + size*(math.Cos(turn)*a.warmth+math.Sin(turn)*b.warmth)
		rain, gust := float64(truth.Rain), float64(truth.Gust)
		if a.miss < math.Min(.05*float64(k), .6) {
			rain, gust = 0, math.Min(gust, a.gust)
			if a.wet < p.wet {
				rain = a.rain
			}
		}
		f.Days[k] = p.day(day, radiationAt(p.lat, day), mean, rain, gust)
	}
	return f
}

// mistake is the error of a forecast for a day.
type mistake struct{ warmth, miss, wet, rain, gust float64 }

// errors returns the errors of a block of runs at a point.
func (s *Simulated) errors(p *Point, block int64) [horizon]mistake {
	number := strconv.FormatInt(block, 10)
	own, common := s.generator("error", p.Name, number), s.generator("error of region", p.Region, number)
	var list [horizon]mistake
	last := 0.0
	for k := range list {
		fresh := math.Sqrt(regional)*common.NormFloat64() + math.Sqrt(1-regional)*own.NormFloat64()
		if k == 0 {
			last = fresh
		} else {
			last = errorMemory*last + math.Sqrt(1-errorMemory*errorMemory)*fresh
		}
		list[k] = mistake{last, own.Float64(), own.Float64(), own.ExpFloat64() * rainMean,
			20 + 12*math.Sqrt(2*own.ExpFloat64())}
	}
	return list
}

// effect is the influence of the simulated weather of a day on a simulated price.
type effect struct {
	run    int64
	z      float64
	date   Date
	field  *field // with the normals of the date
	spread float64
	share  float64 // the factor of anomalies in this season
}

// affected are the measures whose anomalies move simulated prices, by commodity.
var affected = map[string]measure{"natural_gas": heatingAndCooling, "corn": cornStress, "wheat": wheatStress}

// Anomaly returns the anomaly, in deviations, by which the weather of all regions moves
// the simulated price of a commodity at a time: that of the Outlook of a run for demand
// or stress at that time. It is 0 for a commodity that does not depend on weather. It may
// be called from any goroutine; the first call of a day computes the normals, in some 0.1
// s.
func (s *Simulated) Anomaly(commodity string, at time.Time) float64 {
	m, ok := affected[commodity]
	if !ok {
		return 0
	}
	s.effectsMu.Lock()
	defer s.effectsMu.Unlock()
	p := s.effects[commodity]
	if p == nil {
		p = &effect{run: -1, date: -1}
		s.effects[commodity] = p
	}
	if run := s.run(at); p.run != run {
		p.run, p.z = run, 0
		if s.prepare(p, m, commodity, DateOf(s.Newest(at, time.Time{}))) {
			p.z = s.anomaly(p, at)
		}
	}
	return p.z
}

// Warm computes in advance what Anomaly needs at a time, unless ctx ends: some 0.3 s of
// computing.
func (s *Simulated) Warm(ctx context.Context, at time.Time) {
	from := DateOf(s.Newest(at, time.Time{}))
	for _, p := range Points() {
		if ctx.Err() != nil {
			return
		}
		s.path(&p, from, from+horizon)
	}
	for commodity := range affected {
		if ctx.Err() != nil {
			return
		}
		s.Anomaly(commodity, at) //nolint:contextcheck // the simulated archive never waits
	}
}

// prepare computes the normals of a date. It returns false if that is impossible.
func (s *Simulated) prepare(p *effect, m measure, commodity string, date Date) bool {
	if p.date == date {
		return p.field != nil
	}
	p.date, p.field, p.share = date, nil, 1
	q := Question{Commodity: commodity, Region: Global}
	at := pointsOf(q)
	archive, err := s.Archive(context.Background(), distinct(at))
	if err != nil {
		return false
	}
	f, err := newField(m, at, archive)
	if err != nil {
		return false
	}
	past, err := f.history(date)
	if err != nil {
		return false
	}
	if c, ok := crops[commodity]; ok {
		if day, _ := date.calendar(); !c.season(monthOf(day)) {
			p.share = offSeason
		}
	}
	if p.spread = deviationOf(past); p.spread > minSpread {
		f.settle(date)
		p.field = f
	}
	return p.field != nil
}

func (s *Simulated) anomaly(p *effect, at time.Time) float64 {
	forecast, _, err := s.Forecast(context.Background(), distinct(p.field.stations), at)
	if err != nil {
		return 0
	}
	seen, err := p.field.look(p.date, forecast)
	if err != nil {
		return 0
	}
	return p.share * min(max(seen.sum/p.spread, -maxAnomaly), maxAnomaly)
}
