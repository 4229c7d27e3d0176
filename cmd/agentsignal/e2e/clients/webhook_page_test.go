package clients

import (
	"bufio"
	"fmt"
	"net/http"
	"net/textproto"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook"
	webhookmessage "github.com/agentsignal/agentsignal/actors/webhook/message"
	"github.com/agentsignal/agentsignal/actors/webhook/signature"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// webhooksPage returns the page for those who receive.
func webhooksPage(tb testing.TB) string {
	tb.Helper()
	text, err := os.ReadFile("../../../../deploy/WEBHOOKS.md")
	e2e.Must(tb, err)
	return string(text)
}

// block returns the text of the only fenced block of the page with the label.
func block(tb testing.TB, page, label string) string {
	tb.Helper()
	found := regexp.MustCompile("(?ms)^```"+label+"\n(.*?)^```$").FindAllStringSubmatch(page, -1)
	if len(found) != 1 {
		tb.Fatalf("the page has %d blocks of %s, want 1", len(found), label)
	}
	return found[0][1]
}

// pageVector is the test vector as the page has it.
type pageVector struct {
	secret, body string
	header       http.Header
}

func vectorOfPage(tb testing.TB) pageVector {
	tb.Helper()
	page := webhooksPage(tb)
	h, err := textproto.NewReader(bufio.NewReader(strings.NewReader(block(tb, page, "http") + "\n"))).ReadMIMEHeader()
	e2e.Must(tb, err)
	return pageVector{strings.TrimSpace(block(tb, page, "secret")), strings.TrimSuffix(block(tb, page, "json"), "\n"),
		http.Header(h)}
}

// The published test vector.
const (
	vectorSecret = "whsec_c2lnbmFsLXNlcnZpY2UtdGVzdC1zZWNyZXQtMDEyMzQ="
	vectorTime   = 1795253400
	vectorFile   = "../../../../actors/webhook/testdata/vector.json"
)

func TestPageHasTheTestVector(t *testing.T) {
	t.Parallel()
	v := vectorOfPage(t)
	body, err := os.ReadFile(vectorFile)
	e2e.Must(t, err)
	if v.secret != vectorSecret || v.body != string(body) {
		t.Errorf("the page has the secret %q and the body\n%s", v.secret, v.body)
	}
	if !strings.Contains(webhooksPage(t), fmt.Sprintf("the body (%d bytes", len(v.body))) {
		t.Errorf("the page does not contain that the body has %d bytes", len(v.body))
	}
	want := http.Header{}
	id := v.header.Get(signature.HeaderStandardID)
	want.Set(signature.HeaderSignature, signature.Sign(v.secret, []byte(v.body)))
	want.Set(signature.HeaderStandardID, id)
	want.Set(signature.HeaderStandardTimestamp, strconv.Itoa(vectorTime))
	want.Set(signature.HeaderStandardSignature, signature.SignStandard(v.secret, id, vectorTime, []byte(v.body)))
	for name := range want {
		if v.header.Get(name) != want.Get(name) {
			t.Errorf("%s is %q, want %q", name, v.header.Get(name), want.Get(name))
		}
	}
	if len(v.header) != len(want) || !strings.Contains(v.body, `"id":"`+id+`"`) {
		t.Errorf("the page has the headers %v", v.header)
	}
}

// The template of the page works, for a signal and for other events.
func TestPageHasATemplate(t *testing.T) {
	t.Parallel()
	made, err := webhookmessage.ParseTemplate(block(t, webhooksPage(t), "template"))
	e2e.Must(t, err)
	for event, want := range map[string]string{
		`{"type":"signal.created","data":{"asset":"BTC","direction":"long","confidence":0.4166,"entry_price":` +
			`87413.631}}`: "BTC long 41.7 % at 87413.63",
		`{"type":"signal.created","data":{"asset":"desk","direction":"neutral","confidence":1,` +
			`"entry_price":null}}`: "desk neutral 100.0 %",
		`{"type":"webhook.test","data":{}}`: "webhook.test",
	} {
		text, err := made.Execute(e2e.Decode[map[string]any](t, event))
		if got := strings.TrimSpace(string(text)); err != nil || got != want {
			t.Errorf("%s makes %q, %v; want %q", event, got, err, want)
		}
	}
}

func TestPageDescribesTheService(t *testing.T) {
	t.Parallel()
	page := webhooksPage(t)
	demand := func(format string, args ...any) {
		t.Helper()
		if text := fmt.Sprintf(format, args...); !strings.Contains(strings.Join(strings.Fields(page), " "), text) {
			t.Errorf("the page does not contain %q", text)
		}
	}
	var table strings.Builder
	var sum time.Duration
	for i, delay := range webhook.DefaultRetries {
		text := strings.Replace(delay.String(), "m0s", "m", 1)
		text = strings.Replace(text, "h0m", "h", 1)
		fmt.Fprintf(&table, "| %d | %s | ", i+1, text)
		sum += delay
	}
	demand("| Retry | Delay | |---|---| %sIf the sixth retry fails, some %.1f hours", table.String(), sum.Hours())
	demand("more than %d minutes from your clock", signature.Tolerance/time.Minute)
	demand("without any success for %.0f hours, and with at least %d failures", webhook.DefaultDisableAfter.Hours(),
		webhook.DefaultMinFailures)
	demand("after %.0f and %.0f hours", webhook.DefaultWarnAfter[0].Hours(), webhook.DefaultWarnAfter[1].Hours())
	for _, e := range delivery.WebhookEvents {
		demand("`%s`", e)
	}
	for _, name := range []string{signature.HeaderSignature, signature.HeaderEvent, signature.HeaderDelivery,
		signature.HeaderTimestamp, signature.HeaderAttempt,
		strings.ToLower(signature.HeaderStandardID), strings.ToLower(signature.HeaderStandardTimestamp),
		strings.ToLower(signature.HeaderStandardSignature)} {
		demand("`%s`", name)
	}
	example, err := os.ReadFile(examplesPath + "python/receiver.py")
	e2e.Must(t, err)
	if !strings.Contains(string(example), block(t, page, "python")) {
		t.Error("the code on the page is not that of the example")
	}
	for _, link := range regexp.MustCompile(`\]\((webhooks/[^)]+)\)`).FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat("../../../../deploy/" + link[1]); err != nil {
			t.Error(err)
		}
	}
}
