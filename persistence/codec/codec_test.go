package codec

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentsignal/agentsignal/actors/signal"
)

const codecAccount = signal.AccountID("acc_01M7YQ1WTVKN9DZNWV9NV456V1")

// wantEqual fails unless err is nil and got is want.
func wantEqual(tb testing.TB, what string, err error, want, got any) {
	tb.Helper()
	if d := cmp.Diff(want, got); err != nil || d != "" {
		tb.Errorf("%s: %v (-want +got):\n%s", what, err, d)
	}
}

// codecEvents returns events with all kinds of fields.
func codecEvents() map[string]signal.Event {
	at := signal.Position{MS: 1795253400000, Seq: 3}
	entry := 64250.125
	listing := signal.Listing{ID: "sig_01M7YQ1WTVKN9DZNWV9NV456V1", Agent: "trading", Asset: "BTC",
		Strategy: "momentum", Direction: signal.Long, Confidence: .4372, Entry: &entry, Status: signal.Open,
		CreatedAt: at.Time()}
	expected := -.0125
	initial := &signal.Initial{Confidence: .4, ExpectedRNet: &expected}
	weather := listing
	weather.Asset, weather.Strategy, weather.Agent = "corn", "agriculture", "weather"
	opening := &signal.Opening{Run: "run_00000000000000000000000000", Timeframe: signal.D1, Risk: "medium",
		Stop: 63000.5, Target: 66000.25, Lifetime: 36*time.Hour + time.Millisecond}
	subject := listing
	subject.Entry = nil
	closed := listing
	closed.Status, closed.Entry, closed.Asset, closed.Strategy = signal.Closed, nil, "other", "of a later version"
	closed.CreatedAt = at.Time().Add(-time.Hour)
	const id = signal.EventID("evt_01M7YQ1X3DTRA4S2456P21NJZ0")
	events := map[string]signal.Event{
		"created": {ID: id, Type: signal.SignalCreated, Asset: "BTC", Listing: &listing, Data: []byte("{}")},
		"weather": {ID: id, Type: signal.SignalCreated, Asset: "corn", Listing: &weather, Weather: codecOutlook()},
		"closed":  {ID: id, Type: signal.SignalClosed, Asset: "BTC", Listing: &closed, Data: []byte("{}")},
		"initial": {ID: id, Type: signal.SignalUpdated, Asset: "BTC", Listing: &listing, Initial: initial},
		"no R":    {ID: id, Type: signal.SignalClosed, Listing: &closed, Initial: &signal.Initial{Confidence: .1}},
		"opening": {ID: id, Type: signal.SignalCreated, Asset: "BTC", Listing: &listing, Initial: initial,
			Opening: opening},
		"opening without prices": {ID: id, Type: signal.SignalCreated, Listing: &subject,
			Opening: &signal.Opening{Run: "other", Timeframe: "of a later version"}},
		"internal": {ID: id, Type: signal.KeyRevoked, Subject: "key_x"},
		"system":   {Type: signal.SystemNotification, Data: []byte(`{"message":"x"}`)},
		"run": {ID: "evt_7ZZZZZZZZZZZZZZZZZZZZZZZZZ", Type: signal.AgentStarted, Agent: "trading",
			Run: "run_00000000000000000000000000", Data: []byte("{}")},
		"odd": {ID: "e", Account: "acc_01m7yq1wtvkn9dznwv9nv456v1", Type: "of a later version",
			Agent: "agent of a plugin", Run: "wsig_01M7YQ1WTVKN9DZNWV9NV456V1"},
		"long texts": {Account: signal.AccountID(strings.Repeat("ä", 500)), Type: signal.WebhookTest,
			Asset: strings.Repeat("x", 127), Subject: strings.Repeat("s", 126)},
	}
	for name, e := range events {
		if e.Position = at; e.Account == "" {
			e.Account = codecAccount
		}
		events[name] = e
	}
	events["almost none"] = signal.Event{Position: at, Type: signal.AccountDeleted}
	return events
}

func TestEventCodec(t *testing.T) {
	t.Parallel()
	for name, e := range codecEvents() {
		t.Run(name, func(t *testing.T) {
			header := AppendEvent(nil, &e)
			got, err := DecodeEvent(e.Position, header, e.Data)
			if err != nil {
				t.Fatal(err)
			}
			wantEqual(t, "decoded", nil, e, got)
			if !bytes.Equal(EventAccount(header), AccountBytes(e.Account)) {
				t.Errorf("EventAccount = %q, want %q", EventAccount(header), AccountBytes(e.Account))
			}
			for n := range header {
				if _, err := DecodeEvent(e.Position, header[:n], nil); err == nil {
					t.Errorf("the first %d of %d bytes are taken for an event", n, len(header))
				}
			}
		})
	}
}

