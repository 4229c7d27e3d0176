package barfile

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"
	"time"
)

// minutesText returns n rows of bars of a minute.
func minutesText(n int) []byte {
	var b bytes.Buffer
	b.WriteString("open_time,open,high,low,close,volume\n")
	price := 40_000.0
	for i := range n {
		move := float64(i*7919%101-50) / 10
		fmt.Fprintf(&b, "%d,%.2f,%.2f,%.2f,%.2f,%.5f\n", 1_640_995_200_000+int64(i)*minuteMs,
			price, price+8, price-8, price+move, 1+float64(i%977)/31)
		price += move
	}
	return b.Bytes()
}

// BenchmarkRead compares reading a file with counting its lines (wc -l) and converting each of its cells by
// strconv.ParseFloat, in turns.
func BenchmarkRead(b *testing.B) {
	const rows = 200_000
	text := minutesText(rows)
	var reading, reference time.Duration
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		start := time.Now()
		read, err := Read(bytes.NewReader(text), Options{Size: int64(len(text))})
		if err != nil || len(read.Bars) != rows {
			b.Fatalf("%d bars, %v", len(read.Bars), err)
		}
		reading += time.Since(start)
		start = time.Now()
		lines, sum := bytes.Count(text, []byte("\n")), 0.0
		_, rest, _ := bytes.Cut(text, []byte("\n"))
		for len(rest) > 0 {
			end := bytes.IndexByte(rest, '\n')
			line := rest[:end]
			rest = rest[end+1:]
			for len(line) > 0 {
				cell := line
				if end := bytes.IndexByte(line, ','); end >= 0 {
					cell, line = line[:end], line[end+1:]
				} else {
					line = nil
				}
				v, err := strconv.ParseFloat(string(cell), 64)
				if err != nil {
					b.Fatal(err)
				}
				sum += v
			}
		}
		if lines != rows+1 || sum == 0 {
			b.Fatal(lines, sum)
		}
		reference += time.Since(start)
	}
	b.ReportMetric(float64(reading)/float64(reference), "x-reference")
	b.ReportMetric(float64(reading.Nanoseconds())/float64(b.N*rows), "ns/row")
}
