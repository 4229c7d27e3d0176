package signal

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestScopeSets(t *testing.T) {
	t.Parallel()
	if got := AllScopes.List(); !slices.Equal(got, Scopes) {
		t.Errorf("all scopes are %v, want %v", got, Scopes)
	}
	if got := ScopesOf(Scopes...); got != AllScopes {
		t.Errorf("the set of all scopes is %b, want %b", got, AllScopes)
	}
	set := ScopesOf(SignalsRead, AgentsRead, "agents:unknown")
	if got, want := set.List(), []Scope{AgentsRead, SignalsRead}; !slices.Equal(got, want) {
		t.Errorf("scopes %v, want %v in the order of Scopes", got, want)
	}
	for _, s := range append([]Scope{"", "agents:unknown"}, Scopes...) {
		if got, want := set.Has(s), s == AgentsRead || s == SignalsRead; got != want {
			t.Errorf("Has(%q) is %v, want %v", s, got, want)
		}
	}
	if got := ScopeSet(0).List(); got == nil || len(got) != 0 {
		t.Errorf("the empty set lists %#v, want an empty slice, which is [] in JSON", got)
	}
}

func TestCatalogueOfAgents(t *testing.T) {
	t.Parallel()
	owners := map[string]AgentID{}
	for _, a := range Agents() {
		if a.Name == "" || a.Description == "" || a.Category == "" || a.Status == "" || len(a.Strategies) == 0 {
			t.Errorf("%s is incomplete: %+v", a.ID, a)
		}
		for _, s := range a.Strategies {
			if other, taken := owners[s]; taken {
				t.Errorf("%s belongs to both %s and %s", s, other, a.ID)
			}
			owners[s] = a.ID
			if !a.Has(s) {
				t.Errorf("%s does not have its own %s", a.ID, s)
			}
		}
	}
	trading := Agents()[0]
	if trading.ID != "trading" || trading.Has("agriculture") || trading.Has("") {
		t.Errorf("the first agent is %+v", trading)
	}
	trading.Strategies[0] = "changed"
	if Agents()[0].Strategies[0] == "changed" {
		t.Error("a caller can change the catalogue")
	}
}

func TestInternalEvents(t *testing.T) {
	t.Parallel()
	for _, public := range []EventType{
		SignalCreated, SignalUpdated, SignalClosed, AgentStarted, AgentCompleted, AgentFailed, WebhookTest,
		LogCheckpoint, SystemNotification,
	} {
		if public.Internal() {
			t.Errorf("%s is internal", public)
		}
	}
	for _, internal := range []EventType{
		AccountDeleted, KeyRevoked, SessionEnded, WebhookChanged, DeliveriesChanged, ScheduleChanged, ExitRequested,
	} {
		if !internal.Internal() {
			t.Errorf("clients receive %s", internal)
		}
	}
}

func TestRefusedChanges(t *testing.T) {
	t.Parallel()
	err := Changed(7)
	if stored, ok := StoredSequence(err); !ok || stored != 7 {
		t.Errorf("stored sequence %d, %v, want 7", stored, ok)
	}
	if KindOf(err) != KindConflict || CodeOf(err) != CodeSignalChanged {
		t.Errorf("kind %d and code %q", KindOf(err), CodeOf(err))
	}
	if want := "the signal has been changed meanwhile: the stored signal has the sequence 7"; err.Error() != want {
		t.Errorf("text %q, want %q", err, want)
	}
	if stored, ok := StoredSequence(NotFound("signal")); ok {
		t.Errorf("an error without one has the sequence %d", stored)
	}
}

func TestErrorsKeepTheirCause(t *testing.T) {
	t.Parallel()
	cause := errors.New("connection refused")
	err := Unavailable(cause)
	if !errors.Is(err, cause) || err.RetryAfter != 5*time.Second ||
		!strings.HasSuffix(err.Error(), ": connection refused") {
		t.Errorf("got %v, retry after %v", err, err.RetryAfter)
	}
	run := &RunError{Code: StaleData, Message: "prices are old", Cause: cause}
	if got := run.Error(); got != "STALE_DATA: prices are old" {
		t.Errorf("text of a run's error is %q: it must not show the cause", got)
	}
	if !errors.Is(run, cause) {
		t.Error("the cause of a run's error is lost")
	}
}

