package main

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
	"golang.org/x/sync/errgroup"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/webhook"
	"github.com/agentsignal/agentsignal/actors/webhook/signature"
)

// bareOrder is the input of the bare sender.
type bareOrder struct {
	URLs        []string
	Connections int // to each URL
	Secret      string
	Window      time.Duration
	Events      float64 // per second, each sent to all URLs; 0: as many as possible
}

// bareReport is the output of the bare sender.
type bareReport struct {
	Sent     int64
	Took     time.Duration
	P50, P99 time.Duration // from the time at which an event was due to its answer
}

// bareSenderCommand is the reference of the webhooks benchmark: it signs and sends the same
// bodies to the same endpoints over as many connections, without an event log, queue,
// outcome or store.
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
	var mu sync.Mutex // guards taken
	var taken []time.Duration
	group, ctx := errgroup.WithContext(ctx)
	numbers := make([]atomic.Uint32, len(o.URLs))
	start := time.Now()
	for i, url := range o.URLs {
		for c := range o.Connections {
			group.Go(func() error {
				var mine []time.Duration
				body := webhookBody(nil, signal.NewEventID(), start, 0)
				for k := c; ctx.Err() == nil; k += o.Connections {
					due := o.due(start, k)
					if due.Sub(start) >= o.Window {
						break
					}
					body = renumber(body, numbers[i].Add(1)-1)
					if err := barePost(ctx, transport, url, o.Secret, body); err != nil {
						return err
					}
					mine = append(mine, time.Since(due))
				}
				mu.Lock()
				defer mu.Unlock()
				taken = append(taken, mine...)
				return ctx.Err()
			})
		}
	}
	if err := group.Wait(); err != nil {
		return bareReport{}, err
	}
	slices.Sort(taken)
	return bareReport{int64(len(taken)), time.Since(start), percentile(taken, 50), percentile(taken, 99)}, nil
}

// due waits until the k-th event is due and returns that time.
func (o *bareOrder) due(start time.Time, k int) time.Time {
	if o.Events == 0 {
		return time.Now()
	}
	at := start.Add(time.Duration(float64(k) / o.Events * float64(time.Second)))
	time.Sleep(time.Until(at))
	return at
}

// renumber replaces the number of the event in a body. The service also makes a body only
// once for all endpoints.
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

// webhookBody appends the body of the n-th event of the benchmark.
func webhookBody(b []byte, id signal.EventID, at time.Time, n uint32) []byte {
	return webhook.AppendBody(b, id, signal.SignalCreated, webhookVersion, at, streamPayload(webhookAsset, n))
}

// runBare runs the reference as a process of its own, with events per second or, if that is 0,
// as many as possible. cost is its CPU time for each delivery in microseconds.
func runBare(
	ctx context.Context, receiver *clientReceiver, window time.Duration, events float64,
) (report bareReport, cost float64, err error) {
	o := bareOrder{Connections: webhookConnections, Secret: receiver.secret, Window: window, Events: events}
	for i := range receiver.sinks {
		o.URLs = append(o.URLs, receiver.url(i))
	}
	order, err := json.Marshal(o)
	if err != nil {
		return report, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, window+serverStart)
	defer cancel()
	receiver.forget()
	cmd := exec.CommandContext(ctx, ownProgram, "bare-sender")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(order), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	text, err := cmd.Output()
	if err != nil {
		return report, 0, fmt.Errorf("bare sender: %w", errors.Join(err, receiver.err()))
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return report, 0, fmt.Errorf("bare sender: %w", err)
	}
	if got := receiver.received.Load(); got != report.Sent {
		return report, 0, fmt.Errorf("bare sender: %d of %d deliveries arrived", got, report.Sent)
	}
	receiver.forget()
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return report, float64(cpu.Microseconds()) / float64(report.Sent), nil
}
