package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/webhook"
	"github.com/agentsignal/agentsignal/actors/webhook/signature"
)

// bareOrder is what the reference of the webhooks benchmark must send.
type bareOrder struct {
	URLs        []string
	Connections int // to each of them
	Secret      string
	Window      time.Duration
	// Events is how many events a second go to all of them, each at its time; 0: as
	// many as there is time for.
	Events float64
}

// bareReport is what it has sent.
type bareReport struct {
	Sent     int64
	Took     time.Duration
	P50, P99 time.Duration // from when an event was due to its answer
}

// bareSenderCommand is the reference of the webhooks benchmark: it signs and sends the
// same bodies to the same endpoints over as many connections, and does nothing else. No
// event log, no queue, no outcome, no store.
func bareSenderCommand() *cobra.Command {
	return &cobra.Command{Use: "bare-sender", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var o bareOrder
			if err := json.NewDecoder(cmd.InOrStdin()).Decode(&o); err != nil {
				return fmt.Errorf("read order: %w", err)
			}
			report, err := runBareSender(cmd.Context(), o)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(report)
		}}
}

func runBareSender(ctx context.Context, o bareOrder) (bareReport, error) {
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: o.Connections}
	defer transport.CloseIdleConnections()
	var failed atomic.Pointer[error]
	var mu sync.Mutex // guards taken
	var taken []time.Duration
	var wg sync.WaitGroup
	numbers := make([]atomic.Uint32, len(o.URLs))
	start := time.Now()
	for i, url := range o.URLs {
		for c := range o.Connections {
			wg.Go(func() {
				var mine []time.Duration
				body := webhookBody(nil, signal.NewEventID(), start, 0)
				for k := c; ctx.Err() == nil && failed.Load() == nil; k += o.Connections {
					due := o.due(start, k)
					if due.Sub(start) >= o.Window {
						break
					}
					if err := barePost(ctx, transport, url, o.Secret, renumber(body, numbers[i].Add(1)-1)); err != nil {
						failed.CompareAndSwap(nil, &err)
						break
					}
					mine = append(mine, time.Since(due))
				}
				mu.Lock()
				taken = append(taken, mine...)
				mu.Unlock()
			})
		}
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return bareReport{}, *err
	}
	report := bareReport{Sent: int64(len(taken)), Took: time.Since(start)}
	slices.Sort(taken)
	report.P50, report.P99 = percentile(taken, 50), percentile(taken, 99)
	return report, ctx.Err()
}

// due returns when the k-th event is due, and waits for that.
func (o *bareOrder) due(start time.Time, k int) time.Time {
	if o.Events == 0 {
		return time.Now()
	}
	at := start.Add(time.Duration(float64(k) / o.Events * float64(time.Second)))
	time.Sleep(time.Until(at))
	return at
}

// renumber writes the number of an event into the body of another one: the service makes
// a body once for all endpoints.
func renumber(body []byte, n uint32) []byte {
	digits := body[bytes.Index(body, []byte(numberMark))+len(numberMark):][:numberDigits]
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = byte('0' + n%10)
		n /= 10
	}
	return body
}

// barePost sends a body.
func barePost(ctx context.Context, transport *http.Transport, url, secret string, body []byte) error {
	now := time.Now()
	id := string(signal.NewEventID())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	timestamp := strconv.FormatInt(now.Unix(), 10)
	r.Header = http.Header{
		"Content-Type":                    {"application/json"},
		signature.HeaderSignature:         {signature.Sign(secret, body)},
		signature.HeaderEvent:             {string(signal.SignalCreated)},
		signature.HeaderDelivery:          {"dlv" + id[3:]},
		signature.HeaderTimestamp:         {timestamp},
		signature.HeaderAttempt:           {"1"},
		signature.HeaderStandardID:        {id},
		signature.HeaderStandardTimestamp: {timestamp},
		signature.HeaderStandardSignature: {signature.SignStandard(secret, id, now.Unix(), body)},
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		return fmt.Errorf("send: status %d, %w", answer.StatusCode, err)
	}
	return nil
}

// webhookBody adds what is sent of the n-th event of the benchmark.
func webhookBody(b []byte, id signal.EventID, at time.Time, n uint32) []byte {
	return webhook.AppendBody(b, id, signal.SignalCreated, webhookVersion, at, streamPayload(webhookAsset, n))
}

// bare runs the reference as a process of its own, with so many events a second or, if
// that is 0, as many as it can. cost is microseconds of its CPU for each delivery.
func (w *webhookRig) bare(
	ctx context.Context, window time.Duration, events float64,
) (report bareReport, cost float64, err error) {
	o := bareOrder{Connections: webhookConnections, Secret: w.receiver.secret, Window: window, Events: events}
	for i := range w.receiver.sinks {
		o.URLs = append(o.URLs, w.receiver.url(i))
	}
	order, err := json.Marshal(o)
	if err != nil {
		return report, 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return report, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, window+serverStart)
	defer cancel()
	w.receiver.forget()
	cmd := exec.CommandContext(ctx, self, "bench", "bare-sender")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(order), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	text, err := cmd.Output()
	if err != nil {
		return report, 0, fmt.Errorf("bare sender: %w", errors.Join(err, w.receiver.err()))
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return report, 0, fmt.Errorf("bare sender: %w", err)
	}
	if got := w.receiver.received.Load(); got != report.Sent {
		return report, 0, fmt.Errorf("bare sender: %d of %d deliveries came", got, report.Sent)
	}
	w.receiver.forget()
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return report, float64(cpu.Microseconds()) / float64(report.Sent), nil
}