func TestIdentifiersByKind(t *testing.T) {
	t.Parallel()
	accepts := map[string]func(string) bool{
		"sig_": func(s string) bool { id, ok := ParseSignalID(s); return ok && string(id) == s },
		"job_": func(s string) bool { id, ok := ParseJobID(s); return ok && string(id) == s },
		"key_": func(s string) bool { id, ok := ParseKeyID(s); return ok && string(id) == s },
		"whk_": func(s string) bool { id, ok := ParseWebhookID(s); return ok && string(id) == s },
		"dlv_": func(s string) bool { id, ok := ParseDeliveryID(s); return ok && string(id) == s },
		"sch_": func(s string) bool { id, ok := ParseScheduleID(s); return ok && string(id) == s },
	}
	for prefix, id := range map[string]string{
		"acc_": string(NewAccountID()), "sig_": string(NewSignalID()), "run_": string(NewRunID()),
		"job_": string(NewJobID()), "evt_": string(NewEventID()), "key_": string(NewKeyID()),
		"ses_": string(NewSessionIDAt(time.Now())), "whk_": string(NewWebhookID()), "dlv_": string(NewDeliveryID()),
		"sch_": string(NewScheduleID()), "req_": NewRequestID(), "con_": NewConnectionID(),
	} {
		if !strings.HasPrefix(id, prefix) || len(id) != len(prefix)+ulidLength {
			t.Errorf("%q is not an identifier with the prefix %s", id, prefix)
		}
		for kind, accept := range accepts {
			if got, want := accept(id), kind == prefix; got != want {
				t.Errorf("%s is accepted as %s: %v, want %v", id, kind, got, want)
			}
		}
	}
}

func TestIdentifiersAtATime(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_795_253_400_123)
	for _, id := range []string{string(NewAccountIDAt(at)), string(NewSessionIDAt(at))} {
		b, ok := ULIDBytes(id)
		var ms int64
		for _, x := range b[:6] {
			ms = ms<<8 | int64(x)
		}
		if !ok || ms != at.UnixMilli() {
			t.Errorf("%s has the time %d, want %d", id, ms, at.UnixMilli())
		}
	}
	if _, ok := ULIDBytes("sig_short"); ok {
		t.Error("a short identifier has 16 bytes")
	}
}

func TestWeatherIdentifiers(t *testing.T) {
	t.Parallel()
	id := NewSignalID()
	w := id.Weather()
	if want := WeatherID("wsig_" + string(id)[len("sig_"):]); w != want {
		t.Errorf("got %s, want %s", w, want)
	}
	if back, ok := ParseWeatherID(string(w)); !ok || back != id {
		t.Errorf("%s belongs to %s, %v, want %s", w, back, ok, id)
	}
	for _, text := range []string{"", "wsig_", string(id), "wsig_" + string(id), string(w) + "0"} {
		if back, ok := ParseWeatherID(text); ok {
			t.Errorf("%q belongs to %s", text, back)
		}
	}
}

func TestTimeframesAscend(t *testing.T) {
	t.Parallel()
	last := time.Duration(0)
	for _, tf := range FileTimeframes {
		if tf.Duration() <= last {
			t.Errorf("%s lasts %v, after %v", tf, tf.Duration(), last)
		}
		last = tf.Duration()
	}
	live := slices.DeleteFunc(slices.Clone(FileTimeframes), func(tf Timeframe) bool { return tf == M15 || tf == H4 })
	if !slices.Equal(live, Timeframes) {
		t.Errorf("timeframes of signals are %v, want %v", Timeframes, live)
	}
	if got := Timeframe("2h").Duration(); got != 0 {
		t.Errorf("an unknown timeframe lasts %v", got)
	}
}
