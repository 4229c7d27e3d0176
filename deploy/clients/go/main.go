// This program is an agent of your own: agentsignal asks it for a signal, it verifies that, and trades the cross of two
// moving averages. AGENT_SECRET is the secret of its endpoint, PORT its port on the loopback address (default: a free one),
// behind a proxy that ends TLS. It needs the standard library only, and is meant to be copied.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

const fast, slow, maxBody, tolerance = 10, 30, 1 << 20, 5 * time.Minute // bars, bars, bytes

// genuine reports whether the service has sent body lately: standard-webhooks signs its id, time and bytes.
func genuine(key []byte, h http.Header, body []byte) bool {
	sent, err := strconv.ParseInt(h.Get("webhook-timestamp"), 10, 64)
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%d.%s", h.Get("webhook-id"), sent, body)
	want, fits := []byte("v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil))), false
	for _, one := range strings.Fields(h.Get("webhook-signature")) {
		fits = hmac.Equal(want, []byte(one)) || fits
	}
	return fits && err == nil && time.Since(time.Unix(sent, 0)).Abs() <= tolerance
}

type question struct{ Bars []struct{ Close float64 } }

// fastAbove reports whether the fast average is above the slow one over the first end bars.
func (q *question) fastAbove(end int) bool {
	sums := [slow + 1]float64{} // of so many of the newest closes
	for n := range slow {
		sums[n+1] = sums[n] + q.Bars[end-1-n].Close
	}
	return sums[fast]/fast > sums[slow]/slow
}

// reply decides by the question alone: a question that is repeated has the same reply.
func (q *question) reply() map[string]any {
	end := len(q.Bars)
	if end <= slow || q.fastAbove(end) == q.fastAbove(end-1) {
		return map[string]any{"signal": nil, "reason": "the averages have not crossed at the newest bar"}
	}
	return map[string]any{"direction": map[bool]string{true: "long", false: "short"}[q.fastAbove(end)],
		"stop": map[string]any{"atr": 2}, "target": map[string]any{"r": 1.5}, "indicators": []string{"sma_10", "sma_30"}}
}

func main() {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(os.Getenv("AGENT_SECRET"), "whsec_"))
	if err != nil || len(key) == 0 {
		log.Fatal("set AGENT_SECRET to the secret of the endpoint")
	}
	http.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		var q question
		if err != nil || !genuine(key, r.Header, body) {
			http.Error(w, "the question is not genuine", http.StatusUnauthorized)
		} else if json.Unmarshal(body, &q) != nil || json.NewEncoder(w).Encode(q.reply()) != nil {
			http.Error(w, "the question cannot be read", http.StatusBadRequest)
		}
	})
	ln, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("PORT"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on http://" + ln.Addr().String())
	log.Fatal((&http.Server{ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute}).Serve(ln))
}
