package weather

import (
	"fmt"
	"math"
	"slices"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// horizon is the number of forecast days that count, including that of the run.
const horizon = 14

// skill returns the weight of forecast day k, from 0.
func skill(k int) float64 {
	switch {
	case k < 3:
		return 1
	case k < 7:
		return .8
	}
	return .45
}

// Drivers name what moves a price; they are names of indicators.
const (
	DegreeDays = "degree_days"
	CropStress = "crop_stress"
	StormGust  = "storm_gust"
)

// Question identifies what an Outlook is about.
type Question struct {
	Strategy  string // energy_demand, agriculture or commodity_impact
	Commodity string // natural_gas, wheat, corn or oil
	Region    string // us, eu, asia or global
}

// Outlook is the meaning of a forecast for a commodity.
type Outlook struct {
	Question
	Driver   string
	Z        float64 // the anomaly in deviations of other years; positive: the price should rise
	Value    float64 // weighted daily mean of the driver in the forecast
	Normal   float64 // the normal of Value
	Strength float64 // share of other years' anomalies in this season that were smaller
	Event    signal.WeatherEvent
	Finding  string // in words, without a full stop
	channel  string // what is above or below normal, in words
}

// Direction returns long if demand rises or supply falls.
func (o *Outlook) Direction() signal.Direction {
	if o.Z < 0 {
		return signal.Short
	}
	return signal.Long
}

// What persists assumes of forecasts, as measured in the simulated weather: 12 seeds, the
// years 2021 to 2030, a run a week. Of real sources they are assumed.
const (
	// forecastPersistence is the correlation of a forecast anomaly with the actual one:
	// .77 to .79 for natural gas by region, .72 to .76 for crops.
	forecastPersistence = .80
	// forecastSpread is the deviation of forecast anomalies in deviations of actual ones,
	// which is more than 1 because errors add to it: 1.19 to 1.26 for natural gas by
	// region, 1.21 to 1.32 for crops.
	forecastSpread = 1.2
)

// undecided is the likelihood of an anomaly of which a forecast says nothing.
const undecided = .5

// Quiet tells whether the weather is too near normal to act on. A forecast of such weather
// says nothing of the price.
func (o *Outlook) Quiet() bool { return math.Abs(o.Z) < eventful }

// Likelihood returns the probability that the actual anomaly supports a direction. It is
// exactly a half, which adds nothing to a confidence, while o is quiet.
func (o *Outlook) Likelihood(d signal.Direction) float64 {
	switch {
	case o.Quiet():
		return undecided
	case d == signal.Short:
		return persists(-o.Z)
	}
	return persists(o.Z)
}

// persists returns the probability that the actual anomaly is positive if the forecast one is z.
func persists(z float64) float64 {
	return normalCDF(z / forecastSpread * forecastPersistence / math.Sqrt(1-forecastPersistence*forecastPersistence))
}

func normalCDF(x float64) float64 { return .5 * math.Erfc(-x/math.Sqrt2) }

// severityOf returns the severity of an anomaly.
func severityOf(z float64) string {
	switch z = math.Abs(z); {
	case z < eventful:
		return signal.Severities[0]
	case z < 1.5:
		return signal.Severities[1]
	case z < 2.25:
		return signal.Severities[2]
	}
	return signal.Severities[3]
}

// outlookOf returns the outlook of a forecast made on the day run. Both maps are by the
// names of points; the series of one whose forecast is missing is empty. The error is a
// *signal.RunError: DATA_UNAVAILABLE if too much of the forecast is missing,
// INSUFFICIENT_HISTORY if too much of the archive is.
func outlookOf(q Question, run Date, forecast, archive map[string]*Series) (Outlook, error) {
	j := judge{Question: q, run: run, forecast: forecast, archive: archive}
	if c, ok := crops[q.Commodity]; ok {
		return j.crop(c)
	}
	demand, err := j.demand()
	if err != nil || q.Strategy != "commodity_impact" {
		return demand, err
	}
	storm, err := j.storm()
	if err != nil || math.Abs(storm.Z) <= math.Abs(demand.Z) {
		return demand, err
	}
	return storm, nil
}

// pointsOf returns the points that a question concerns.
func pointsOf(q Question) []station {
	if c, ok := crops[q.Commodity]; ok {
		return stations(q.Region, false, c.weight)
	}
	list := stations(q.Region, true, demandWeight)
	if q.Strategy == "commodity_impact" {
		list = append(list, stations(q.Region, false, gulfWeight)...)
	}
	return list
}

func demandWeight(p *Point) float64 { return p.demand }

func gulfWeight(p *Point) float64 {
	if p.gulf {
		return 1
	}
	return 0
}

// judge answers one question.
type judge struct {
	Question
	run               Date
	forecast, archive map[string]*Series
}

// seen compares a forecast with the normal, by one measure.
type seen struct {
	field   *field
	run     Date
	sum     float64            // sum of skill·weight·anomaly
	value   float64            // sum of skill·weight·value
	normal  float64            // sum of skill·weight·normal
	cover   float64            // sum of skill·weight of the known values
	shares  []float64          // parts of sum, by station
	known   []bool             // whether the forecast of a station is known, by station
	anomaly [][horizon]float64 // of each station and day; 0 if unknown
}

// look compares the forecast of some points with the normal.
func (j *judge) look(m measure, at []station) (*seen, error) {
	f, err := newField(m, at, j.archive)
	if err != nil {
		return nil, unavailable(err)
	}
	return f.look(j.run, j.forecast)
}

// look compares a forecast with the normal.
func (f *field) look(run Date, forecast map[string]*Series) (*seen, error) {
	at := f.stations
	s := &seen{field: f, run: run, shares: make([]float64, len(at)), known: make([]bool, len(at)),
		anomaly: make([][horizon]float64, len(at))}
	whole := 0.0
	for i, station := range at {
		series, before, wholeBefore := forecast[station.Name], s.cover, whole
		for k := range horizon {
			w := skill(k) * station.weight
			whole += w
			d := run + Date(k)
			v := f.value(i, d, series.At(d))
			if math.IsNaN(v) {
				continue
			}
			normal, ok := f.normal(i, d)
			if !ok {
				return nil, tooFew("for " + station.Name)
			}
			s.anomaly[i][k] = v - normal
			s.shares[i] += w * (v - normal)
			s.value += w * v
			s.normal += w * normal
			s.cover += w
		}
		s.known[i] = s.cover-before >= minCover*(whole-wholeBefore)
		s.sum += s.shares[i]
	}
	if s.cover < minCover*whole {
		return nil, unavailable(fmt.Errorf("%.0f %% of the forecast is missing", 100*(1-s.cover/whole)))
	}
	return s, nil
}

// maxAnomaly bounds anomalies: if other years hardly had any, one can be thousands of
// their deviations, a number without further meaning.
const maxAnomaly = 10

// minSpread is the deviation below which other years had no anomalies.
const minSpread = 1e-9

// measured is look with the sum in deviations of other years, and the share of their sums
// that were smaller. If other years had no anomaly, z is 0.
func (j *judge) measured(m measure, at []station) (s *seen, z, strength float64, err error) {
	if s, err = j.look(m, at); err != nil {
		return nil, 0, 0, err
	}
	past, err := s.field.history(j.run)
	if err != nil {
		return nil, 0, 0, err
	}
	deviation := deviationOf(past)
	if !(deviation > minSpread) {
		return s, 0, .5, nil
	}
	below := 0.0
	for _, p := range past {
		switch a, b := math.Abs(p), math.Abs(s.sum); {
		case a < b:
			below++
		case a == b:
			below += .5
		}
	}
	return s, min(max(s.sum/deviation, -maxAnomaly), maxAnomaly), below / float64(len(past)), nil
}

// deviationOf returns the standard deviation of a sample.
func deviationOf(list []float64) float64 {
	var mean, squares float64
	for _, v := range list {
		mean += v / float64(len(list))
	}
	for _, v := range list {
		squares += (v - mean) * (v - mean)
	}
	return math.Sqrt(squares / float64(len(list)-1))
}

// demand judges the demand for heating and cooling.
func (j *judge) demand() (Outlook, error) {
	at := stations(j.Region, true, demandWeight)
	m := measure(heatingAndCooling)
	if j.Commodity == "oil" {
		m = heating
	}
	s, z, strength, err := j.measured(m, at)
	if err != nil {
		return Outlook{}, err
	}
	what, part, err := j.part(at)
	if err != nil {
		return Outlook{}, err
	}
	o, err := j.outlook(s, z, strength, DegreeDays)
	if err != nil {
		return Outlook{}, err
	}
	_, warmth, _, err := j.measured(temperature, at)
	if err != nil {
		return Outlook{}, err
	}
	o.Event.Type = demandEvent(z, warmth)
	judged := "heating and cooling together"
	if j.Commodity == "oil" {
		judged = what
	}
	o.describe(what, part, judged)
	return o, nil
}

// part returns the one of heating and cooling that is farther from normal, in words.
func (j *judge) part(at []station) (string, *seen, error) {
	heat, err := j.look(heating, at)
	if err != nil || j.Commodity == "oil" {
		return "heating demand", heat, err
	}
	cool, err := j.look(cooling, at)
	if err != nil || math.Abs(cool.sum) <= math.Abs(heat.sum) {
		return "heating demand", heat, err
	}
	return "cooling demand", cool, nil
}

// storm judges the loss of production in the Gulf. Regions without points there have no
// storms.
func (j *judge) storm() (Outlook, error) {
	const gusts = "force of gusts at the Gulf"
	at := stations(j.Region, false, gulfWeight)
	if len(at) == 0 {
		return Outlook{}, nil
	}
	s, z, strength, err := j.measured(storms, at)
	if err != nil {
		return Outlook{}, err
	}
	o, err := j.outlook(s, z, strength, StormGust)
	if err != nil {
		return Outlook{}, err
	}
	if o.Event.Type = signal.Seasonal; z >= eventful {
		o.Event.Type = signal.Storm
	}
	o.describe(gusts, s, gusts)
	return o, nil
}

// crop judges the loss of a harvest.
func (j *judge) crop(c crop) (Outlook, error) {
	const stress = "crop stress"
	judged := stress
	at := stations(j.Region, false, c.weight)
	s, z, strength, err := j.measured(c.stress, at)
	if err != nil {
		return Outlook{}, err
	}
	day, _ := j.run.calendar()
	if !c.season(monthOf(day)) {
		z *= offSeason
		judged = stress + ", divided by 4 out of season,"
	}
	o, err := j.outlook(s, z, strength, CropStress)
	if err != nil {
		return Outlook{}, err
	}
	var all [3]float64
	for i, m := range []measure{temperature, balance, c.frost} {
		if _, all[i], _, err = j.measured(m, at); err != nil {
			return Outlook{}, err
		}
	}
	// Where frost is rare, a little of it is a large anomaly. It names the event only if
	// it occurs at the event's location, which may be warm and dry.
	centre, _ := s.centre()
	_, there, _, err := j.measured(c.frost, []station{{s.field.stations[centre].Point, 1}})
	if err != nil {
		return Outlook{}, err
	}
	all[2] = min(all[2], there)
	o.Event.Type = cropEvent(all[0], all[1], all[2])
	o.describe(stress, s, judged)
	return o, nil
}

// outlook returns the outlook by one driver, except its words and the type of event.
func (j *judge) outlook(s *seen, z, strength float64, driver string) (Outlook, error) {
	o := Outlook{Question: j.Question, Driver: driver, Z: z, Value: s.value / s.cover, Normal: s.normal / s.cover,
		Strength: strength}
	at, peak := s.centre()
	warm, err := j.deviation(s.field.stations[at])
	if err != nil {
		return Outlook{}, err
	}
	o.Event = signal.WeatherEvent{Severity: severityOf(z), Location: s.field.stations[at].Name,
		ForecastDate: (j.run + Date(peak)).String(), Deviation: warm}
	return o, nil
}

// centre returns the known station with the largest part of the sum, and the day, from 0, of
// its largest anomaly. One station is known where minCover of all is.
func (s *seen) centre() (at, day int) {
	sign := 1.0
	if s.sum < 0 {
		sign = -1
	}
	at = slices.Index(s.known, true)
	for i := range s.shares {
		if s.known[i] && sign*s.shares[i] > sign*s.shares[at] {
			at = i
		}
	}
	for k := range horizon {
		if sign*skill(k)*s.anomaly[at][k] > sign*skill(day)*s.anomaly[at][day] {
			day = k
		}
	}
	return at, day
}

// firstWeek is the number of days over which the temperature of an event is averaged.
const firstWeek = 7

// deviation returns by how much the first week at a station is warmer than normal, in °C
// with one decimal.
func (j *judge) deviation(at station) (float64, error) {
	s, err := j.look(temperature, []station{{at.Point, 1}})
	if err != nil {
		return 0, err
	}
	return tenths(mean(s.anomaly[0][:firstWeek])), nil
}

func mean(list []float64) float64 {
	sum := 0.0
	for _, v := range list {
		sum += v
	}
	return sum / float64(len(list))
}

func unavailable(cause error) *signal.RunError {
	const message = "the weather forecast is incomplete"
	return &signal.RunError{Code: signal.DataUnavailable, Retryable: true, Message: message, Cause: cause}
}
