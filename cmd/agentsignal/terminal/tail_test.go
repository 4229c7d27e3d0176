package terminal

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
)

// tail runs the command on a tailService and returns what it prints and how it ends.
func tail(t *testing.T, connections [][]string, args ...string) (string, string, error) {
	t.Helper()
	return tailOf(t, tailService(t, connections, &tailAsked{}), append(args, "--utc")...)
}

func tailOf(t *testing.T, service *httptest.Server, args ...string) (string, string, error) {
	t.Helper()
	run := commandtest.InProcess(func() *cobra.Command { return tailCommand(nil) })
	return run(t.Context(), strings.NewReader("key"), append(args, "--url", service.URL, "--key-file", "-")...)
}

// tailAsked is what tail asked for: the query of earlier signals and the subscription.
type tailAsked struct {
	query     url.Values // of the list
	subscribe url.Values // of the handshake
}

// tailService is a service that has two earlier signals and plays the messages on each of its connections.
func tailService(t *testing.T, connections [][]string, asked *tailAsked) *httptest.Server {
	t.Helper()
	up := websocket.Upgrader{}
	opened := make(chan []string, len(connections))
	for _, messages := range connections {
		opened <- messages
	}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/assets":
			fmt.Fprint(w, `{"assets":[{"asset":"BTC"}]}`)
		case "/v1/signals":
			asked.query = r.URL.Query()
			signal := func(id string, confidence float64, more string) string {
				return fmt.Sprintf(`{"signal_id":%q,"agent_id":"trading","asset":"BTC","strategy":"momentum","direction":"long",`+
					`"confidence":0.9,"initial_confidence":%g,"entry_price":90000.125,"stop_loss":89000,"take_profit":91000,%s,`+
					`"metadata":{"expected_r_net":0.1}}`, id, confidence, more)
			}
			fmt.Fprintf(w, `{"signals":[%s,%s,%s],"has_more":false}`,
				signal("sig_2", .5, `"status":"open","created_at":"2026-11-21T09:20:00Z"`),
				signal("sig_low", .1, `"status":"open","created_at":"2026-11-21T09:15:00Z"`),
				signal("sig_1", .6, `"status":"closed","created_at":"2026-11-21T09:10:00Z","closed_at":"2026-11-21T09:25:00Z",`+
					`"close_reason":"stop_loss","exit_price":89000,"pnl_percent":-1.1111`))
		case "/ws/dashboard":
			asked.subscribe = r.URL.Query()
			ws, err := up.Upgrade(w, r, nil)
			if err != nil {
				return
			}
			defer ws.Close()
			for _, m := range <-opened {
				_ = ws.WriteMessage(websocket.TextMessage, []byte(m))
			}
			if len(opened) == 0 {
				_, _, _ = ws.ReadMessage() // until the client has gone
			}
		}
	}))
	t.Cleanup(service.Close)
	return service
}

const tailSubscribed = `{"type":"subscribed","data":{"channels":["signal.new","signal.closed"],"denied":["agent.status"]}}`

// tailEvent returns a message of a signal at 9:30.
func tailEvent(kind, position, id, more string) string {
	const form = `{"type":%q,"id":%q,"data":{"signal_id":%q,%s},"timestamp":"2026-11-21T09:30:00.000Z"}`
	return fmt.Sprintf(form, kind, position, id, more)
}

// The stream is preceded by earlier signals, without a hole and without a repetition, and a closing shows
// what its message does not have.
func TestTailShowsEarlierSignalsFirst(t *testing.T) {
	t.Parallel()
	const short = `"asset":"EURUSD","direction":"short","strategy":"breakout","confidence":0.4198,"entry_price":1.1388982,` +
		`"stop_loss":1.14,"take_profit":1.137`
	messages := [][]string{{tailSubscribed,
		tailEvent("signal.new", "1-0", "sig_2", short), // it is in the list, too
		tailEvent("signal.closed", "2-0", "sig_1", `"asset":"BTC"`),
		tailEvent("signal.new", "3-0", "sig_3", short),
		`{"type":"heartbeat","timestamp":"2026-11-21T09:30:30.000Z"}`,
		`{"type":"system.notification","id":"4-0","data":{"severity":"info","message":"a\u001bb"},` +
			`"timestamp":"2026-11-21T09:30:00Z"}`,
		tailEvent("signal.closed", "5-0", "sig_2", `"asset":"BTC","entry_price":90000.125,"exit_price":91000,`+
			`"pnl_percent":1.111,"close_reason":"take_profit"`),
		tailEvent("signal.new", "6-0", "sig_4", short)}}
	args := []string{"--last", "2", "--min-confidence", "0.2", "-n", "6"}
	out, errs, err := tail(t, messages, args...)
	want := `
2026-11-21 09:10:00  new      BTC          long   momentum          60.0 %    90000.13    89000.00    91000.00
2026-11-21 09:20:00  new      BTC          long   momentum          50.0 %    90000.13    89000.00    91000.00
2026-11-21 09:25:00  closed   BTC          long   momentum  LEVELS    89000.00   -1.11 %  stop_loss
2026-11-21 09:30:00  new      EURUSD       short  breakout          42.0 %     1.13890     1.14000     1.13700
2026-11-21 09:30:00  notice   info: a�b
2026-11-21 09:30:00  closed   BTC          long   momentum  LEVELS    91000.00   +1.11 %  take_profit
`
	const levels = "                    90000.13    89000.00    91000.00"
	want = strings.ReplaceAll(want, "  LEVELS", levels)
	if err != nil || "\n"+out != want || !strings.Contains(errs, "no scope for agent.status") {
		t.Errorf("tail prints %s%s, %v, want %s", out, errs, err, want)
	}
	out, _, err = tail(t, messages, append(args, "-o", "csv", "--columns", "event,signal_id,confidence,entry")...)
	want = "event,signal_id,confidence,entry\nnew,sig_1,0.6,90000.125\nnew,sig_2,0.5,90000.125\nclosed,sig_1,,90000.125\n" +
		"new,sig_3,0.4198,1.1388982\nnotice,,,\nclosed,sig_2,,90000.125\n"
	if err != nil || out != want {
		t.Errorf("as CSV it prints %s, %v, want %s", out, err, want)
	}
	out, _, err = tail(t, messages, append(args, "--jq", `.type + " " + (.id // "earlier")`)...)
	want = "signal.new earlier\nsignal.new earlier\nsignal.closed earlier\n" +
		"signal.new 3-0\nsystem.notification 4-0\nsignal.closed 5-0\n"
	if err != nil || out != want {
		t.Errorf("by jq it prints %s, %v, want %s", out, err, want)
	}
	if out, _, err = tail(t, messages, "--json", "-n", "1"); err != nil || out != tailSubscribed+"\n"+messages[0][1]+"\n" {
		t.Errorf("as JSON it prints %s, %v", out, err)
	}
	if out, _, err = tail(t, messages, "--for", "1ms"); err != nil {
		t.Errorf("after its time it prints %s, %v", out, err)
	}
}

