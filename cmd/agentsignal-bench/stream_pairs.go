package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

const (
	pairsReaders = 10_000
	pairsViews   = 20
	pairsEvents  = 2000 // connections of each transport
)

// streamPairs measures two kinds of connections in turns, each on a service that has just started, and compares
// the figures of each turn.
type streamPairs struct {
	*streamBenchmark
	compare func(b *streamPairs, ctx context.Context, r *rig) error
	pairs   int
}

func (b *streamPairs) define(c *cobra.Command) {
	c.Flags().IntVar(&b.pairs, "pairs", 5, "how often the two are compared")
}

func (b *streamPairs) measure(ctx context.Context) (err error) {
	if err := pinLoad(); err != nil {
		return err
	}
	r, err := newRig(ctx, 1)
	if err != nil {
		return err
	}
	defer r.end(ctx, &err)
	return b.compare(b, ctx, r)
}

// readers compares readers that have a key each with connections of one key that name the assets of their views.
func (b *streamPairs) readers(ctx context.Context, r *rig) error {
	s, err := r.serve(ctx, streamSettings...)
	if err != nil {
		return err
	}
	start := time.Now()
	keys, err := makeReaders(ctx, s)
	took := time.Since(start)
	if err = errors.Join(err, s.stop(ctx)); err != nil {
		return err
	}
	b.row(fmt.Sprintf("%d readers made by batches", pairsReaders), "%s", short(took))
	own := func(i int, _ string) string { return socketsPath + "?channels=signal.new&api_key=" + keys[i] }
	return b.inTurns(ctx, r, streamClients{pairsReaders, pairsViews, own},
		streamClients{pairsReaders, pairsViews, filteredPath(socketsPath, r.keys[0])})
}

// events compares Server-Sent Events with WebSockets.
func (b *streamPairs) events(ctx context.Context, r *rig) error {
	clients := func(path string) streamClients {
		return streamClients{pairsEvents, pairsEvents, filteredPath(path, r.keys[0])}
	}
	return b.inTurns(ctx, r, clients(eventsPath), clients(socketsPath))
}

// inTurns measures two kinds of clients b.pairs times and prints what the first cost and the second.
func (b *streamPairs) inTurns(ctx context.Context, r *rig, first, second streamClients) error {
	var figures [2][]fanOut
	for pair := range b.pairs {
		for turn := range figures {
			kind := (pair + turn) % 2
			f, err := b.once(ctx, r, []streamClients{first, second}[kind])
			if err != nil {
				return err
			}
			figures[kind] = append(figures[kind], f)
		}
	}
	b.ratio("CPU of a new connection", "us", figures, func(f fanOut) float64 { return f.acceptCost })
	b.ratio("memory of an idle connection", "bytes", figures, func(f fanOut) float64 { return float64(f.memory) })
	b.ratio(fmt.Sprintf("CPU a message, %d in flight", streamInFlight), "us", figures, func(f fanOut) float64 { return f.cost })
	for i, p := range figures[0][0].paced {
		b.ratio(fmt.Sprintf("at %.0f signals/s", p.rate), "us", figures, func(f fanOut) float64 { return f.paced[i].cost })
	}
	return nil
}

// once measures clients of a new process of the service.
func (b *streamPairs) once(ctx context.Context, r *rig, clients streamClients) (f fanOut, err error) {
	s, err := r.serve(ctx, streamSettings...)
	if err != nil {
		return f, err
	}
	defer s.stop(ctx)
	return b.fanOut(ctx, s, clients, r.publish)
}

// ratio prints the medians of a figure of both kinds, and the median and range of their ratios.
func (b *streamPairs) ratio(what, unit string, figures [2][]fanOut, of func(fanOut) float64) {
	var values [2][]float64
	var ratios []float64
	for i := range figures[0] {
		first, second := of(figures[0][i]), of(figures[1][i])
		values[0], values[1], ratios = append(values[0], first), append(values[1], second), append(ratios, first/second)
	}
	b.row(what, "%.4g and %.4g %s, ratio %.2f (%.2f to %.2f)", median(values[0]), median(values[1]), unit,
		median(ratios), slices.Min(ratios), slices.Max(ratios))
}

// makeReaders makes the readers of the first account by batches, and returns their keys. The view of the i-th one has the
// assets of the filter with number i modulo pairsViews.
func makeReaders(ctx context.Context, s *server) ([]string, error) {
	var login struct {
		Token string `json:"access_token"`
	}
	credentials := map[string]any{"email": accountEmail(0), "password": accountPassword}
	if err := s.post(ctx, "/v1/auth/login", "", credentials, &login); err != nil {
		return nil, err
	}
	keys := make([]string, pairsReaders)
	for view := range pairsViews {
		var made struct {
			Keys []struct {
				Secret string `json:"api_key"`
			} `json:"api_keys"`
		}
		batch := map[string]any{"name_prefix": "bench", "count": pairsReaders / pairsViews,
			"view": map[string]any{"assets": filterAssets(view)}}
		if err := s.post(ctx, "/v1/auth/api-keys/batch", login.Token, batch, &made); err != nil {
			return nil, err
		}
		for i, k := range made.Keys {
			keys[view+i*pairsViews] = k.Secret
		}
	}
	return keys, nil
}

// post sends a JSON object and decodes the answer.
func (s *server) post(ctx context.Context, path, token string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.addr+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer w.Body.Close()
	if w.StatusCode != http.StatusOK {
		return fmt.Errorf("POST %s: %s", path, w.Status)
	}
	return json.NewDecoder(w.Body).Decode(answer)
}
