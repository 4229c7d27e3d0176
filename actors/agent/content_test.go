package agent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/content"
	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestContentHasNoLevelsAndItsOwnLifetime(t *testing.T) {
	const day = 24 * time.Hour
	for strategy, lifetime := range map[string]time.Duration{content.BlogPost: 30 * day,
		content.ProductDescription: 60 * day, content.MetaTags: 14 * day} {
		t.Run(strategy, func(t *testing.T) {
			withBench(t, Options{}, func(t *testing.T, b *bench) {
				got, err := b.agents.Run(t.Context(), signal.RunRequest{Account: "acc_1", Agent: "seo",
					Asset: "standing desk", Strategy: strategy, Timeframe: signal.M1, Risk: signal.HighRisk,
					Parameters: signal.Parameters{Keywords: []string{"oak desk"}, Features: []string{"quiet motor"}}})
				if err != nil {
					t.Fatal(err)
				}
				s := got.Signal
				if s.Levels != nil || s.Direction != signal.Long || s.Confidence < 0.7 || s.Confidence == 1 ||
					s.ExpiresAt.Sub(s.CreatedAt) != lifetime {
					t.Errorf("signal %+v", s)
				}
				var m struct {
					Content, Writer, Reasoning, Measure, Keyword string
					Indicators                                   []string
				}
				must(t, json.Unmarshal(s.Metadata, &m))
				if !strings.Contains(strings.ToLower(m.Content), "oak desk") || m.Writer != "template" ||
					m.Measure != "checks_passed" || !strings.Contains(m.Reasoning, "not a probability") ||
					len(m.Indicators) == 0 || m.Keyword != "oak desk" {
					t.Errorf("metadata %s", s.Metadata)
				}
				created := string(b.log.all()[0].Events[1].Data)
				if !strings.Contains(created, `"entry_price":null,"stop_loss":null,"take_profit":null`) {
					t.Errorf("event %s", created)
				}
			})
		})
	}
}

// contentFunc implements Content by a function.
type contentFunc func(ctx context.Context, r content.Request) (content.Text, error)

func (f contentFunc) Write(ctx context.Context, r content.Request) (content.Text, error) {
	return f(ctx, r)
}

func TestFailingWriterFailsTheRun(t *testing.T) {
	failing := contentFunc(func(context.Context, content.Request) (content.Text, error) {
		return content.Text{}, errors.New("secret")
	})
	withBench(t, Options{Content: failing}, func(t *testing.T, b *bench) {
		req := request("desk")
		req.Agent, req.Strategy = "seo", content.MetaTags
		_, err := b.agents.Run(t.Context(), req)
		if e, ok := errors.AsType[*signal.RunError](err); !ok || e.Code != signal.Internal ||
			strings.Contains(e.Message, "secret") {
			t.Errorf("run ended with %v", err)
		}
		b.expect(failedRun)
	})
}
