package main

import (
	"bufio"
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/webhook/signature"
)

func TestReceiverCountsDeliveries(t *testing.T) {
	v, err := newReceiver(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	defer v.close(t.Context())
	o := bareOrder{URLs: []string{v.url(0), v.url(1), v.url(2)}, Connections: 2, Secret: v.secret,
		Events: 1000, Window: 20 * time.Millisecond}
	for range 2 { // the second time all events are duplicates
		report, err := runBareSender(t.Context(), o)
		if err != nil || report.Sent == 0 {
			t.Fatalf("sent %d: %v", report.Sent, err)
		}
		if got := v.received.Load() + v.duplicates.Load(); got != report.Sent {
			t.Errorf("%d of %d arrived", got, report.Sent)
		}
		v.received.Store(0)
		v.duplicates.Store(0)
		o.Window = time.Millisecond
	}
	if err := v.err(); err != nil {
		t.Error(err)
	}
	o.Secret = "another"
	if _, err := runBareSender(t.Context(), o); err == nil || v.err() == nil {
		t.Error("the receiver accepts a signature of another secret")
	}
}

// requestOf returns a request as the service sends it.
func requestOf(secret string, n uint32) []byte {
	at, id := time.Unix(1795253400, 0), signal.NewEventID()
	body := webhookBody(nil, id, at, n)
	return fmt.Appendf(nil,
		"POST /e/7 HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s: %s\r\n%s: %s\r\n%s: %d\r\n%s: %s\r\n\r\n%s",
		len(body), signature.HeaderSignature, signature.Sign(secret, body), signature.HeaderStandardID, id,
		signature.HeaderStandardTimestamp, at.Unix(),
		signature.HeaderStandardSignature, signature.SignStandard(secret, string(id), at.Unix(), body), body)
}

func TestIncomingIsVerified(t *testing.T) {
	request := requestOf("secret", 4711)
	var q incoming
	if err := q.read(bufio.NewReader(bytes.NewReader(request))); err != nil || q.endpoint != 7 {
		t.Fatalf("endpoint %d: %v", q.endpoint, err)
	}
	if n, err := q.verify("secret"); err != nil || n != 4711 {
		t.Errorf("event %d: %v", n, err)
	}
	q.body[len(q.body)-2]++
	if _, err := q.verify("secret"); err == nil {
		t.Error("a changed body is accepted")
	}
}

func FuzzIncoming(f *testing.F) {
	f.Add(requestOf("secret", 1))
	f.Add([]byte("POST /e/-1 HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n"))
	f.Fuzz(func(t *testing.T, request []byte) {
		var q incoming
		if err := q.read(bufio.NewReader(bytes.NewReader(request))); err != nil {
			return
		}
		if q.endpoint < 0 || len(q.body) > maxRequestBody {
			t.Errorf("endpoint %d, body of %d bytes", q.endpoint, len(q.body))
		}
		if _, err := q.verify("secret"); err == nil && !bytes.Contains(request, []byte(q.signed)) {
			t.Error("a missing signature fits")
		}
	})
}