// The closing of a signal that was made before shows what only its creation has.
func TestTailKnowsWhatIsOpen(t *testing.T) {
	t.Parallel()
	closed := tailEvent("signal.closed", "2-0", "sig_2", `"asset":"BTC","close_reason":"expired"`)
	columns := []string{"-n", "1", "--columns", "event,asset,direction,strategy,stop,target,reason"}
	out, errs, err := tail(t, [][]string{{tailSubscribed, closed}}, columns...)
	want := "closed   BTC          long   momentum           89000.00    91000.00  expired\n"
	if out != want || err != nil {
		t.Errorf("%q %s, %v, want %q", out, errs, err, want)
	}
	// And that of a signal whose creation is not shown.
	made := tailEvent("signal.new", "1-0", "sig_9", `"asset":"BTC","direction":"long","strategy":"momentum","stop_loss":89000,`+
		`"take_profit":91000`)
	closed = tailEvent("signal.closed", "2-0", "sig_9", `"asset":"BTC","close_reason":"expired"`)
	asked := &tailAsked{}
	service := tailService(t, [][]string{{tailSubscribed, made, closed}}, asked)
	out, errs, err = tailOf(t, service, append(columns, "--channels", "signal.closed")...)
	if out != want || err != nil || !strings.Contains(errs, "subscribed to signal.closed;") ||
		asked.subscribe.Get("channels") != "signal.closed,signal.new" {
		t.Errorf("of closings alone: %q %s, %v, want %q; it subscribed by %s", out, errs, err, want, asked.subscribe)
	}
	service = tailService(t, [][]string{{tailSubscribed, closed}}, asked)
	_, _, err = tailOf(t, service, "-n", "1", "-o", "json", "--channels", "signal.closed")
	if err != nil || asked.subscribe.Get("channels") != "signal.closed" {
		t.Errorf("for JSON it subscribed by %s, %v", asked.subscribe, err)
	}
}

func TestTailAsksForWhatItsFlagsSay(t *testing.T) {
	t.Parallel()
	asked := &tailAsked{}
	service := tailService(t, [][]string{{tailSubscribed, tailEvent("signal.new", "1-0", "sig_3", `"asset":"BTC"`)}}, asked)
	out, errs, err := tailOf(t, service, "--asset", "BTC", "--agent", "trading", "--strategy", "momentum,breakout",
		"--direction", "long", "--min-confidence", "0.2", "--channels", "signal.new", "--since", "2026-11-21 11:30", "-n", "3")
	if err != nil || !strings.HasPrefix(out, "2026-11-21 11:10:00") {
		t.Errorf("in local time it prints %s%s, %v", out, errs, err)
	}
	if since := asked.query.Get("since"); since != "2026-11-21T09:30:00Z" {
		t.Errorf("it asked for earlier signals from %q: %v", since, asked.query)
	}
	const want = "agents=trading&assets=BTC&channels=signal.new&directions=long&last_event_id=&min_confidence=0.2&" +
		"strategies=momentum%2Cbreakout"
	if got := asked.subscribe.Encode(); got != want {
		t.Errorf("it subscribed by %s, want %s", got, want)
	}
}

func TestTailEndsAtAGapIfItIsStrict(t *testing.T) {
	t.Parallel()
	lost := [][]string{{tailSubscribed}, {tailSubscribed, tailEvent("signal.new", "9-0", "sig_9", `"asset":"BTC"`)}}
	_, errs, err := tail(t, lost, "--strict")
	if e, ok := errors.AsType[*command.Exit](err); !ok || e.Code != 3 || !strings.Contains(errs, "may be missing") {
		t.Errorf("a strict one ends with %v, and prints %s", err, errs)
	}
	out, errs, err := tail(t, lost, "-n", "1")
	if err != nil || !strings.Contains(out, "BTC") || !strings.Contains(errs, "may be missing: see agentsignal signals --since") {
		t.Errorf("another one ends with %v, and prints %s%s", err, out, errs)
	}
}

func TestTailRefusesWrongFlags(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`--channels: no channel "signals.new": did you mean signal.new?`: {"--channels", "signals.new"},
		`--columns: no column "assett": did you mean asset?`:             {"--columns", "time,assett"},
		`--since: "x" is no time`:                                        {"--since", "x"},
		"must not be negative":                                           {"-n", "-1"},
	} {
		if out, _, err := tail(t, nil, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %s, %v, want %s", args, out, err, want)
		}
	}
}
