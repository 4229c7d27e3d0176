package weather

import (
	"math"
	"testing"
	"time"
)

// A leap day has no normal of its own: it lies between those of 28 February and of 1 March, and is known if both are.
func TestNormalOfALeapDay(t *testing.T) {
	t.Parallel()
	on := func(year int, month time.Month, day int) Date {
		return DateOf(time.Date(year, month, day, 0, 0, 0, 0, time.UTC))
	}
	for name, test := range map[string]struct {
		from, to           Date
		before, leap, next bool // whether the normal is known
	}{
		"of many years":                {on(1996, 1, 1), on(2020, 12, 31), true, true, true},
		"too few years of 28 February": {on(2000, 3, 8), on(2014, 3, 8), false, false, true},
		"too few years of 1 March":     {on(2000, 2, 21), on(2014, 2, 21), true, false, false},
	} {
		archive := &Series{From: test.from}
		for d := test.from; d <= test.to; d++ {
			day, _ := d.calendar()
			w := unknown
			w.Mean = float32(day) // so that the normal of a day is its index
			archive.Days = append(archive.Days, w)
		}
		f, err := newField(temperature, []station{{Point: &Point{Name: "X"}}}, map[string]*Series{"X": archive})
		if err != nil {
			t.Fatal(err)
		}
		many := name == "of many years"
		for day, want := range map[Date]struct {
			normal float64
			known  bool
		}{
			on(2024, 2, 28): {leapDay, test.before},
			on(2024, 2, 29): {leapDay + .5, test.leap},
			on(2024, 3, 1):  {leapDay + 1, test.next},
		} {
			if got, known := f.normal(0, day); known != want.known || many && math.Abs(got-want.normal) > 1e-9 {
				t.Errorf("%s: the normal of %s is %v, known %t, want %v, %t", name, day, got, known, want.normal, want.known)
			}
		}
	}
}
