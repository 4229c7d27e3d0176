package record

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// BenchmarkPublicRecord compares a page of 10,000 closed signals with GET /healthz, over connections that are kept: the
// requests a second of both, in turns, and the median of the ratios. Service, Redis and clients share the machine; the log is
// that of production, where a page has a line and a probe has none.
func BenchmarkPublicRecord(b *testing.B) {
	const connections, each, turns = 16, 400 * time.Millisecond, 25
	c := e2e.SigningConfig(b, redistest.New(b).URL())
	c.RateLimit.Pages = "off"
	s := e2e.StartWith(b, c, service.Options{Log: slog.New(slog.NewJSONHandler(io.Discard, nil))})
	ada, _, _ := s.User(b)
	addClosed(b, s, publish(b, ada, "ada-record", ""), 10_000, 0, func(i int, x *signal.Signal) {
		x.Agent = signal.AgentID(fmt.Sprintf("agent_%d", i%30))
	})
	shown(b, ada, "ada-record", "", 10_000, 10_000)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections, DisableCompression: true}}
	rate := func(path string) float64 {
		ctx, cancel := context.WithTimeout(b.Context(), each)
		defer cancel()
		var group sync.WaitGroup
		counts := make([]int, connections)
		began := time.Now()
		for i := range counts {
			group.Go(func() {
				for ctx.Err() == nil {
					r, _ := http.NewRequestWithContext(b.Context(), http.MethodGet, s.URL+path, nil)
					r.Header.Set("Accept-Encoding", "gzip")
					a, err := client.Do(r)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, a.Body)
					if a.Body.Close(); a.StatusCode != http.StatusOK {
						b.Errorf("%s is answered with %s", path, a.Status)
						return
					}
					counts[i]++
				}
			})
		}
		group.Wait()
		all := 0
		for _, n := range counts {
			all += n
		}
		return float64(all) / time.Since(began).Seconds()
	}
	median := func(list []float64) float64 { return slices.Sorted(slices.Values(list))[len(list)/2] }
	rate("/healthz")
	rate("/r/ada-record")
	for b.Loop() {
		var pages, probes, ratios []float64
		for range turns {
			page, probe := rate("/r/ada-record"), rate("/healthz")
			pages, probes, ratios = append(pages, page), append(probes, probe), append(ratios, page/probe)
		}
		b.ReportMetric(median(pages), "pages/s")
		b.ReportMetric(median(probes), "healthz/s")
		b.ReportMetric(median(ratios), "ratio")
		b.ReportMetric(slices.Min(ratios), "min-ratio")
	}
}
