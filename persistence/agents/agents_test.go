package agents

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// fakeSealer turns bytes around, behind the purpose.
type fakeSealer struct{}

func (fakeSealer) Seal(plain []byte, purpose string) []byte {
	sealed := []byte(purpose + "\x00")
	for i := len(plain) - 1; i >= 0; i-- {
		sealed = append(sealed, plain[i])
	}
	return sealed
}

func (f fakeSealer) Open(sealed []byte, purpose string) ([]byte, error) {
	text, ok := bytes.CutPrefix(sealed, []byte(purpose+"\x00"))
	if !ok {
		return nil, errors.New("sealed for another purpose")
	}
	return f.Seal(text, "")[1:], nil
}

func newStore(t *testing.T) (*Store, *eventlog.Log) {
	t.Helper()
	c := storetest.Client(t, redisclient.Options{URL: redistest.New(t).URL(), Partitions: 4})
	log := storetest.Closing(t, eventlog.NewLog(eventlog.New(c), eventlog.LogOptions{}))
	return New(c, log, fakeSealer{}), log
}

func agentOf(account signal.AccountID, id signal.AgentID) signal.Agent {
	return signal.Agent{ID: id, Account: account, Name: "An agent", Category: signal.Trading, Strategies: []string{"cross"},
		Status: signal.AgentActive, CreatedAt: time.UnixMilli(1795253400123).UTC(),
		Defaults: signal.AgentDefaults{Timeframe: signal.H1, Stop: signal.Level{Unit: signal.ATRLevel, Value: 2}},
		Endpoint: &signal.Endpoint{URL: "https://agent.example/run", Secret: "whsec_c2VjcmV0"}}
}

func TestAgentsAreReadAsWritten(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	ctx, account := t.Context(), signal.NewAccountID()
	want := agentOf(account, "mine")
	got, err := s.Add(ctx, want)
	if want.Revision = "1"; err != nil || !cmp.Equal(got, want) {
		t.Fatalf("%v: %s", err, cmp.Diff(want, got))
	}
	second := agentOf(account, "second")
	second.CreatedAt, second.Endpoint = second.CreatedAt.Add(time.Second), nil
	_, err = s.Add(ctx, second)
	storetest.Must(t, err)
	if got, err = s.Agent(ctx, account, "mine"); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v: %s", err, cmp.Diff(want, got))
	}
	changed, err := s.Change(ctx, account, "mine", func(a *signal.Agent) error {
		a.Strategies = append(a.Strategies, "more")
		return nil
	})
	if want.Strategies, want.Revision = []string{"cross", "more"}, "3"; err != nil || !cmp.Equal(changed, want) {
		t.Errorf("%v: %s", err, cmp.Diff(want, changed))
	}
	list, err := s.Agents(ctx, account)
	if err != nil || len(list) != 2 || list[0].ID != "mine" || list[1].ID != "second" || list[1].Endpoint != nil {
		t.Errorf("%v: %+v", err, list)
	}
	refused := errors.New("refused")
	if _, err := s.Change(ctx, account, "mine", func(*signal.Agent) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("a change that is refused: %v", err)
	}
	for _, other := range []signal.AccountID{signal.NewAccountID(), account} {
		_, err = s.Agent(ctx, other, "unknown")
		storetest.WantKind(t, "an unknown agent", err, signal.KindNotFound)
	}
}

func TestIDsStayTaken(t *testing.T) {
	t.Parallel()
	s, log := newStore(t)
	ctx, account := t.Context(), signal.NewAccountID()
	a, err := s.Add(ctx, agentOf(account, "mine"))
	storetest.Must(t, err)
	_, err = s.Add(ctx, agentOf(account, "mine"))
	storetest.WantError(t, err, signal.KindConflict, "name_taken")
	change := storetest.Created(storetest.Signal(account))
	change.Agent = &a
	_, err = log.Append(ctx, change)
	storetest.Must(t, err)
	storetest.Must(t, s.Remove(ctx, account, "mine"))
	_, err = log.Append(ctx, change)
	storetest.WantError(t, err, signal.KindConflict, "agent_changed")
	_, err = s.Add(ctx, agentOf(account, "mine"))
	storetest.WantError(t, err, signal.KindConflict, "name_taken")
	storetest.WantKind(t, "removed twice", s.Remove(ctx, account, "mine"), signal.KindNotFound)
	if list, err := s.Agents(ctx, account); err != nil || len(list) != 0 {
		t.Errorf("%v: %+v", err, list)
	}
	ids, strategies, err := s.Names(ctx, account, nil)
	if err != nil || !slices.Equal(ids, []signal.AgentID{"mine"}) || !slices.Equal(strategies, []string{"cross"}) {
		t.Errorf("%v: names %v, %v", err, ids, strategies)
	}
	_, err = s.Add(ctx, agentOf(signal.NewAccountID(), "mine")) // another account may take it
	storetest.Must(t, err)
}

