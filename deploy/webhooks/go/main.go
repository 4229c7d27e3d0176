// This program receives the webhooks of agentsignal: it verifies each delivery,
// handles each event once and refuses all else. It needs the standard library only,
// and is meant to be copied. deploy/WEBHOOKS.md explains it.
//
// It listens on the loopback address; a proxy that ends TLS stands in front of it.
// WEBHOOK_SECRET holds the secret of the webhook, WEBHOOK_SECRET_2 a second one during
// a rotation, PORT the port (default 8090; 0: any that is free), WEBHOOK_TOLERANCE by
// how many seconds the clocks may differ (default 300). With WEBHOOK_TOLERANCE=0 the
// time is not looked at and X-Service-Signature alone decides.
package main

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	maxBody = 1 << 20 // bytes; deliveries have about 1,000
	maxSeen = 10_000  // events that are remembered
)

// serviceSignature is X-Service-Signature: it signs the body. The key is the whole
// text of the secret.
func serviceSignature(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// standardSignature is one entry of webhook-signature: it signs id, time and body.
// The key is the decoded base64 after whsec_, or the bytes of a secret in another form.
func standardSignature(secret, id, timestamp string, body []byte) string {
	key := []byte(secret)
	if text, ok := strings.CutPrefix(secret, "whsec_"); ok {
		if decoded, err := base64.StdEncoding.DecodeString(text); err == nil && len(decoded) > 0 {
			key = decoded
		}
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// verify returns nil if the raw body was signed with one of the secrets and, unless
// tolerance is 0, sent within tolerance of now.
func verify(secrets []string, h http.Header, body []byte, tolerance time.Duration, now time.Time) error {
	id, timestamp := h.Get("webhook-id"), h.Get("webhook-timestamp")
	given := strings.Fields(h.Get("webhook-signature")) // two during a rotation
	if tolerance == 0 {
		given = []string{h.Get("X-Service-Signature")}
	}
	fits := false
	for _, secret := range secrets {
		want := standardSignature(secret, id, timestamp, body)
		if tolerance == 0 {
			want = serviceSignature(secret, body)
		}
		for _, one := range given {
			fits = hmac.Equal([]byte(one), []byte(want)) || fits // in constant time
		}
	}
	if !fits {
		return errors.New("no signature fits")
	}
	if tolerance > 0 {
		sent, err := strconv.ParseInt(timestamp, 10, 64)
		if err != nil || now.Sub(time.Unix(sent, 0)).Abs() > tolerance {
			return errors.New("sent too long ago, or a clock is wrong")
		}
	}
	return nil
}

// event is the envelope of every event.
type event struct {
	ID   string          `json:"id"`
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
}

// handle is where your work begins. An error makes the service send the event again.
// What takes longer than a few seconds belongs into a queue of yours that survives a
// crash: the service waits 15 s for the answer.
func handle(e event) error {
	_, err := fmt.Printf("event %q of type %q\n", e.ID, e.Type)
	return err
}

// receiver answers deliveries.
type receiver struct {
	secrets   []string
	tolerance time.Duration

	mu sync.Mutex // one event is handled at a time
	// seen are the events that were handled, order their ids from the oldest. Keep
	// the ids in your database, in the transaction that stores what the event does.
	seen  map[string]bool
	order []string
}

// ServeHTTP takes one delivery. 2xx ends it; after anything else it comes again.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "deliveries are POST requests", http.StatusMethodNotAllowed)
		return
	}
	if req.ContentLength > maxBody {
		http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge)
		return
	}
	// The bytes as they came: JSON that was decoded and encoded again has others.
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		http.Error(w, "the body is too large or cut off", http.StatusBadRequest)
		return
	}
	if err := verify(r.secrets, req.Header, body, r.tolerance, time.Now()); err != nil {
		log.Print("refused: ", err)
		http.Error(w, "the delivery is not genuine", http.StatusUnauthorized)
		return
	}
	var e event
	if err := json.Unmarshal(body, &e); err != nil || e.ID == "" {
		http.Error(w, "the body is not an event", http.StatusBadRequest)
		return
	}
	if e.Type == "webhook.challenge" {
		// The registration of this URL needs a proof: a text that only its receiver gets.
		var data struct {
			Challenge string `json:"challenge"`
		}
		if err := json.Unmarshal(e.Data, &data); err != nil {
			http.Error(w, "the body is not an event", http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, data.Challenge)
		return
	}
	if err := r.once(e); err != nil {
		log.Printf("handle event %q: %v", e.ID, err)
		http.Error(w, "try again later", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusOK)
}

// once handles an event unless that was done before.
func (r *receiver) once(e event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[e.ID] {
		return nil
	}
	if err := handle(e); err != nil {
		return err
	}
	r.seen[e.ID] = true
	r.order = append(r.order, e.ID)
	if len(r.order) > maxSeen {
		delete(r.seen, r.order[0])
		r.order = r.order[1:]
	}
	return nil
}

func main() {
	log.SetFlags(0)
	r := &receiver{seen: map[string]bool{}}
	for _, name := range []string{"WEBHOOK_SECRET", "WEBHOOK_SECRET_2"} {
		if s := os.Getenv(name); s != "" {
			r.secrets = append(r.secrets, s)
		}
	}
	if len(r.secrets) == 0 {
		log.Fatal("set WEBHOOK_SECRET to the secret of the webhook")
	}
	seconds, err := strconv.ParseUint(cmp.Or(os.Getenv("WEBHOOK_TOLERANCE"), "300"), 10, 32)
	if err != nil {
		log.Fatal("WEBHOOK_TOLERANCE: ", err)
	}
	r.tolerance = time.Duration(seconds) * time.Second
	ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", cmp.Or(os.Getenv("PORT"), "8090")))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", ln.Addr())
	s := &http.Server{
		Handler: r, ReadTimeout: 10 * time.Second, WriteTimeout: 20 * time.Second, IdleTimeout: 2 * time.Minute,
	}
	log.Fatal(s.Serve(ln))
}
