package receive

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/webhook/signature"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
)

// The published test vector.
const (
	vectorSecret = "whsec_c2lnbmFsLXNlcnZpY2UtdGVzdC1zZWNyZXQtMDEyMzQ="
	vectorTime   = 1795253400
	vectorPath   = "../../../actors/webhook/testdata/vector"
)

// vectorBody returns the body of the test vector.
func vectorBody(tb testing.TB) string {
	tb.Helper()
	text, err := os.ReadFile(vectorPath + ".json")
	commandtest.Must(tb, err)
	return string(text)
}

// signedRequest returns a raw request as the service sends it.
func signedRequest(secrets []string, event, kind, body string, at time.Time) string {
	return fmt.Sprintf("POST /hooks HTTP/1.1\r\nHost: example.com\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n"+
		"X-Service-Signature: %s\r\nX-Service-Event: %s\r\nX-Service-Delivery: dlv_01M7YQ1X7PE2DGEP087XGX6XDW\r\n"+
		"X-Service-Timestamp: %d\r\nX-Service-Attempt: 1\r\n"+
		"webhook-id: %s\r\nwebhook-timestamp: %[4]d\r\nwebhook-signature: %[6]s\r\n\r\n%[7]s",
		len(body), signature.Sign(secrets[0], []byte(body)), kind, at.Unix(), event,
		signature.NewSigners(secrets...).AppendStandard(nil, event, at.Unix(), []byte(body)), body)
}

func TestVerifyPassesTheTestVector(t *testing.T) {
	t.Parallel()
	o := operator(t)
	args := []string{"verify", "--secret", vectorSecret, "--headers", vectorPath + ".headers", "--body",
		vectorPath + ".json"}
	for _, more := range [][]string{{"--at", "2026-11-21T09:30:00Z"}, {"--at", strconv.Itoa(vectorTime + 300)},
		{"--no-time-check"}, {"--no-time-check", "--secret", "an older one"}} {
		if out := o.Do(append(args, more...)...); !strings.Contains(out, "the request is genuine") {
			t.Errorf("%v: verify prints\n%s", more, out)
		}
	}
	out, err := o.Try("", append(args, "--at", strconv.Itoa(vectorTime+301))...)
	if err == nil || !strings.Contains(out, "NO  Webhook-Timestamp    2026-11-21T09:30:00Z: 5m1s ago") {
		t.Errorf("too late: verify ended with %v and prints\n%s", err, out)
	}
}

func TestVerifyReportsWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	const event, kind = "evt_01M7YQ1X3DTRA4S2456P21NJZ0", "webhook.test"
	now := time.Unix(vectorTime, 0)
	good := signedRequest([]string{"new", "old"}, event, kind, vectorBody(t), now)
	replace := func(old, with string) string {
		if strings.Count(good, old) != 1 {
			t.Fatalf("%q is there %d times", old, strings.Count(good, old))
		}
		return strings.Replace(good, old, with, 1)
	}
	formatted := strings.Replace(vectorBody(t), `"type":`, `"type": `, 1)
	bare := "X-Service-Signature: " + signature.Sign("new", []byte(vectorBody(t))) + "\n\n" + vectorBody(t)
	for name, c := range map[string]struct {
		request string
		secret  string
		want    string // a part of the output
		genuine bool
	}{
		"the new secret": {good, "new", "ok  verification         signed with secret 1 of 1", true},
		"the old one": {good, "old",
			"--  X-Service-Signature  fits no secret given: after a rotation", true},
		"another one":                {good, "other", "NO  Webhook-Signature    fits no secret given", false},
		"lines end in LF":            {strings.ReplaceAll(good, "\r\n", "\n"), "new", "genuine", true},
		"no request line":            {strings.TrimPrefix(good, "POST /hooks HTTP/1.1\r\n"), "new", "genuine", true},
		"the specified one alone":    {bare, "new", "nothing signs the time", true},
		"a line end behind the body": {good + "\n", "new", "not part of the body", true},
		"the same without a length":  {bare + "\n", "new", "it would without the line end", false},
		"another body": {replace(`"api"}}`, `"apx"}}`), "new",
			"fits no secret given with this body", false},
		"formatted JSON": {"X-Service-Signature: " + signature.Sign("new", []byte(vectorBody(t))) + "\n\n" +
			formatted, "new", "formatted after it came", false},
		"another time": {replace("webhook-timestamp: 1795253400", "webhook-timestamp: 1795253401"), "new",
			"NO  Webhook-Signature", false},
		"no time": {replace("webhook-timestamp: 1795253400", "webhook-timestamp: today"), "new",
			`"today" is not a time`, false},
		"another time of the service": {
			replace("X-Service-Timestamp: 1795253400", "X-Service-Timestamp: 1795253401"), "new",
			"NO  X-Service-Timestamp", false},
		"another type": {replace("X-Service-Event: webhook.test", "X-Service-Event: signal.closed"), "new",
			`"signal.closed" is not the type in the body`, false},
		"another signature": {replace("X-Service-Signature: sha256=", "X-Service-Signature: md5="), "new",
			"does not have the form", false},
		"two of them": {replace("webhook-id:", "webhook-id: evt_2\r\nwebhook-id:"), "new",
			"is given 2 times", false},
		"no signature at all": {"Content-Type: application/json\n\n{}", "new", "carries no signature", false},
		"control characters": {replace("X-Service-Event: webhook.test", "X-Service-Event: \xc2\x9b2J"), "new",
			"NO  X-Service-Event", false},
	} {
		out, err := operator(t).Try("", "verify", "--secret", c.secret, "--at", "1795253410", "--request",
			commandtest.Written(t, c.request))
		if (err == nil) != c.genuine || !strings.Contains(out, c.want) {
			t.Errorf("%s: verify ended with %v and does not contain %q:\n%s", name, err, c.want, out)
		}
		if strings.ContainsAny(out, "\x1b\u009b") {
			t.Errorf("%s: verify prints control characters", name)
		}
	}
}

func TestVerifyRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	o := operator(t)
	o.Fails("give the secret", "verify", "--request", "x")
	o.Fails("give --request", "verify", "--secret", "s")
	o.Fails("give --request", "verify", "--secret", "s", "--headers", "x")
	o.Fails("give --request", "verify", "--secret", "s", "--headers", "x", "--body", "y", "--request", "z")
	o.Fails("no such file", "verify", "--secret", "s", "--request", filepath.Join(t.TempDir(), "none"))
	o.Fails("no such file", "verify", "--secret-file", filepath.Join(t.TempDir(), "none"), "--request", "x")
	o.Fails("has 257 characters", "verify", "--secret", strings.Repeat("s", 257), "--request", "x")
	o.Fails("has 0 characters", "verify", "--secret-file", commandtest.Written(t, "\n"), "--request", "x")
	o.Fails("--at", "verify", "--secret", "s", "--at", "noon", "--request", "x")
	for want, request := range map[string]string{
		"there are no headers":        "",
		"line 2: \"nonsense\"":        "A: b\nnonsense\n\n",
		"line 2: a header goes on":    "A: b\n c\n\n",
		"line 1: a control character": "A: b\x00\n\n",
		"cut off: 2 of 3 bytes":       "Content-Length: 3\n\n{}",
		"Content-Length says 1":       "Content-Length: 1\n\n{}",
		"is not a length":             "Content-Length: -1\n\n{}",
		"1, 2":                        "Content-Length: 1\nContent-Length: 2\n\n{}",
		"\"gzip\" is not known":       "Transfer-Encoding: gzip\n\n{}",
		"read chunked body":           "Transfer-Encoding: chunked\n\nz\n",
		"headers are longer":          strings.Repeat("A: b\n", maxHeaderBytes/5+2),
		"the body is longer":          "A: b\n\n" + strings.Repeat("x", maxDeliveryBytes+1),
		"the file is longer":          "A: b\n\n" + strings.Repeat("x", maxHeaderBytes+2*maxDeliveryBytes),
	} {
		o.Fails(want, "verify", "--secret", "s", "--request", commandtest.Written(t, request))
	}
	o.Fails("line 3: text after the headers", "verify", "--secret", "s", "--headers",
		commandtest.Written(t, "A: b\n\nbody"), "--body", commandtest.Written(t, ""))
}

func TestVerifyReadsAChunkedBody(t *testing.T) {
	t.Parallel()
	request := "X-Service-Signature: " + signature.Sign("s", []byte("hello")) +
		"\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"
	operator(t).Do("verify", "--secret", "s", "--request", commandtest.Written(t, request))
}

// FuzzSavedRequest compares the findings on any request with signature.Verify.
func FuzzSavedRequest(f *testing.F) {
	body := vectorBody(f)
	now := time.Unix(vectorTime, 0)
	f.Add([]byte(signedRequest([]string{vectorSecret}, "evt_01M7YQ1X3DTRA4S2456P21NJZ0", "webhook.test", body, now)))
	f.Add([]byte("X-Service-Signature: " + signature.Sign(vectorSecret, nil) + "\n\n"))
	f.Add([]byte("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n1\r\na\r\n0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parseRequest(text)
		if err != nil {
			return
		}
		for name, values := range r.header {
			if name != http.CanonicalHeaderKey(name) || !isToken(name) {
				t.Errorf("header %q", name)
			}
			for _, v := range values {
				if strings.ContainsAny(v, "\r\n\x00") {
					t.Errorf("value %q of %s", v, name)
				}
			}
		}
		var out strings.Builder
		err = examine([]string{"other", vectorSecret}, r, now, false).print(&out)
		if verified := signature.Verify(vectorSecret, r.header, r.body, now); err == nil && verified != nil {
			t.Errorf("genuine, but %v:\n%s", verified, out.String())
		}
		for line := range strings.Lines(out.String()) {
			if command.Printable(line) != line {
				t.Errorf("prints %q", line)
			}
		}
	})
}
