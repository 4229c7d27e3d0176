package operations

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/agentsignal/agentsignal/actors/webhook/signature"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

func TestListenEndsWithASignal(t *testing.T) {
	t.Parallel()
	c, url := e2e.SpawnListener(t, "s")
	deliver, err := http.NewRequest(http.MethodPost, url, strings.NewReader(`{}`))
	e2e.Must(t, err)
	deliver.Header.Set(signature.HeaderSignature, signature.Sign("s", []byte(`{}`)))
	w, err := http.DefaultClient.Do(deliver)
	e2e.Must(t, err)
	w.Body.Close()
	if w.StatusCode != http.StatusOK {
		t.Errorf("a delivery is answered with %d", w.StatusCode)
	}
	c.Signal(syscall.SIGINT)
	c.Exits(0)
}
