package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/retryafter"
)

// Limits of Reader.
const (
	maxReadAnswer = 4 << 20         // bytes of an answer
	maxAttempts   = 20              // of one request
	maxRetryPause = 2 * time.Minute // also where the service asks for a longer one
	minRetryPause = 250 * time.Millisecond
)

// Reader reads many resources of a service. It waits and repeats a request while the service limits
// the rate, is not available or does not answer. It may be used from many goroutines.
type Reader struct {
	Address *url.URL
	Key     string
	// Sleep waits before a retry and reports false if ctx ends first; default backoff.Sleep.
	Sleep func(ctx context.Context, d time.Duration) bool
}

// Get returns the body of the answer to GET path. An answer other than 2xx that a retry cannot
// change is a *Fault.
func (r *Reader) Get(ctx context.Context, path string) ([]byte, error) {
	sleep := r.Sleep
	if sleep == nil {
		sleep = backoff.Sleep
	}
	pauses := backoff.Backoff{Min: minRetryPause, Max: maxRetryPause, Jitter: true}
	for attempt := 1; ; attempt++ {
		body, after, err := r.once(ctx, path)
		if _, final := errors.AsType[*Fault](err); err == nil || final || ctx.Err() != nil {
			return body, err
		}
		if attempt == maxAttempts {
			return nil, fmt.Errorf("GET %s: given up after %d attempts: %w", path, attempt, err)
		}
		if !sleep(ctx, min(max(after, pauses.Next()), maxRetryPause)) {
			return nil, ctx.Err()
		}
	}
}

// once sends a request once. It returns the pause for which the service asks.
func (r *Reader) once(ctx context.Context, path string) ([]byte, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, r.Address.String()+path, nil)
	if err != nil {
		return nil, 0, &Fault{Text: err.Error()}
	}
	q.Header.Set("Authorization", "Bearer "+r.Key)
	w, err := apiClient.Do(q)
	if err != nil {
		return nil, 0, ConnectFault(r.Address, err, false)
	}
	defer w.Body.Close()
	body, err := io.ReadAll(io.LimitReader(w.Body, maxReadAnswer+1))
	if err != nil {
		return nil, 0, fmt.Errorf("read answer: %w", err)
	}
	if len(body) > maxReadAnswer {
		return nil, 0, &Fault{Text: fmt.Sprintf("the answer to GET %s has more than %d bytes", path, maxReadAnswer)}
	}
	if w.StatusCode/100 != 2 {
		return nil, retryafter.Parse(
				w.Header.Get("Retry-After"),
				time.Now(),
			), AnswerFault(
				r.Address,
				w.StatusCode,
				body,
			)
	}
	return body, 0, nil
}
