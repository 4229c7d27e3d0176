package service

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// TestPythonAdapters runs the adapters for freqtrade and Lean, with stand-ins for both, on the stream of a
// service, and then on its export.
func TestPythonAdapters(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(interpreter(t, "python3"), "-B", "testdata/python/adapters_test.py", clientsPath).CombinedOutput()
	if err != nil {
		t.Errorf("the tests in Python: %v\n%s", err, out)
	}
	redis := redistest.New(t)
	s, trader, _ := startTrading(t, redis)
	p := startPython(t, "adapters.py", s.url, trader.token)
	ask := func(command string, arguments ...any) any {
		t.Helper()
		p.send(strings.TrimSpace(fmt.Sprintln(append([]any{command}, arguments...)...)))
		return p.next(command)
	}
	ask("data", "ACME") // it subscribes
	made := trader.run("ACME", "momentum")
	created := timeOf(t, made.CreatedAt)
	first := created - 2 // ms: the signal falls into the third candle
	entry := fmt.Sprintf("2 enter_%s 1 2 enter_tag %s", made.Direction, made.ID)
	eventually(t, "freqtrade enters the signal", func() bool {
		return fmt.Sprint(ask("columns", first, 5)) == "["+entry+"]"
	})
	held := ask("trade", made.ID, made.Direction, *made.Entry).(map[string]any)
	if want := math.Abs(1 - *made.Stop / *made.Entry); math.Abs(held["stop"].(float64)-want) > 1e-9 || held["exit"] != nil {
		t.Errorf("freqtrade has %v of %+v", held, made)
	}
	// The price passes the target.
	price := *made.Target + (*made.Target-*made.Entry)/100
	newMarket(t, redis.Client()).tick("ACME", strconv.FormatFloat(price, 'f', -1, 64))
	eventually(t, "freqtrade ends the trade", func() bool {
		return ask("trade", made.ID, made.Direction, *made.Entry).(map[string]any)["exit"] == "signal_closed"
	})
	events := func(list any) (text string) {
		for _, d := range list.([]any) {
			text += fmt.Sprint(d.(map[string]any)["Event"], " ", d.(map[string]any)["SignalId"], " ")
		}
		return text
	}
	both := fmt.Sprintf("new %s closed %s ", made.ID, made.ID)
	eventually(t, "Lean has both events", func() bool { return events(ask("data", "ACME")) == both })

	var state wireState
	eventually(t, "the signal is shown as closed", func() bool {
		state = trader.state(made.ID)
		return state.Status == "closed"
	})
	export := filepath.Join(t.TempDir(), "export.jsonl")
	must(t, os.WriteFile(export, []byte(trader.get("/v1/signals/export?format=jsonl").ok(t).Body), 0o600))
	last := timeOf(t, *state.ClosedAt) - first
	back := ask("backtest", export, first, last+3).(map[string]any)
	if want := fmt.Sprintf("[%s %d exit_%s 1]", entry, last, made.Direction); fmt.Sprint(back["columns"]) != want {
		t.Errorf("a backtest of freqtrade has %v, want %s", back["columns"], want)
	}
	if events(back["data"]) != both || len(back["others"].([]any)) != 0 {
		t.Fatalf("a backtest of Lean has %v", back)
	}
	begun, ended := back["data"].([]any)[0].(map[string]any), back["data"].([]any)[1].(map[string]any)
	if begun["EndTime"] != made.CreatedAt || begun["Value"] != *made.Entry || begun["Stop"] != *made.Stop ||
		begun["Target"] != *made.Target || begun["Direction"] != made.Direction || begun["Confidence"] != made.Confidence {
		t.Errorf("a backtest of Lean begins with %v, want %+v", begun, made)
	}
	if ended["EndTime"] != *state.ClosedAt || ended["Value"] != *state.Exit || ended["Reason"] != *state.Reason {
		t.Errorf("a backtest of Lean ends with %v, want %+v", ended, state)
	}
}

// timeOf returns a time of the API in ms since 1970.
func timeOf(tb testing.TB, text string) int64 {
	tb.Helper()
	at, err := time.Parse(signal.TimeLayout, text)
	must(tb, err)
	return at.UnixMilli()
}
