package weather

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// golden is an outlook computed by golden.py, an independent implementation.
type golden struct {
	Strategy, Commodity, Region, Run string
	Warmer, Wetter, Windier          float64
	Driver, Direction, Event         string
	Severity, Location, Peak         string
	Z, Deviation, P, Confidence      float64
	Ratio                            *float64
}

func tenthUp(v float64) float32 { return float32(math.Floor(v*10+.5) / 10) }

// madeUp is the weather of golden.py: waves without randomness, with missing values.
func madeUp(number int, date Date, g *golden) Day {
	i, d := float64(number), float64(date)
	season := math.Cos(2 * math.Pi * (d - 20) / 365.25)
	mean := 13 + 4*math.Sin(i) - float64(12+number%5)*season + 4*math.Sin(.37*d+1.3*i) + 2*math.Sin(.187*d+i) +
		5*math.Sin(.0131*d) + g.Warmer
	w := Day{
		Mean: tenthUp(mean), Max: tenthUp(mean + 6 + 2*math.Sin(.9*d+i)), Min: tenthUp(mean - 6 - 2*math.Cos(.7*d+2*i)),
		Rain: tenthUp(math.Max(0, 8*math.Sin(.53*d+.7*i)-3) * g.Wetter),
		ET0:  tenthUp(math.Max(0, 2.5-2.2*season+math.Sin(.8*d+i))),
		Gust: tenthUp(45 + 35*math.Abs(math.Sin(.21*d+i)) + 10*math.Sin(.05*d) + g.Windier),
	}
	if (int(date)*7+number*3)%97 == 0 {
		w.Mean = missing
	}
	if (int(date)*5+number)%89 == 0 {
		w.Rain = missing
	}
	return w
}

// madeUpSeries returns n days of all points.
func madeUpSeries(from Date, n int, g *golden) map[string]*Series {
	all := make(map[string]*Series)
	for number, p := range Points() {
		s := &Series{From: from, Days: make([]Day, n)}
		for k := range s.Days {
			s.Days[k] = madeUp(number, from+Date(k), g)
		}
		all[p.Name] = s
	}
	return all
}

func day(tb testing.TB, text string) Date {
	tb.Helper()
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		tb.Fatal(err)
	}
	return DateOf(t)
}

func TestOutlooksEqualIndependentOnes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []golden
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 9 {
		t.Fatalf("%d cases", len(cases))
	}
	from := day(t, "1991-01-01")
	archive := madeUpSeries(from, int(day(t, "2020-12-31")-from)+1, &golden{Wetter: 1})
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }
	events := map[string]bool{}
	for _, g := range cases {
		run := day(t, g.Run)
		o, err := outlookOf(Question{g.Strategy, g.Commodity, g.Region}, run, madeUpSeries(run, horizon, &g), archive)
		if err != nil {
			t.Errorf("%+v: %v", g, err)
			continue
		}
		events[g.Event] = true
		if math.Abs(g.Z) < 1 { // the forecast says nothing
			g.Event, g.P, g.Confidence = signal.Seasonal, .5, .41
		}
		r := Report{Outlook: o, Slope: Slope{Tau: assumedTau}}
		e, d := o.Event, o.Event.Deviation
		if o.Driver != g.Driver || !near(o.Z, g.Z) || string(o.Direction()) != g.Direction || e.Type != g.Event ||
			e.Severity != g.Severity || e.Location != g.Location || e.ForecastDate != g.Peak ||
			math.Abs(d-g.Deviation) > .0500001 || d != math.Round(d*10)/10 ||
			!near(o.Likelihood(o.Direction()), g.P) || !near(r.Confidence(.41), g.Confidence) {
			t.Errorf("%s %s %s %s:\n got %s z %v %s %+v p %v\nwant %+v", g.Strategy, g.Commodity, g.Region, g.Run,
				o.Driver, o.Z, o.Direction(), o.Event, o.Likelihood(o.Direction()), g)
		}
		if g.Ratio != nil && !near(o.Value/o.Normal, *g.Ratio) {
			t.Errorf("%s %s %s: %v of normal, want %v", g.Strategy, g.Commodity, g.Region, o.Value/o.Normal, *g.Ratio)
		}
		if !strings.Contains(o.Finding, o.Event.Location) || o.Strength < 0 || o.Strength > 1 {
			t.Errorf("%s %s: %q, strength %v", g.Strategy, g.Commodity, o.Finding, o.Strength)
		}
	}
	for _, e := range []string{signal.ColdSnap, signal.MildSpell, signal.Frost, signal.Storm, signal.ExcessRain,
		signal.HeatWave} {
		if !events[e] {
			t.Errorf("no case has a %s", e)
		}
	}
}
