package signature

import (
	"bufio"
	"encoding/base64"
	"errors"
	"net/http"
	"net/textproto"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

const vectorSecret = "whsec_c2lnbmFsLXNlcnZpY2UtdGVzdC1zZWNyZXQtMDEyMzQ="

// sentAt is when the event of the published test vector happened and was sent.
var sentAt = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)

// readVector returns the body of the vector.
func readVector(tb testing.TB) []byte {
	tb.Helper()
	b, err := os.ReadFile("../testdata/vector.json")
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// vectorHeader are the signed headers of the vector.
func vectorHeader(tb testing.TB) http.Header {
	tb.Helper()
	f, err := os.Open("../testdata/vector.headers")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	h, err := textproto.NewReader(bufio.NewReader(f)).ReadMIMEHeader()
	if err != nil {
		tb.Fatal(err)
	}
	return http.Header(h)
}

// signed returns the signed headers of an attempt as a Sender writes them.
func signed(secrets []string, id string, at time.Time, body []byte) http.Header {
	h := http.Header{}
	h.Set(HeaderSignature, Sign(secrets[0], body))
	h.Set(HeaderStandardID, id)
	h.Set(HeaderStandardTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.Set(HeaderStandardSignature, string(NewSigners(secrets...).AppendStandard(nil, id, at.Unix(), body)))
	return h
}

func TestSignaturesAreThoseOfTheTestVector(t *testing.T) {
	t.Parallel()
	body, want := readVector(t), vectorHeader(t)
	if len(body) != 238 {
		t.Fatalf("the body of the vector has %d bytes", len(body))
	}
	got := signed([]string{vectorSecret}, want.Get(HeaderStandardID), sentAt, body)
	for name := range want {
		if got.Get(name) != want.Get(name) {
			t.Errorf("%s: %q, want %q", name, got.Get(name), want.Get(name))
		}
	}
	if err := Verify(vectorSecret, want, body, sentAt); err != nil {
		t.Errorf("verify the vector: %v", err)
	}
}

// official returns the verifier of the Standard Webhooks library for a secret.
func official(t *testing.T, secret string) *standardwebhooks.Webhook {
	t.Helper()
	wh, err := standardwebhooks.NewWebhook(secret)
	if !strings.HasPrefix(secret, delivery.SecretPrefix) || err != nil {
		wh, err = standardwebhooks.NewWebhookRaw([]byte(secret))
	}
	if err != nil {
		t.Fatal(err)
	}
	return wh
}

func TestTheOfficialLibraryVerifies(t *testing.T) {
	t.Parallel()
	made := delivery.NewSecret()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(made, delivery.SecretPrefix))
	if err != nil || len(key) != 32 || made == delivery.NewSecret() {
		t.Fatalf("made the secret %q", made)
	}
	tests := []struct {
		name    string
		secrets []string
	}{
		{"a secret that was made", []string{made}},
		{"that of the vector", []string{vectorSecret}},
		{"a secret that is not base64", []string{"correct horse battery staple"}},
		{"a secret of one character", []string{"x"}},
		{"a secret beyond ASCII", []string{"пароль ключ 鍵"}},
		{"a secret that is base64 without the prefix", []string{"c2lnbmFsLXNlcnZpY2U="}},
		{"a prefix without base64", []string{"whsec_not base64!"}},
		{"two secrets during a rotation", []string{delivery.NewSecret(), made}},
		{"two kinds of secrets during a rotation", []string{"plain", made}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			body, now := readVector(t), time.Now()
			h := signed(test.secrets, "evt_1", now, body)
			for _, secret := range test.secrets {
				if err := official(t, secret).Verify(body, h); err != nil {
					t.Errorf("official library with %q: %v", secret, err)
				}
				if err := Verify(secret, h, body, now); err != nil {
					t.Errorf("verify with %q: %v", secret, err)
				}
			}
			if err := official(t, "whsec_b3RoZXI=").Verify(body, h); err == nil {
				t.Error("the official library verifies with another secret")
			}
			if got := h.Get(HeaderSignature); got != Sign(test.secrets[0], body) {
				t.Errorf("%s is %q, not by the newest secret", HeaderSignature, got)
			}
		})
	}
}

