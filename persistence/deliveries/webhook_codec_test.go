package deliveries

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

const (
	codecWebhook  = signal.WebhookID("whk_01M7YQ1WTVKN9DZNWV9NV456V1")
	codecDelivery = signal.DeliveryID("dlv_01M7YQ1X7PE2DGEP087XGX6XDW")
	codecEvent    = signal.EventID("evt_01M7YQ1X3DTRA4S2456P21NJZ0")
	codecBody     = "12345678901234567890"
)

// codecWebhooks returns webhooks with all kinds of fields.
func codecWebhooks() map[string]delivery.Webhook {
	at := milli(0)
	empty, text := "", "for the night shift"
	plain := delivery.Webhook{ID: codecWebhook, Account: codecAccount, URL: "https://example.com",
		APIVersion: "2026-11-01", Events: []signal.EventType{signal.SignalClosed}, Status: delivery.WebhookEnabled,
		CreatedAt: at, UpdatedAt: at, Secret: []byte{0, 255, ' '}}
	full := disabled(plain, delivery.DisabledManual, at.Add(time.Hour))
	full.URL, full.Events, full.Description = plain.URL+strings.Repeat("ä", 1000), delivery.WebhookEvents, &text
	full.PreviousSecret, full.PreviousUntil = []byte("previous"), at.Add(24*time.Hour)
	full.Since = signal.Position{MS: 1_795_000_000_123, Seq: 1}
	full.Filter = &signal.Filter{Assets: []string{"BTC", "eth"}, Agents: []signal.AgentID{"trading"},
		Strategies: []string{"momentum"}, Directions: []signal.Direction{signal.Long},
		MinConfidence: new(.4), MinExpectedRNet: new(-.0125)}
	failing := disabled(plain, delivery.DisabledFailing, at)
	failing.Description = &empty
	telegram, template := plain, full
	telegram.Format, telegram.ChatID = delivery.Telegram, "-1001"
	template.Format, template.Template, template.ContentType = delivery.Template, strings.Repeat("{{.type}}", 900), "text/plain"
	full.MaxPerMinute, telegram.MaxPerMinute = delivery.MaxPerMinute, 1
	return map[string]delivery.Webhook{"plain": plain, "full": full, "failing": failing, "telegram": telegram,
		"template": template}
}

func TestWebhookCodec(t *testing.T) {
	t.Parallel()
	for name, w := range codecWebhooks() {
		for _, cleared := range []time.Time{{}, milli(5)} {
			w.ClearedAt = cleared
			b, err := appendWebhook(nil, &w)
			if err != nil {
				t.Fatal(err)
			}
			want := w
			want.Revision = string(b)
			got, err := decodeWebhook(w.Account, w.ID, b)
			wantEqual(t, name, err, want, got)
			if s := statusOfRecord(string(b)); s != w.Status {
				t.Errorf("%s: status %q is read at its fixed place", name, s)
			}
			for n := range b {
				if _, err := decodeWebhook(w.Account, w.ID, b[:n]); err == nil {
					t.Errorf("%s: the first %d of %d bytes are taken for a webhook", name, n, len(b))
				}
			}
			b[0] = 9
			if _, err := decodeWebhook(w.Account, w.ID, b); err == nil || !strings.Contains(err.Error(), "version 9") {
				t.Errorf("%s: of version 9: %v", name, err)
			}
		}
	}
	w := codecWebhooks()["plain"]
	w.Events = []signal.EventType{"of a later version"}
	if _, err := appendWebhook(nil, &w); err == nil {
		t.Error("an event that is not known is stored")
	}
}

