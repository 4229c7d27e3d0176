package strategy

import (
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// BenchmarkAppend is the cost of a closed bar without an assessment.
func BenchmarkAppend(b *testing.B) {
	bars := walk(1, 5000, 0.01)
	s := NewSeries(signal.H1)
	span := int64(len(bars)) * hour
	for i := 0; b.Loop(); i++ {
		bar := bars[i%len(bars)]
		shift := int64(i/len(bars)) * span
		bar.OpenTime, bar.CloseTime = bar.OpenTime+shift, bar.CloseTime+shift
		add(b, s, bar)
	}
}

// BenchmarkHistory is the cost of building a series of 1,500 bars.
func BenchmarkHistory(b *testing.B) {
	bars := walk(1, 1500, 0.01)
	for b.Loop() {
		if err := NewSeries(signal.H1).Sync(bars); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAssessCold is the first run after a restart, with the bars in memory.
func BenchmarkAssessCold(b *testing.B) {
	s := seriesOf(b, signal.H1, walk(1, 1000, 0.01))
	for b.Loop() {
		s.entries.outcomes[1] = s.entries.outcomes[1][:0]
		s.forget()
		assess(b, s, Momentum, signal.MediumRisk)
	}
}

// BenchmarkAssessNextBar is the first run after a bar has closed.
func BenchmarkAssessNextBar(b *testing.B) {
	s := seriesOf(b, signal.H1, walk(1, 1000, 0.01))
	for b.Loop() {
		s.forget()
		assess(b, s, Momentum, signal.MediumRisk)
	}
}

// BenchmarkRunWarm is the cost of each further run at the same bar: the assessment, its
// levels and its metadata.
func BenchmarkRunWarm(b *testing.B) {
	s := seriesOf(b, signal.H1, walk(1, 1000, 0.01))
	entry := s.Last().Close
	extra := map[string]any{"source": "simulated", "time_compression": 60}
	b.ReportAllocs()
	for b.Loop() {
		a := assess(b, s, Momentum, signal.MediumRisk)
		l, err := a.Levels(entry, 0)
		if err != nil {
			b.Fatal(err)
		}
		a.Metadata("BTC", l, 0.1, extra)
	}
}

// BenchmarkSentiment uses the news that the simulated market publishes about an asset in
// the 1,000 hours that a series looks back: an item every 20 minutes.
func BenchmarkSentiment(b *testing.B) {
	bars := walk(1, 1000, 0.01)
	news := newsFor(bars, hour/3)
	s := seriesOf(b, signal.H1, bars)
	now := s.Last().CloseTime
	for _, c := range []struct {
		name   string
		forget func()
	}{
		{"again", func() {}},
		{"next bar", s.forget},
		{"next item", func() { s.news.given = nil }}, // sorts and compares all, reads none
		{"first", func() { s.news = newsMemory{} }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				c.forget()
				if _, err := s.AssessSentiment(news, signal.MediumRisk, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