func TestAnEmptyKeySignsNothing(t *testing.T) {
	t.Parallel()
	if string(standardKey(delivery.SecretPrefix)) != delivery.SecretPrefix {
		t.Error("the prefix alone is an empty key, which everybody has")
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	body := readVector(t)
	without := func(names ...string) func(http.Header) {
		return func(h http.Header) {
			for _, name := range names {
				h.Del(name)
			}
		}
	}
	set := func(name, value string) func(http.Header) { return func(h http.Header) { h.Set(name, value) } }
	good := vectorHeader(t).Get(HeaderStandardSignature)
	standard := func(value string) func(http.Header) { return set(HeaderStandardSignature, value) }
	simple := without(HeaderStandardSignature)
	tests := []struct {
		name   string
		change func(http.Header)
		body   []byte
		late   time.Duration
		secret string
		want   error
	}{
		{name: "as it was sent"},
		{name: "five minutes later", late: Tolerance},
		{name: "five minutes before", late: -Tolerance},
		{name: "more than five minutes later", late: Tolerance + time.Second, want: ErrBadTime},
		{name: "more than five minutes before", late: -Tolerance - time.Second, want: ErrBadTime},
		{name: "without the standard headers, at any time", change: simple, late: 100 * time.Hour},
		{name: "without the specified one", change: without(HeaderSignature)},
		{name: "without any", change: without(HeaderSignature, HeaderStandardSignature), want: ErrNoSignature},
		{name: "another body", body: append([]byte(" "), body...), want: ErrBadSignature},
		{name: "another body without the standard headers", change: simple, body: body[1:], want: ErrBadSignature},
		{name: "another secret", secret: "whsec_b3RoZXI=", want: ErrBadSignature},
		{name: "another id", change: set(HeaderStandardID, "evt_2"), want: ErrBadSignature},
		{name: "another time", change: set(HeaderStandardTimestamp, "1795253401"), want: ErrBadSignature},
		{name: "a time that is not a number", change: set(HeaderStandardTimestamp, "now"), want: ErrBadTime},
		{name: "a forged standard signature with our good one", change: standard("v1,AAAA"), want: ErrBadSignature},
		{name: "unknown kinds of signatures around the good one", change: standard("v1a,AAAA " + good + " v2,BBBB")},
		{name: "an empty list", change: standard("  "), want: ErrBadSignature},
		{name: "half a signature", change: standard(good[:20]), want: ErrBadSignature},
		{name: "the hex in capitals", change: func(h http.Header) {
			h.Del(HeaderStandardSignature)
			h.Set(HeaderSignature, strings.ToUpper(h.Get(HeaderSignature)))
		}, want: ErrBadSignature},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h, b, secret := vectorHeader(t), body, vectorSecret
			if test.change != nil {
				test.change(h)
			}
			if test.body != nil {
				b = test.body
			}
			if test.secret != "" {
				secret = test.secret
			}
			if err := Verify(secret, h, b, sentAt.Add(test.late)); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

func FuzzVerify(f *testing.F) {
	body, h := readVector(f), vectorHeader(f)
	id, at := h.Get(HeaderStandardID), h.Get(HeaderStandardTimestamp)
	f.Add(h.Get(HeaderSignature), id, at, h.Get(HeaderStandardSignature), body)
	f.Add(h.Get(HeaderSignature), "", "", "", body)
	f.Add("sha256=", "a", "9223372036854775807", "v1, v1,x", []byte("{}"))
	f.Fuzz(func(t *testing.T, ours, id, at, standard string, b []byte) {
		given := http.Header{
			HeaderSignature:         {ours},
			HeaderStandardID:        {id},
			HeaderStandardTimestamp: {at},
			HeaderStandardSignature: {standard},
		}
		if err := Verify(vectorSecret, given, b, sentAt); err == nil && string(b) != string(body) {
			t.Errorf("verified a body that was not signed: %q", b)
		}
	})
}
