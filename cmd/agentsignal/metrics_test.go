package main

import (
	"strconv"
	"strings"
)

// metricOf returns the sum of a metric in the text of /metrics over the series that
// have all labels, each like `code="200"`.
func metricOf(text, name string, labels ...string) float64 {
	total := 0.
series:
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(rest, "{"+l) && !strings.Contains(rest, ","+l) {
				continue series
			}
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
		if err == nil {
			total += value
		}
	}
	return total
}
