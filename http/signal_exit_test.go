package http_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// ownSignal returns an open signal of an agent of the account.
func ownSignal() *signal.Signal {
	s := newSignal()
	s.Agent = "my_agent"
	return s
}

// An exit is answered once the signal is closed, or after two seconds with the open signal.
func TestExitOfASignal(t *testing.T) {
	t.Parallel()
	for name, closes := range map[string]bool{"it closes": true, "no price comes": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, steps := ownSignal(), []string{}
				f := &fakes{
					record: func(signal.SignalID, signal.Position, signal.Position) (*signal.Signal, error) {
						read := *s
						return &read, nil
					},
					exit: func(account signal.AccountID, id signal.SignalID) error {
						if account != accountID || id != s.ID {
							t.Errorf("exit of %s of %s", id, account)
						}
						steps, s.ExitRequested = append(steps, "requested"), morning
						return nil
					},
				}
				f.closing = func(ctx context.Context, _ signal.AccountID, _ signal.SignalID) error {
					steps = append(steps, "awaited")
					if !closes {
						<-ctx.Done()
						return ctx.Err()
					}
					exit := 64000.5
					s.Closing = &signal.Closing{Reason: signal.AgentExit, At: morning, ExitPrice: &exit}
					s.Metadata = []byte(`{"indicators":["submitted"],"reasoning":"because",` +
						`"exit_requested_at":"2026-11-21T09:30:00.000Z","life_left":0.5}`)
					return nil
				}
				began := time.Now()
				a := do(t, newServer(t, f), "POST", "/v1/signals/"+string(s.ID)+"/close", "")
				var got struct {
					Status    string
					Reason    *string `json:"close_reason"`
					Requested string  `json:"exit_requested_at"`
				}
				if err := json.Unmarshal([]byte(a.Body), &got); err != nil || a.Status != 200 ||
					got.Requested != "2026-11-21T09:30:00.000Z" || (got.Status == "closed") != closes ||
					closes && *got.Reason != "agent_exit" {
					t.Errorf("%d %s: %v", a.Status, a.Body, err)
				}
				if waited := time.Since(began); !closes && waited != 2*time.Second || closes && waited != 0 {
					t.Errorf("it waited for %v", waited)
				}
				if !slices.Equal(steps, []string{"requested", "awaited"}) {
					t.Errorf("steps %q", steps)
				}
			})
		})
	}
}

// Neither a closed signal nor one of the service's agents gets an exit.
func TestExitsThatChangeNothing(t *testing.T) {
	t.Parallel()
	exit := 64000.5
	closed := ownSignal()
	closed.Closing = &signal.Closing{Reason: signal.StopLoss, At: morning, ExitPrice: &exit}
	path := "/v1/signals/" + string(signalID) + "/close"
	for name, c := range map[string]struct {
		record *signal.Signal
		err    error
		status int
		shows  string
	}{
		"closed":    {closed, nil, 200, `"close_reason":"stop_loss"`},
		"built-in":  {newSignal(), nil, 409, `"code":"not_closable"`},
		"another's": {nil, signal.NotFound("signal"), 404, `"code":"not_found"`},
	} {
		f := &fakes{
			record: func(signal.SignalID, signal.Position, signal.Position) (*signal.Signal, error) {
				return c.record, c.err
			},
			exit: func(signal.AccountID, signal.SignalID) error {
				t.Errorf("%s: the exit is requested", name)
				return nil
			},
		}
		a := do(t, newServer(t, f), "POST", path, "")
		if a.Status != c.status || !strings.Contains(a.Body, c.shows) ||
			a.Status == 200 && !strings.HasSuffix(a.Body, `"exit_requested_at":null}`) {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	unavailable := &fakes{
		record: func(signal.SignalID, signal.Position, signal.Position) (*signal.Signal, error) {
			return ownSignal(), nil
		},
		exit: func(signal.AccountID, signal.SignalID) error { return signal.Unavailable(nil) },
	}
	if a := do(t, newServer(t, unavailable), "POST", path, ""); a.Status != 503 {
		t.Errorf("without the log: %d %s", a.Status, a.Body)
	}
}
