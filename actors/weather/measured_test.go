package weather

import (
	"encoding/csv"
	"math"
	"os"
	"strconv"
	"testing"
	"time"
)

// measuredMeans returns the daily mean temperatures of a city, 2012 to 2015.
func measuredMeans(t *testing.T, city string) *Series {
	t.Helper()
	f, err := os.Open("testdata/weather-seattle-newyork-2012-2015.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var s *Series
	for _, row := range rows {
		if row[0] != city {
			continue
		}
		d, err := time.Parse(time.DateOnly, row[1])
		highest, err2 := strconv.ParseFloat(row[3], 64)
		lowest, err3 := strconv.ParseFloat(row[4], 64)
		if err != nil || err2 != nil || err3 != nil {
			t.Fatal(row)
		}
		if s == nil {
			s = &Series{From: DateOf(d)}
		}
		if DateOf(d) != s.From+Date(len(s.Days)) {
			t.Fatalf("%s is out of order", row[1])
		}
		w := unknown
		w.Mean = float32((highest + lowest) / 2)
		s.Days = append(s.Days, w)
	}
	return s
}

// TestMeasuredAnomalies compares the limits of severity and the memory of the simulated
// climate with four years of measured weather.
func TestMeasuredAnomalies(t *testing.T) {
	t.Parallel()
	for city, want := range map[string]struct {
		shares         [4]float64 // of days by severity, of anomalies of seven days
		memory         float64
		winter, summer float64 // deviation of daily anomalies, °C; 0: not checked
	}{
		"Seattle":  {[4]float64{.70, .17, .10, .03}, .75, 0, 0},
		"New York": {[4]float64{.75, .14, .07, .04}, .66, 4.9, 2.4},
	} {
		s := measuredMeans(t, city)
		var anomalies, cold, warm []float64
		for k := range s.Days {
			d := s.From + Date(k)
			day, _ := d.calendar()
			a := float64(s.Days[k].Mean) - normalOf(temperature, nil, s, day).mean
			anomalies = append(anomalies, a)
			switch m := monthOf(day); {
			case m == 12 || m <= 2:
				cold = append(cold, a)
			case m >= 6 && m <= 8:
				warm = append(warm, a)
			}
		}
		if r := correlation(anomalies[1:], anomalies[:len(anomalies)-1]); math.Abs(r-want.memory) > .03 {
			t.Errorf("%s: the correlation of consecutive days is %.3f, want %.2f", city, r, want.memory)
		}
		if a, b := deviationOf(cold), deviationOf(warm); want.winter > 0 &&
			(math.Abs(a-want.winter) > .3 || math.Abs(b-want.summer) > .3) {
			t.Errorf("%s: anomalies deviate by %.2f and %.2f, want %.1f and %.1f", city, a, b, want.winter, want.summer)
		}
		var weeks []float64
		for k := 7; k <= len(anomalies); k++ {
			weeks = append(weeks, mean(anomalies[k-7:k]))
		}
		deviation := deviationOf(weeks)
		counts := map[string]float64{}
		for _, w := range weeks {
			counts[severityOf(w/deviation)] += 1 / float64(len(weeks))
		}
		for i, severity := range []string{"low", "medium", "high", "extreme"} {
			if math.Abs(counts[severity]-want.shares[i]) > .025 {
				t.Errorf("%s: %.3f of the weeks are %s, want %.2f", city, counts[severity], severity, want.shares[i])
			}
		}
		t.Logf("%s: %v, deviation of weeks %.2f", city, counts, deviation)
	}
}