func TestHealthCodec(t *testing.T) {
	t.Parallel()
	failing := delivery.WebhookHealth{FailingSince: milli(7), Failures: 1 << 20, Warned: 2}
	held := failing
	held.HeldUntil = milli(9)
	rounded := held
	rounded.HeldUntil = milli(8).Add(1) // never earlier
	if got, err := decodeHealth(appendHealth(nil, &rounded)); got != held || err != nil {
		t.Errorf("a wait until %s is read as %+v, %v", rounded.HeldUntil, got, err)
	}
	for _, want := range []delivery.WebhookHealth{{}, failing, held, {HeldUntil: milli(9)}} {
		b := appendHealth(nil, &want)
		if got, err := decodeHealth(b); got != want || err != nil {
			t.Errorf("read back as %+v, %v; want %+v", got, err, want)
		}
		unheld := want
		unheld.HeldUntil = time.Time{}
		earlier := appendHealth(nil, &unheld)
		for n := range b {
			got, err := decodeHealth(b[:n])
			if n == len(earlier) {
				if got != unheld || err != nil {
					t.Errorf("what the version before stored is read as %+v, %v; want %+v", got, err, unheld)
				}
			} else if err == nil {
				t.Errorf("the first %d bytes are taken for %+v", n, got)
			}
		}
	}
}

// codecMail returns a mail with all fields.
func codecMail() delivery.Mail {
	return delivery.Mail{ID: "x", Kind: delivery.MailWebhookFailing, Account: codecAccount, Webhook: codecWebhook,
		URL: "https://example.com", Since: milli(1), At: milli(2), Error: "status 500", Tries: 3}
}

func TestMailCodec(t *testing.T) {
	t.Parallel()
	for _, want := range []delivery.Mail{{}, codecMail()} {
		b := appendMail(nil, &want)
		if got, err := decodeMail(want.ID, b); got != want || err != nil {
			t.Errorf("read back as %+v, %v; want %+v", got, err, want)
		}
		for n := range b {
			if got, err := decodeMail("", b[:n]); err == nil {
				t.Errorf("the first %d bytes are taken for %+v", n, got)
			}
		}
	}
}

func TestCutMember(t *testing.T) {
	t.Parallel()
	member := hook{redisclient.Keys{}, 1, codecAccount, codecWebhook}.member()
	if a, w, ok := cutMember(member); a != codecAccount || w != codecWebhook || !ok {
		t.Errorf("read back as %q, %q, %v", a, w, ok)
	}
	for _, bad := range []string{"", "a", " w", "a ", "a b c", "a  b"} {
		if a, w, ok := cutMember(bad); ok {
			t.Errorf("%q is read as %q, %q", bad, a, w)
		}
	}
}

// codecDeliveries returns deliveries with all kinds of fields.
func codecDeliveries() map[string]delivery.Delivery {
	at := milli(0)
	plain := delivery.Delivery{Event: codecEvent, Type: signal.SignalCreated, Status: delivery.Pending,
		CreatedAt: at, NextAttemptAt: at.Add(time.Second)}
	tried := plain
	tried.Scheduled, tried.Error = 3, "status 503"
	long := strings.Repeat("é", 100)
	for i, e := range []string{"status 503", "timeout", "status 0503", "of a later version", "status 503"} {
		n := time.Duration(i)
		a := delivery.Attempt{Number: i + 7, Trigger: delivery.Scheduled, At: at.Add((n - 1) * time.Minute),
			Duration: n * time.Second, ResponseStatus: 503, Error: e,
			ResponseBody: []string{"busy", "busy", "", long, long}[i]}
		if i == 2 {
			a.Trigger, a.ResponseStatus = delivery.Manual, 0
		}
		tried.Attempts = append(tried.Attempts, a)
	}
	done := tried
	done.Status, done.Error, done.Type = delivery.Succeeded, "", signal.AgentFailed
	done.NextAttemptAt, done.CompletedAt = time.Time{}, at.Add(time.Hour)
	failed := done
	failed.Status, failed.Error = delivery.Failed, "an error of a later version"
	single := plain
	single.Single, single.Type = true, signal.WebhookTest
	sent := done
	sent.Sent = []byte(strings.Repeat("sent", 1000))
	unmade := failed
	unmade.Error = delivery.NotMade + ": line 1"
	return map[string]delivery.Delivery{"plain": plain, "tried": tried, "done": done, "failed": failed,
		"single": single, "sent": sent, "unmade": unmade}
}

