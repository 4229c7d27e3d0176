package weather

import "math"

// A measure is what a day's weather at a point means, as a number; NaN where a value
// is missing. day is the place in the year by whose rules the weather is judged. For
// normals, the days around a date are judged by the rules of that date, else a rule
// that begins with a month would make the days before it look out of the ordinary.
type measure func(p *Point, day int, w *Day) float64

// comfort is the daily mean temperature, in °C, without heating or cooling.
const comfort = 18

// Values of measures.

func temperature(_ *Point, _ int, w *Day) float64 { return float64(w.Mean) }

// heating and cooling are degree days.
func heating(_ *Point, _ int, w *Day) float64 { return math.Max(0, comfort-float64(w.Mean)) }

func cooling(p *Point, _ int, w *Day) float64 {
	return p.cooling * math.Max(0, float64(w.Mean)-comfort)
}

func heatingAndCooling(p *Point, day int, w *Day) float64 {
	return heating(p, day, w) + cooling(p, day, w)
}

// Rules of storms.
const (
	stormGust = 75 // km/h, from which wells are shut
	gustScale = 20
)

// storms counts gusts at the Gulf, June to November.
func storms(_ *Point, day int, w *Day) float64 {
	if m := monthOf(day); m < 6 || m > 11 {
		return 0
	}
	return math.Max(0, float64(w.Gust)-stormGust) / gustScale
}

// balance is the water that a day takes from the soil, mm.
func balance(_ *Point, _ int, w *Day) float64 { return float64(w.ET0) - float64(w.Rain) }

// heatAndDrought is the stress of heat above a limit and of missing water.
func heatAndDrought(w *Day, limit float64) float64 {
	return math.Max(0, float64(w.Max)-limit) + .5*math.Max(0, float64(w.ET0)-float64(w.Rain))
}

// Silking, when corn suffers most: 1 July to 10 August.
const (
	silkingFrom   = 181
	silkingTo     = 221
	silkingWeight = 1.5
)

// cornFrost is what frost adds while corn is young or not ripe: April, May, September.
func cornFrost(_ *Point, day int, w *Day) float64 {
	if m := monthOf(day); m == 4 || m == 5 || m == 9 {
		return 5 * math.Max(0, -2-float64(w.Min))
	}
	return 0
}

func cornStress(p *Point, day int, w *Day) float64 {
	v := heatAndDrought(w, 30) + cornFrost(p, day, w)
	if day >= silkingFrom && day <= silkingTo {
		v *= silkingWeight
	}
	return v
}

// wheatFrost is winterkill: December to February.
func wheatFrost(_ *Point, day int, w *Day) float64 {
	if !winter(day) {
		return 0
	}
	return math.Max(0, -18-float64(w.Min))
}

func winter(day int) bool {
	m := monthOf(day)
	return m == 12 || m <= 2
}

func wheatStress(p *Point, day int, w *Day) float64 {
	if winter(day) {
		return wheatFrost(p, day, w)
	}
	return heatAndDrought(w, 32)
}

// crop is how a crop is judged.
type crop struct {
	stress, frost measure
	weight        func(*Point) float64
	season        func(month int) bool
}

// crops by commodity.
var crops = map[string]crop{
	"corn": {cornStress, cornFrost, func(p *Point) float64 { return p.corn }, func(m int) bool { return m >= 4 && m <= 9 }},
	"wheat": {wheatStress, wheatFrost, func(p *Point) float64 { return p.wheat },
		func(m int) bool { return m >= 3 && m <= 7 || m == 12 || m <= 2 }},
}

// offSeason is what an anomaly of a crop that does not grow counts for.
const offSeason = .25