// TestTheStrategyOfARunIsKept behind what versions before it read.
func TestTheStrategyOfARunIsKept(t *testing.T) {
	t.Parallel()
	e := signal.Event{Account: codecAccount, Type: signal.AgentFailed, Agent: "my_agent",
		Run: "run_00000000000000000000000000", Asset: "BTC"}
	before := AppendEvent(nil, &e)
	for _, strategy := range []string{"momentum", "cross"} {
		e.Strategy = strategy
		header := AppendEvent(nil, &e)
		got, err := DecodeEvent(e.Position, header, nil)
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "decoded", nil, e, got)
		if !bytes.HasPrefix(header, before) {
			t.Errorf("%q does not begin with %q", header, before)
		}
	}
}

// TestEventTypes: every type is stored as a code, and codes keep their meaning.
func TestEventTypes(t *testing.T) {
	t.Parallel()
	want := []signal.EventType{"", "signal.created", "signal.updated", "signal.closed", "agent.started",
		"agent.completed", "agent.error", "webhook.test", "system.notification", "account.deleted", "key.revoked",
		"session.ended", "webhook.changed", "webhook.poked", "schedule.changed",
		"log.checkpoint", "signal.exit_requested"}
	wantEqual(t, "stored codes of events have changed", nil, want, EventCodes)
	if words[1] != "trading" || words[14] != "long" || words[25] != "expired" || len(words) > 128 {
		t.Errorf("stored codes of words have changed: %q", words)
	}
}

func TestUnknownVersion(t *testing.T) {
	t.Parallel()
	e := codecEvents()["created"]
	header := AppendEvent(nil, &e)
	header[0] = 9
	if _, err := DecodeEvent(e.Position, header, nil); err == nil || !strings.Contains(err.Error(), "version 9") {
		t.Errorf("version 9: %v", err)
	}
}

// codecOutlook returns the weather of a signal.
func codecOutlook() *signal.Outlook {
	return &signal.Outlook{Commodity: "corn", Region: "us", Likelihood: .8125,
		ExpectedImpact: "+1.4 % in 5 days: crop stress 22 % above normal in us",
		Event: signal.WeatherEvent{Type: signal.Drought, Severity: "extreme", Location: "Des Moines",
			ForecastDate: "2026-07-21", Deviation: -2.5}}
}

// codecSignal returns a signal as it is decoded, created and closed at positions.
func codecSignal(created signal.Position) *signal.Signal {
	at := created.Time()
	return &signal.Signal{ID: "sig_01M7YQ1WTVKN9DZNWV9NV456V1", Account: codecAccount, Agent: "trading",
		Run: "run_01M7YQ1WPJA84WKP9M7T9BM2EX", Asset: "BTC", Strategy: "momentum", Timeframe: signal.H1,
		Risk: signal.LowRisk, Direction: signal.Short, Confidence: .4372, FirstConfidence: .4372,
		Levels: &signal.Levels{Entry: 1, Stop: 2, Target: .5}, Metadata: []byte(`{"a":1}`),
		CreatedAt: at, UpdatedAt: at, ExpiresAt: at.Add(90 * time.Minute), Sequence: 1}
}

// codecUpdates returns updates of a signal created at a time.
func codecUpdates(created time.Time) []signal.Update {
	return []signal.Update{
		{At: created.Add(time.Minute), Confidence: .4711, Price: 66275.125},
		{At: created.Add(20 * 365 * 24 * time.Hour), Confidence: 1},
	}
}

