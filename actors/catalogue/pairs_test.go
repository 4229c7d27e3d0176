package catalogue

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestRowsAreSmall(t *testing.T) {
	t.Parallel()
	if size := unsafe.Sizeof(row{}); size > 48 {
		t.Errorf("a row has %d bytes", size)
	}
	if maxPairs > int(shortBit) {
		t.Errorf("%d pairs do not fit a row", maxPairs)
	}
}

// A signal of one strategy too many is not listed; those of all others still are.
func TestStrategiesOfAnAccountAreBounded(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := &fakeLog{}
	c := New(log, log, 1, Options{Log: slog.New(slog.NewTextHandler(&out, nil))})
	total(t, c)
	at := signal.Position{MS: time.Now().UnixMilli()}
	create := func(account signal.AccountID, of names) {
		at.Seq++
		l := signal.Listing{ID: signal.NewSignalID(), Agent: of.agent, Strategy: of.strategy, Asset: "BTC"}
		c.Publish(0, []signal.Event{{Position: at, Account: account, Type: signal.SignalCreated, Listing: &l}})
	}
	all := builtIn()
	for agent := range signal.MaxAgentsEver {
		for strategy := range signal.MaxAgentStrategies {
			all = append(all, names{signal.AgentID(fmt.Sprint("agent_", agent)), fmt.Sprint("strategy_", strategy)})
		}
	}
	excess := names{"agent_more", "strategy_1"}
	for _, of := range all {
		create(acc, of)
	}
	create(acc, excess)
	create(acc, all[len(all)-1])
	create("acc_other", excess)
	if n := total(t, c); n != len(all)+1 {
		t.Errorf("%d signals are listed, want %d", n, len(all)+1)
	}
	for q, want := range map[Query]int{
		{Agent: all[len(all)-1].agent}:                    signal.MaxAgentStrategies + 1,
		{Strategy: "strategy_1"}:                          signal.MaxAgentsEver,
		{Agent: excess.agent}:                             0,
		{Agent: excess.agent, Account: "acc_other"}:       1,
		{Agent: all[0].agent, Account: "acc_other"}:       0,
		{Strategy: all[0].strategy, Account: "acc_other"}: 0,
		{Agent: all[0].agent, Strategy: excess.strategy}:  0,
		{Agent: "agent_1", Strategy: "strategy_1"}:        1,
		{Agent: signal.AgentID(excess.strategy)}:          0,
	} {
		if q.Account == "" {
			q.Account = acc
		}
		q.Limit = 1
		if _, got, err := c.List(t.Context(), q); got != want || err != nil {
			t.Errorf("%+v selects %d, %v, want %d", q, got, err, want)
		}
	}
	if n := strings.Count(out.String(), "more than 4010 strategies"); n != 1 {
		t.Errorf("the error is logged %d times:\n%.1000s", n, out.String())
	}
}
