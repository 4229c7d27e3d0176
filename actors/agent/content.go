package agent

import (
	"context"
	"errors"

	"github.com/agentsignal/agentsignal/actors/content"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Content writes texts. See content.Writer.
type Content interface {
	Write(ctx context.Context, r content.Request) (content.Text, error)
}

// writer is the content agent. Its signals have no price levels; they expire by the
// clock, however fast the market runs.
type writer struct{ content Content }

// newWriter returns the content agent; a nil c means the built-in writer.
func newWriter(c Content) *writer {
	if c == nil {
		c, _ = content.New(content.Options{}) // fails only for an endpoint
	}
	return &writer{c}
}

// Evaluate implements evaluator.
func (w *writer) Evaluate(ctx context.Context, r *signal.RunRequest) (evaluation, error) {
	if r.Asset == "" {
		return evaluation{}, errors.New("evaluate content: no subject")
	}
	p := &r.Parameters
	t, err := w.content.Write(ctx, content.Request{Strategy: r.Strategy, Subject: r.Asset, Keywords: p.Keywords,
		Features: p.Features, Locale: p.Locale})
	if err != nil {
		return evaluation{}, err
	}
	return evaluation{Direction: signal.Long, Confidence: t.Confidence, Metadata: t.Metadata, Lifetime: t.Lifetime}, nil
}