func TestSignalCodec(t *testing.T) {
	t.Parallel()
	at, later := signal.Position{MS: 1795253400123, Seq: 1}, signal.Position{MS: 1795253999999}
	content := codecSignal(at)
	content.Agent, content.Strategy, content.Asset, content.Timeframe = "seo", "blog_post", "standing desk", ""
	content.Levels, content.Metadata, content.ExpiresAt = nil, nil, time.Time{}
	weather := codecSignal(at)
	weather.Agent, weather.Strategy, weather.Asset, weather.Weather = "weather", "agriculture", "CORN", codecOutlook()
	noExpiry := codecSignal(at)
	noExpiry.Weather, noExpiry.ExpiresAt = &signal.Outlook{}, time.Time{}
	expected := .25
	for name, s := range map[string]*signal.Signal{
		"trading": codecSignal(at), "content": content, "weather": weather, "weather without expiry": noExpiry,
	} {
		t.Run(name, func(t *testing.T) {
			// The caller's clock is not that of the log.
			given := *s
			given.CreatedAt = s.CreatedAt.Add(-3 * time.Second)
			if !s.ExpiresAt.IsZero() {
				given.ExpiresAt = s.ExpiresAt.Add(-3 * time.Second)
			}
			got, err := DecodeRecord(at, AppendRecord(nil, &given, time.Time{}), s.Metadata)
			if err != nil {
				t.Fatal(err)
			}
			wantEqual(t, "record", nil, s, got)
			given.Confidence, given.Sequence, given.MFE, given.MAE = .9, 7, 1, -.5
			given.Initial = &signal.Initial{Confidence: .44, ExpectedRNet: &expected}
			stamps := []byte(at.String() + " " + later.String() + " ")
			without := AppendOpen(stamps, &given, time.Time{})
			given.ExitRequested = at.Time().Add(time.Minute)
			if grown := len(AppendOpen(stamps, &given, time.Time{})) - len(without); grown != exitBytes {
				t.Errorf("an exit takes %d bytes", grown)
			}
			without = AppendOpen(stamps, &given, time.Time{})
			given.Updates = codecUpdates(given.CreatedAt)
			value := AppendOpen(stamps, &given, time.Time{})
			if grown := len(value) - len(without); grown != 2*updateBytes+1 {
				t.Errorf("2 updates take %d bytes", grown)
			}
			open, created, err := DecodeOpen([]byte(OpenField(s.ID)), value)
			if err != nil || created != at {
				t.Fatalf("DecodeOpen: created at %v, %v", created, err)
			}
			want := *s
			want.Confidence, want.Sequence, want.MFE, want.MAE = .9, 7, 1, -.5
			want.UpdatedAt, want.Metadata, want.Initial = later.Time(), nil, given.Initial
			want.Updates, want.ExitRequested = codecUpdates(s.CreatedAt), given.ExitRequested
			if w := s.Weather; w != nil {
				want.Weather = &signal.Outlook{Commodity: w.Commodity, Region: w.Region, Likelihood: w.Likelihood}
			}
			wantEqual(t, "open", nil, want, open)
		})
	}
	noTime := codecSignal(at)
	noTime.CreatedAt = time.Time{}
	got, err := DecodeRecord(at, AppendRecord(nil, noTime, noTime.ExpiresAt.Add(-time.Minute)), nil)
	if err != nil || !got.ExpiresAt.Equal(at.Time().Add(time.Minute)) {
		t.Errorf("without a time of creation it expires at %v, %v", got.ExpiresAt, err)
	}
}

