package service

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/agentsignal/agentsignal/actors/webhook/signature"
)

// spawnListener starts agentsignal webhook listen with a secret, and returns the URL of the
// receiver.
func spawnListener(tb testing.TB, secret string) (_ *child, url string) {
	tb.Helper()
	c := spawn(tb, []string{"webhook", "listen", "--addr", "127.0.0.1:0"}, "WEBHOOK_SECRET="+secret)
	eventually(tb, "it listens", func() bool {
		_, url, _ = strings.Cut(c.log.Line("listening on "), "listening on ")
		return strings.HasSuffix(url, "\n")
	})
	return c, strings.TrimSpace(url)
}

func TestListenEndsWithASignal(t *testing.T) {
	t.Parallel()
	c, url := spawnListener(t, "s")
	deliver, err := http.NewRequest(http.MethodPost, url, strings.NewReader(`{}`))
	must(t, err)
	deliver.Header.Set(signature.HeaderSignature, signature.Sign("s", []byte(`{}`)))
	w, err := http.DefaultClient.Do(deliver)
	must(t, err)
	w.Body.Close()
	if w.StatusCode != http.StatusOK {
		t.Errorf("a delivery is answered with %d", w.StatusCode)
	}
	c.signal(syscall.SIGINT)
	c.exits(0)
}