func TestDeliveryCodec(t *testing.T) {
	t.Parallel()
	for name, d := range codecDeliveries() {
		b := appendDelivery(nil, &d, codecBody)
		got, key, err := decodeDelivery(b)
		if diff := cmp.Diff(d, withEvent(got, d.Event)); diff != "" || err != nil || key != codecBody {
			t.Errorf("%s: body %q, %v (-want +got):\n%s", name, key, err, diff)
		}
		front, _, err := decodeDelivery(b[:deliveryFront])
		want := d
		if n := len(d.Attempts); n > 0 {
			last := d.Attempts[n-1]
			want.Attempts = []delivery.Attempt{{Number: last.Number, ResponseStatus: last.ResponseStatus}}
		}
		if name == "failed" {
			want.Error = "" // lists show only known errors
		}
		if name == "unmade" {
			want.Error = delivery.NotMade
		}
		want.Sent = nil
		wantEqual(t, name+", its front", err, want, withEvent(front, d.Event))
		for n := range b {
			if n == deliveryFront || n == len(b)-len(codec.AppendString(nil, string(d.Sent))) {
				continue // the front, and a record of an earlier version
			}
			if _, _, err := decodeDelivery(b[:n]); err == nil {
				t.Errorf("%s: the first %d of %d bytes are taken for a delivery", name, n, len(b))
			}
		}
		// Without the key of the body, the script inserts it.
		without := appendDelivery(nil, &d, "")
		if copy(without[1:], codecBody); !bytes.Equal(without, b) {
			t.Errorf("%s: the record for the script differs", name)
		}
		b[0] = 9
		if _, _, err := decodeDelivery(b); err == nil || !strings.Contains(err.Error(), "version 9") {
			t.Errorf("%s: of version 9: %v", name, err)
		}
	}
}

// withEvent returns d with another event than that of codecBody, which is not a key of a body.
func withEvent(d delivery.Delivery, e signal.EventID) delivery.Delivery {
	d.Event = e
	return d
}

// The record of a delivery stays small, however many attempts it has and however long their answers
// are.
func TestDeliveryIsStoredInPart(t *testing.T) {
	t.Parallel()
	d := codecDeliveries()["plain"]
	for i := range 2 * delivery.MaxAttempts {
		d.Attempts = append(d.Attempts, delivery.Attempt{Number: i + 1, Trigger: delivery.Manual, At: milli(int64(i)),
			ResponseBody: strings.Repeat("a", delivery.MaxResponseBody-1) + "é" + strings.Repeat("b", i)})
	}
	b := appendDelivery(nil, &d, codecBody)
	got, _, err := decodeDelivery(b)
	if err != nil || len(got.Attempts) != delivery.MaxAttempts || got.Attempts[0].Number != delivery.MaxAttempts+1 ||
		got.AttemptCount() != 2*delivery.MaxAttempts {
		t.Fatalf("%d attempts from %d on, %v", len(got.Attempts), got.Attempts[0].Number, err)
	}
	for _, a := range got.Attempts {
		if a.ResponseBody != strings.Repeat("a", delivery.MaxResponseBody-1) {
			t.Fatalf("response of %d bytes", len(a.ResponseBody))
		}
	}
	if len(b) > 2*delivery.MaxResponseBody {
		t.Errorf("%d bytes, though all responses are the same", len(b))
	}
}

// TestDeliveryErrors: codes keep their meaning, and every error is read back.
func TestDeliveryErrors(t *testing.T) {
	t.Parallel()
	want := []string{"", "timeout", "connection failed", "TLS failed", "address not allowed", "host not found",
		"cancelled"}
	wantEqual(t, "stored codes have changed", nil, want, deliveryErrors)
	for _, e := range append(want, "status 200", "status 65535") {
		code, status := errorCode(e)
		if got, err := errorText(code, uint16(status)); got != e || err != nil || code == errorOther {
			t.Errorf("%q is read as %q, %v", e, got, err)
		}
	}
	for _, e := range []string{"status 65536", "status +1", "status 007", "status ", "status", "Timeout"} {
		if code, _ := errorCode(e); code != errorOther {
			t.Errorf("%q has the code %d", e, code)
		}
	}
	if got, err := errorText(99, 0); err == nil {
		t.Errorf("code 99 is read as %q", got)
	}
}

