package terminal

import (
	"bytes"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/http/client"
)

// A share of few signals says nothing: people are shown counts, and programs what the service answered.
func TestScoreShowsNoSharesOfFewSignals(t *testing.T) {
	t.Parallel()
	lines := func(form string, count int) string {
		card := &client.Scorecard{Statistics: client.Statistics{Count: count, Wins: 12, HitRate: of(.41), MeanConfidence: of(.42),
			BrierSkill: of(.43), ExpectancyR: of(-.1)}}
		card.Statistics.Interval.Low, card.Statistics.Interval.High = of(.3), of(.5)
		var out bytes.Buffer
		commandtest.Must(t, printScore(&printer{out: &out, form: form}, card))
		return out.String()
	}
	if text := lines(formText, minShare-1); strings.Contains(text, "%") || strings.Contains(text, "0.43") ||
		!strings.Contains(text, " 12 of 29 ") || !strings.Contains(text, "-0.10 R") {
		t.Errorf("of 29 signals it shows\n%s", text)
	}
	if text := lines(formText, minShare); !strings.Contains(text, "41.0 %  30.0 %  50.0 %") ||
		!strings.Contains(text, "0.43") {
		t.Errorf("of 30 signals it shows\n%s", text)
	}
	if text := lines(formCSV, minShare-1); !strings.Contains(text, ",29,0.41,0.3,0.5,0.42,") {
		t.Errorf("as CSV it shows\n%s", text)
	}
}
