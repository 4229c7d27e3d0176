package weather

import (
	"context"
	"time"
)

// pull is the effect of the simulated weather of a day on a simulated price.
type pull struct {
	run    int64
	z      float64
	date   Date
	field  *field // with the normals of the date
	spread float64
	share  float64 // the factor of anomalies in this season
}

// pulled are the measures whose anomalies move simulated prices, by commodity.
var pulled = map[string]measure{"natural_gas": heatingAndCooling, "corn": cornStress, "wheat": wheatStress}

// Anomaly returns the anomaly, in deviations, by which the weather of all regions moves
// the simulated price of a commodity at a time: that of the Outlook of a run for demand
// or stress at that time. It is 0 for a commodity that does not depend on weather. It may
// be called from any goroutine; the first call of a day computes the normals, in some 0.1
// s.
func (s *Simulated) Anomaly(commodity string, at time.Time) float64 {
	m, ok := pulled[commodity]
	if !ok {
		return 0
	}
	s.pulling.Lock()
	defer s.pulling.Unlock()
	p := s.pulls[commodity]
	if p == nil {
		p = &pull{run: -1, date: -1}
		s.pulls[commodity] = p
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
	for commodity := range pulled {
		if ctx.Err() != nil {
			return
		}
		s.Anomaly(commodity, at)
	}
}

// prepare computes the normals of a date. It returns false if that is impossible.
func (s *Simulated) prepare(p *pull, m measure, commodity string, date Date) bool {
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

func (s *Simulated) anomaly(p *pull, at time.Time) float64 {
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