func TestClosedCodec(t *testing.T) {
	t.Parallel()
	at, end := signal.Position{MS: 1795253400123, Seq: 1}, signal.Position{MS: 1795253999999}
	exit, zero := 66275.125, 0.0
	for name, c := range map[string]*signal.Closing{
		"prices": {Reason: signal.StopLoss, At: end.Time().Add(-time.Minute), ExitPrice: &exit,
			PnLPercent: &zero, PnLAbsolute: &zero, DurationMinutes: 3},
		"content": {Reason: signal.Expired, At: end.Time(), DurationMinutes: -1},
		"no time": {Reason: signal.Expired},
	} {
		s := codecSignal(at)
		s.Closing, s.Confidence, s.Sequence, s.MFE, s.MAE = c, .1, 4, 2, -1
		value := AppendClosed([]byte(at.String()+" "+end.String()+" "), s)
		if !IsClosing(value) || IsClosing(AppendRecord(nil, s, time.Time{})) {
			t.Errorf("%s: IsClosing does not distinguish closings from creations", name)
		}
		want := ClosedState{Account: s.Account, ID: s.ID, Agent: s.Agent, Asset: s.Asset, Levels: s.Levels, Closing: *c,
			openState: openState{Created: at, Updated: end, Confidence: .1, Sequence: 4, mfe: 2, mae: -1}}
		if name == "prices" { // as the script appends them
			s.Updates = codecUpdates(s.CreatedAt)
			value, want.Updates = appendUpdates(value, s), s.Updates
			for cut := 1; cut < 2*updateBytes+1; cut++ {
				if _, err := DecodeClosed(end, value[:len(value)-cut]); err == nil {
					t.Errorf("updates without %d bytes are decoded", cut)
				}
			}
		}
		got, err := DecodeClosed(end, value)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if c.At.IsZero() {
			want.Closing.At = end.Time()
		}
		if diff := cmp.Diff(&want, got, cmp.AllowUnexported(ClosedState{}, openState{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestReplyCodec(t *testing.T) {
	t.Parallel()
	at := signal.Position{MS: 5, Seq: 6}
	for name, r := range map[string]signal.Reply{
		"body": {Status: 201, Header: map[string]string{"Location": "/v1/jobs/1", "Retry-After": "1"},
			Body: []byte(`{"a":1}`)},
		"empty body": {Status: 204, Body: []byte{}},
		"signal":     {Status: 200},
		"omitted":    {Status: 200, Omitted: true},
	} {
		r.RequestHash = [32]byte{1, 2, 31: 9}
		got, p, err := DecodeReply(AppendReply([]byte("5-6 "), &r))
		if err != nil || p != at {
			t.Fatalf("%s: at %v, %v", name, p, err)
		}
		wantEqual(t, name, nil, &r, got)
		lock, _, err := DecodeReply(AppendReplyLock(nil, &r.ReplyKey))
		if err != nil || lock.Status != 0 || lock.RequestHash != r.RequestHash {
			t.Errorf("%s: lock is read as %v, %v", name, lock, err)
		}
	}
	later := AppendReply([]byte("5-6 "), &signal.Reply{Status: 200})
	later[len(later)-1] = bodyOmitted + 1
	if r, _, err := DecodeReply(later); err == nil {
		t.Errorf("a body of an unknown kind is read as %+v", r)
	}
}

func TestCutStamp(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]signal.Position{
		"0-0 rest":              {},
		"1795253400000-12 rest": {MS: 1795253400000, Seq: 12},
		"9223372036854775807-9223372036854775807 rest": {MS: math.MaxInt64, Seq: math.MaxInt64},
	} {
		if got, rest, err := CutStamp([]byte(text)); got != want || string(rest) != "rest" || err != nil {
			t.Errorf("%q is cut into %v and %q, %v", text, got, rest, err)
		}
	}
	for _, text := range []string{"", " ", "1-1", "- ", "1- ", "+1-1 ", "9223372036854775808-0 "} {
		if got, _, err := CutStamp([]byte(text)); err == nil {
			t.Errorf("%q is cut into %v", text, got)
		}
	}
}

// FuzzDecode: decoding any bytes neither panics nor allocates more than it is given, and what is
// decoded is encoded to the same meaning.
func FuzzDecode(f *testing.F) {
	for _, e := range codecEvents() {
		f.Add(AppendEvent(nil, &e))
	}
	at := signal.Position{MS: 1795253400123, Seq: 1}
	stamps := []byte("1795253400123-1 1795253400999-0 ")
	s := codecSignal(at)
	f.Add(AppendRecord(nil, s, time.Time{}))
	s.Weather = codecOutlook()
	f.Add(AppendRecord(nil, s, time.Time{}))
	f.Add(append(bytes.Clone(stamps), AppendOpen(nil, s, time.Time{})...))
	f.Add(append(bytes.Clone(stamps), AppendClosed(nil, s)...))
	s.Updates = codecUpdates(s.CreatedAt)
	f.Add(append(bytes.Clone(stamps), AppendOpen(nil, s, time.Time{})...))
	f.Add(appendUpdates(append(bytes.Clone(stamps), AppendClosed(nil, s)...), s))
	f.Add(append([]byte("1-1 "), AppendReply(nil, &signal.Reply{Status: 200, Header: map[string]string{"a": "b"}})...))
	f.Add(binary.AppendUvarint([]byte{Version, 0, longText}, math.MaxUint64))
	f.Fuzz(func(t *testing.T, b []byte) {
		nan := cmpopts.EquateNaNs()
		if e, err := DecodeEvent(at, b, nil); err == nil {
			again, err := DecodeEvent(at, AppendEvent(nil, &e), nil)
			if diff := cmp.Diff(e, again, nan); err != nil || diff != "" {
				t.Errorf("event: %v\n%s", err, diff)
			}
		}
		if s, err := DecodeRecord(at, b, nil); err == nil && s.FirstConfidence != 0 {
			again, err := DecodeRecord(at, AppendRecord(nil, s, time.Time{}), nil)
			if diff := cmp.Diff(s, again, nan); err != nil || diff != "" {
				t.Errorf("record: %v\n%s", err, diff)
			}
		}
		DecodeOpen([]byte("0123456789abcdef"), b)
		DecodeClosed(at, b)
		if m, err := UnpackMetadata(b); err == nil {
			again, err := UnpackMetadata(PackMetadata(m))
			if err != nil && len(m) > 0 && m[0] == '{' || err == nil && !bytes.Equal(m, again) {
				t.Errorf("metadata %q becomes %q, %v", m, again, err)
			}
		}
		if r, _, err := DecodeReply(b); err == nil && r.Status != 0 {
			again, _, err := DecodeReply(append([]byte("1-1 "), AppendReply(nil, r)...))
			if diff := cmp.Diff(r, again); err != nil || diff != "" {
				t.Errorf("reply: %v\n%s", err, diff)
			}
		}
		EventAccount(b)
	})
}

func TestPackMetadata(t *testing.T) {
	t.Parallel()
	long := `{"indicators":["x"],"content":"` + strings.Repeat("standing desk ", 5000) + `"}`
	for name, m := range map[string]string{
		"typical": string(typicalMetadata), "short": `{"a":1}`, "empty": "", "long": long,
		"foreign": `{"` + strings.Repeat("\x00\xff\x7fq9", 3) + `8fj2kKqQzZ1234567890"}`,
	} {
		packed := PackMetadata([]byte(m))
		got, err := UnpackMetadata(packed)
		if err != nil || string(got) != m {
			t.Errorf("%s: unpacked to %.100q, %v", name, got, err)
		}
		if len(packed) > len(m) {
			t.Errorf("%s: %d bytes are packed to %d", name, len(m), len(packed))
		}
	}
	if n := len(PackMetadata(typicalMetadata)); n > len(typicalMetadata)/3 {
		t.Errorf("typical metadata of %d bytes are packed to %d", len(typicalMetadata), n)
	}
	// What the first version has packed must always be readable.
	const old = "AcwDFQAIGaumXwIx6RUA2zkfEDowLjgxNSQQOjI3LjM5+Rg0MTIuMTI1OtABBDgzes4BDDAuMDc5yxAxNDMuMiHMFQAg"
	stored, err := base64.StdEncoding.DecodeString(old)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := UnpackMetadata(stored); err != nil || string(got) != string(typicalMetadata) {
		packed := base64.StdEncoding.EncodeToString(PackMetadata(typicalMetadata))
		t.Errorf("stored before: %q, %v; packed now: %s", got, err, packed)
	}
	for name, stored := range map[string][]byte{
		"form": {9, 1, 2}, "no length": {1}, "huge": {1, 0xff, 0xff, 0xff, 0x7f, 0}, "cut": stored[:50],
	} {
		if got, err := UnpackMetadata(stored); err == nil {
			t.Errorf("%s: unpacked to %q", name, got)
		}
	}
}

// What was packed last is kept: it must be right for each metadata, also of many goroutines, and whatever
// their callers do with the memory. The test is not parallel, so that no other packs.
func TestPackMetadataAgain(t *testing.T) {
	var packing sync.WaitGroup
	for range 4 {
		packing.Go(func() {
			for i := range 3 * maxRecent {
				text := strings.Replace(string(typicalMetadata), "BTC", fmt.Sprint("ASSET", i), 1)
				if i%2 == 0 { // not made smaller
					text = fmt.Sprintf(`{"%x":1}`, sha256.Sum256([]byte(text)))
				}
				m := []byte(text)
				for range 2 {
					packed := PackMetadata(m)
					if got, err := UnpackMetadata(packed); err != nil || string(got) != text {
						t.Errorf("%q is unpacked to %q, %v", text, got, err)
					}
				}
				clear(m)
			}
		})
	}
	packing.Wait()
	if n := len(recentMetadata.packed); n == 0 || n > maxRecent {
		t.Errorf("%d are kept", n)
	}
	first, again := PackMetadata(typicalMetadata), PackMetadata(bytes.Clone(typicalMetadata))
	if !bytes.Equal(first, packMetadata(typicalMetadata)) || &first[0] != &again[0] {
		t.Errorf("packed to %q, then to %q", first, again)
	}
	long := []byte(`{"content":"` + strings.Repeat("standing desk ", maxRecentBytes) + `"}`)
	if first, again = PackMetadata(long), PackMetadata(long); !bytes.Equal(first, again) || &first[0] == &again[0] {
		t.Error("long metadata are kept")
	}
}

// typicalMetadata is the metadata of a momentum signal.
var typicalMetadata = []byte(`{"indicators":["ema_12_26","adx_14","atr_14"],"reasoning":"Momentum long on BTC 1h: ` +
	`EMA12 is 0.8 ATR above EMA26 and the 40-bar move is +1.3 sigma; ADX 27 confirms a trend. Of comparable past ` +
	`setups 43 % closed in profit (break-even 40 %). Stop 1.5 ATR, target 2.25 ATR, expires in 24 bars.",` +
	`"values":{"ema_12_26":0.81,"adx_14":27.3,"atr_14":412.125},"strength":0.83,"break_even":0.4,` +
	`"expected_r":0.07,"sample":143.2,"source":"simulated","time_compression":60}`)