// TestAgentsOfOneMoment are listed in one order, and a view has the names of those that it sees.
func TestAgentsOfOneMoment(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	ctx, account := t.Context(), signal.NewAccountID()
	var want []signal.AgentID
	for i := range 9 {
		a := agentOf(account, signal.AgentID(fmt.Sprint("agent_", i)))
		a.Strategies = []string{"cross", fmt.Sprint("way_", i)}
		_, err := s.Add(ctx, a)
		storetest.Must(t, err)
		want = append(want, a.ID)
	}
	for range 5 { // the records are read as a map
		list, err := s.Agents(ctx, account)
		storetest.Must(t, err)
		var got []signal.AgentID
		for _, a := range list {
			got = append(got, a.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("listed are %v", got)
		}
	}
	all := signal.Names{}
	for view, want := range map[*signal.View]string{
		signal.NewView(signal.NamesOf("agent_1"), all, all):                                       "[agent_1] [cross way_1]",
		signal.NewView(all, all, signal.NamesOf("way_2", "way_3")):                                "[agent_2 agent_3] [way_2 way_3]",
		signal.NewView(signal.NamesOf("agent_1"), all, signal.NamesOf("way_2")):                   "[] []",
		signal.NewView(signal.NamesOf(), all, all):                                                "[] []",
		signal.NewView(signal.NamesOf("agent_4", "x"), signal.NamesOf(), signal.NamesOf("cross")): "[agent_4] [cross]",
	} {
		ids, strategies, err := s.Names(ctx, account, view)
		if got := fmt.Sprint(ids, strategies); got != want || err != nil {
			t.Errorf("%s has %s, %v, want %s", view, got, err, want)
		}
	}
}

func TestAgentsOfAnAccountAreLimited(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	ctx, account := t.Context(), signal.NewAccountID()
	for i := range signal.MaxAgentsEver {
		id := signal.AgentID(fmt.Sprint("agent_", i))
		_, err := s.Add(ctx, agentOf(account, id))
		if i < signal.MaxAgents {
			storetest.Must(t, err)
			continue
		}
		storetest.WantError(t, err, signal.KindConflict, "limit_reached")
		storetest.Must(t, s.Remove(ctx, account, signal.AgentID(fmt.Sprint("agent_", i-signal.MaxAgents))))
		_, err = s.Add(ctx, agentOf(account, id))
		storetest.Must(t, err)
	}
	storetest.Must(t, s.Remove(ctx, account, signal.AgentID(fmt.Sprint("agent_", signal.MaxAgentsEver-1))))
	_, err := s.Add(ctx, agentOf(account, "one_more"))
	storetest.WantError(t, err, signal.KindConflict, "limit_reached")
}

// TestOneOfManyAdds with one id, and none is lost with others.
func TestOneOfManyAdds(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	ctx, account := t.Context(), signal.NewAccountID()
	added := make(chan error)
	for i := range 3 {
		go func() {
			_, err := s.Add(ctx, agentOf(account, signal.AgentID(fmt.Sprint("agent_", i/2))))
			added <- err
		}()
	}
	taken := 0
	for range 3 {
		if err := <-added; err != nil {
			storetest.WantError(t, err, signal.KindConflict, "name_taken")
			taken++
		}
	}
	if list, err := s.Agents(ctx, account); err != nil || len(list) != 2 || taken != 1 {
		t.Errorf("%v: %d refused, %+v", err, taken, list)
	}
}

func FuzzDecode(f *testing.F) {
	s := &Store{sealer: fakeSealer{}}
	a := agentOf("acc_1", "mine")
	text, err := s.encode(&a)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text string) {
		a, err := s.decode("acc_1", "mine", text, "1")
		if err != nil {
			return
		}
		again, err := s.encode(&a)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := s.decode("acc_1", "mine", again, "1"); err != nil || !cmp.Equal(a, b) {
			t.Errorf("%v: %s", err, cmp.Diff(a, b))
		}
	})
}

func TestMain(m *testing.M) { storetest.Main(m) }
