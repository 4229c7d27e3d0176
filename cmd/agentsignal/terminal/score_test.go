package terminal

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/http/client"
)

// A share of few signals says nothing: people are shown counts, and programs what the service answered.
func TestScoreShowsNoSharesOfFewSignals(t *testing.T) {
	t.Parallel()
	lines := func(form string, count int) string {
		card := &client.Scorecard{Statistics: client.Statistics{Count: count, Wins: 12, HitRate: of(.41), BreakEvenNet: of(.44),
			MeanConfidence: of(.42), BrierSkill: of(.43), ExpectancyR: of(-.1)}}
		card.Statistics.Interval.Low, card.Statistics.Interval.High = of(.3), of(.5)
		own := client.StrategyScore{Agent: "my_agent", Strategy: "cross", Statistics: card.Statistics, Skill: of(-.21)}
		own.SkillInterval.Low, own.SkillInterval.High = of(-.62), of(.19)
		card.Strategies = []client.StrategyScore{own}
		var out bytes.Buffer
		commandtest.Must(t, printScore(&printer{out: &out, form: form}, card))
		return out.String()
	}
	if text := lines(formText, minShare-1); strings.Contains(text, "%") || strings.Contains(text, "0.43") ||
		!strings.Contains(text, " 12 of 29 ") || !strings.Contains(text, "-0.10 R") {
		t.Errorf("of 29 signals it shows\n%s", text)
	}
	if text := lines(formText, minShare); !strings.Contains(text, "41.0 %  30.0 %  50.0 %          44.0 %") ||
		!regexp.MustCompile(`my_agent +cross .* -0.21 +-0.62 +0.19`).MatchString(text) ||
		!strings.Contains(text, "0.43") {
		t.Errorf("of 30 signals it shows\n%s", text)
	}
	if text := lines(formCSV, minShare-1); !strings.Contains(text, ",29,0.41,0.3,0.5,0.44,0.42,") {
		t.Errorf("as CSV it shows\n%s", text)
	}
}
