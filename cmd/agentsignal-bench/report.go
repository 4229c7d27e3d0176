package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// report is what all benchmarks share: where they print their figures, and how long each is measured.
type report struct {
	out    io.Writer
	window time.Duration
}

// row prints one figure.
func (r *report) row(what, format string, args ...any) {
	fmt.Fprintf(r.out, "  %-46s %s\n", what, fmt.Sprintf(format, args...))
}

// percentile returns the value below which p percent of the sorted values lie.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(float64(len(sorted))*p/100), len(sorted)-1)]
}

// latencies formats the p50 and p99 of values.
func latencies(values []time.Duration) string {
	slices.Sort(values)
	return fmt.Sprintf("p50 %s, p99 %s", short(percentile(values, 50)), short(percentile(values, 99)))
}

// short rounds a duration to three digits.
func short(d time.Duration) time.Duration {
	switch {
	case d > 100*time.Millisecond:
		return d.Round(time.Millisecond)
	case d > time.Millisecond:
		return d.Round(10 * time.Microsecond)
	case d > 10*time.Microsecond:
		return d.Round(100 * time.Nanosecond)
	}
	return d
}

// median returns the middle of the values.
func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// microseconds returns the share of d for one of n.
func microseconds(d time.Duration, n int) float64 { return float64(d) / 1e3 / float64(max(n, 1)) }
