package weather

import "math"

// A measure maps a day's weather at a point to a number; NaN if a value is missing. day
// is the index in the year by whose rules the weather is measured. For normals the days
// around a date are measured by the rules of that date: with their own rules a measure
// that begins with a month would make the days before it look abnormal.
type measure func(p *Point, day int, w *Day) float64

// comfort is the daily mean temperature, in °C, that needs neither heating nor cooling.
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
	stormGust = 75 // km/h, from which on wells are shut down
	gustScale = 20
)

// storms measures gusts at the Gulf from June to November.
func storms(_ *Point, day int, w *Day) float64 {
	if m := monthOf(day); m < 6 || m > 11 {
		return 0
	}
	return math.Max(0, float64(w.Gust)-stormGust) / gustScale
}

// balance is the water that the soil loses on a day, mm.
func balance(_ *Point, _ int, w *Day) float64 { return float64(w.ET0) - float64(w.Rain) }

// heatAndDrought is the stress by heat above a limit and by lack of water.
func heatAndDrought(w *Day, limit float64) float64 {
	return math.Max(0, float64(w.Max)-limit) + .5*math.Max(0, float64(w.ET0)-float64(w.Rain))
}

// Silking, when corn suffers most: 1 July to 10 August.
const (
	silkingFrom   = 181
	silkingTo     = 221
	silkingWeight = 1.5
)

// cornFrost is the stress by frost while corn is young or unripe: April, May, September.
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

// crop holds the measures of a crop.
type crop struct {
	stress, frost measure
	weight        func(*Point) float64
	season        func(month int) bool
}

// crops by commodity.
var crops = map[string]crop{
	"corn": {cornStress, cornFrost, func(p *Point) float64 { return p.corn },
		func(m int) bool { return m >= 4 && m <= 9 }},
	"wheat": {wheatStress, wheatFrost, func(p *Point) float64 { return p.wheat },
		func(m int) bool { return m >= 3 && m <= 7 || m == 12 || m <= 2 }},
}

// offSeason is the factor for anomalies of a crop outside its season.
const offSeason = .25