func TestDeliveryMember(t *testing.T) {
	t.Parallel()
	member, err := deliveryMember(codecDelivery, signal.WebhookTest)
	if err != nil || len(member) != memberBytes || member[16] != codec.CodeOfEvent[signal.WebhookTest] ||
		deliveryOf(member) != codecDelivery || member[:16] != deliveryField(codecDelivery) {
		t.Errorf("member %q, %v", member, err)
	}
	if m, err := deliveryMember("dlv_x", signal.WebhookTest); err == nil {
		t.Errorf("a bad identifier has the member %q", m)
	}
	if m, err := deliveryMember(codecDelivery, "of a later version"); err == nil {
		t.Errorf("an unknown type has the member %q", m)
	}
	if id := deliveryOf("short"); id != "" {
		t.Errorf("a short member is that of %q", id)
	}
	if _, err := bodyKey("evt_x", nil); err == nil {
		t.Error("a bad event has a body")
	}
	one, err1 := bodyKey(codecEvent, []byte("one"))
	two, err2 := bodyKey(codecEvent, []byte("two"))
	if one == two || one[:16] != two[:16] || len(one) != bodyKeyBytes || err1 != nil || err2 != nil {
		t.Errorf("bodies of one event have the keys %q and %q", one, two)
	}
}

func FuzzDecodeWebhook(f *testing.F) {
	for _, w := range codecWebhooks() {
		w.ClearedAt = milli(3)
		b, _ := appendWebhook(nil, &w)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		w, err := decodeWebhook(codecAccount, codecWebhook, value)
		if err != nil {
			return
		}
		b, err := appendWebhook(nil, &w)
		if err != nil {
			t.Skip() // more events than there are
		}
		again, err := decodeWebhook(codecAccount, codecWebhook, b)
		again.Revision = w.Revision
		if err != nil || !reflect.DeepEqual(again, w) {
			t.Errorf("%q is read as %+v, then %+v, %v", value, w, again, err)
		}
	})
}

func FuzzDecodeHealth(f *testing.F) {
	f.Add(appendHealth(nil, &delivery.WebhookHealth{FailingSince: milli(7), Failures: 1 << 20, Warned: 2}))
	f.Add(appendHealth(nil, &delivery.WebhookHealth{FailingSince: milli(7), Failures: 1, HeldUntil: milli(8)}))
	f.Fuzz(func(t *testing.T, value []byte) {
		h, err := decodeHealth(value)
		if err != nil {
			return
		}
		if again, err := decodeHealth(appendHealth(nil, &h)); err != nil || again != h {
			t.Errorf("%q is read as %+v, then %+v, %v", value, h, again, err)
		}
	})
}

func FuzzDecodeDelivery(f *testing.F) {
	for _, d := range codecDeliveries() {
		f.Add(appendDelivery(nil, &d, codecBody))
		f.Add(appendDelivery(nil, &d, codecBody)[:deliveryFront])
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		d, key, err := decodeDelivery(value)
		if err != nil {
			return
		}
		if len(value) == deliveryFront {
			return
		}
		again, keyAgain, err := decodeDelivery(appendDelivery(nil, &d, key))
		if err != nil || !reflect.DeepEqual(again, d) || keyAgain != key {
			t.Errorf("%q is read as %+v, then %+v, %v", value, d, again, err)
		}
	})
}

func FuzzDecodeMail(f *testing.F) {
	m := codecMail()
	f.Add(appendMail(nil, &m))
	f.Fuzz(func(t *testing.T, value []byte) {
		m, err := decodeMail("x", value)
		if err != nil {
			return
		}
		if again, err := decodeMail("x", appendMail(nil, &m)); err != nil || again != m {
			t.Errorf("%q is read as %+v, then %+v, %v", value, m, again, err)
		}
	})
}
