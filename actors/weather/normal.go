package weather

import (
	"fmt"
	"math"

	"github.com/agentsignal/agentsignal/actors/signal"
)

const (
	// normalWindow is the number of days before and after a date that count for its
	// normal.
	normalWindow = 7
	// minYears is the minimum number of years with a value there.
	minYears = 15
	// seasonWindow is the number of days before and after the date of a run at which sums
	// of other years may begin.
	seasonWindow = 15
	// minCover is the share of a sum's weights that must be known.
	minCover = .8
)

// normal is the normal of a measure at a point on a day of the year.
type normal struct {
	mean  float64
	years int // years with a value
}

// normalOf returns the normal of a measure for an index in the year.
func normalOf(m measure, p *Point, s *Series, day int) normal {
	var sum, n float64
	years, lastYear := 0, 0
	first, last := s.From.Time().Year()-1, s.Last().Time().Year()+1
	for year := first; year <= last; year++ {
		for off := -normalWindow; off <= normalWindow; off++ {
			y, d := year, day+off
			if d < 0 {
				y, d = y-1, d+yearDays
			} else if d >= yearDays {
				y, d = y+1, d-yearDays
			}
			v := m(p, day, s.At(inYear(y, d)))
			if math.IsNaN(v) {
				continue
			}
			sum, n = sum+v, n+1
			if lastYear != year {
				years, lastYear = years+1, year
			}
		}
	}
	if n == 0 {
		return normal{}
	}
	return normal{sum / n, years}
}

// field is a measure at weighted points, with their normals.
type field struct {
	measure  measure
	stations []station
	archive  []*Series        // of each station
	normals  []map[int]normal // of each station, by index in the year
}

func newField(m measure, stations []station, archive map[string]*Series) (*field, error) {
	f := &field{measure: m, stations: stations}
	for _, s := range stations {
		a := archive[s.Name]
		if a == nil {
			return nil, fmt.Errorf("there is no archive of %s", s.Name)
		}
		f.archive = append(f.archive, a)
		f.normals = append(f.normals, make(map[int]normal))
	}
	return f, nil
}

// normal returns the normal mean of station i on a day, or false if too few years are
// known.
func (f *field) normal(i int, d Date) (float64, bool) {
	day, leap := d.calendar()
	n := f.normalOn(i, day)
	if !leap {
		return n.mean, n.years >= minYears
	}
	next := f.normalOn(i, day+1)
	return (n.mean + next.mean) / 2, min(n.years, next.years) >= minYears
}

func (f *field) normalOn(i, day int) normal {
	n, ok := f.normals[i][day]
	if !ok {
		n = normalOf(f.measure, f.stations[i].Point, f.archive[i], day)
		f.normals[i][day] = n
	}
	return n
}

// settle computes the normals of what a forecast of the run of a date covers, and lets go of the archive, which
// nothing else may need afterwards.
func (f *field) settle(run Date) {
	for i := range f.stations {
		for k := range horizon {
			f.normal(i, run+Date(k))
		}
	}
	f.archive = nil
}

// value returns the measure of a day's weather at station i.
func (f *field) value(i int, d Date, w *Day) float64 {
	day, _ := d.calendar()
	return f.measure(f.stations[i].Point, day, w)
}

// tooFew returns the error for too few years in the archive.
func tooFew(what string) *signal.RunError {
	return &signal.RunError{Code: signal.InsufficientHistory, Message: "too few years of weather are known " + what}
}

// history returns the weighted sums of anomalies over horizon days that began in the
// years of the archive within seasonWindow days of the season of start, in no order. The
// error is a *signal.RunError if there are too few years.
func (f *field) history(start Date) ([]float64, error) {
	day, _ := start.calendar()
	first, last := f.archive[0].From, f.archive[0].Last()
	for _, a := range f.archive {
		first, last = max(first, a.From), min(last, a.Last())
	}
	var sums []float64
	years := 0
	for year := first.Time().Year(); year <= last.Time().Year(); year++ {
		from := inYear(year, day) - seasonWindow
		daily, known, err := f.daily(from, 2*seasonWindow+horizon)
		if err != nil {
			return nil, err
		}
		n := len(sums)
		for off := 0; off <= 2*seasonWindow; off++ {
			if from+Date(off) < first || from+Date(off+horizon-1) > last {
				continue
			}
			var sum, cover, whole float64
			for k := range horizon {
				sum += skill(k) * daily[off+k]
				cover += skill(k) * known[off+k]
				whole += skill(k)
			}
			if cover >= minCover*whole {
				sums = append(sums, sum)
			}
		}
		if len(sums) > n {
			years++
		}
	}
	if years < minYears {
		return nil, tooFew("at this time of the year")
	}
	return sums, nil
}

// daily returns the weighted anomaly of each of n days of the archive, and the sum of the
// weights that are known.
func (f *field) daily(from Date, n int) (anomalies, known []float64, err error) {
	anomalies, known = make([]float64, n), make([]float64, n)
	for k := range n {
		d := from + Date(k)
		for i := range f.stations {
			v := f.value(i, d, f.archive[i].At(d))
			if math.IsNaN(v) {
				continue
			}
			normal, ok := f.normal(i, d)
			if !ok {
				return nil, nil, tooFew("for " + f.stations[i].Name)
			}
			anomalies[k] += f.stations[i].weight * (v - normal)
			known[k] += f.stations[i].weight
		}
	}
	return anomalies, known, nil
}
