package durability

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// TestReadersAreMadeWhollyOrNot: the service and Redis are killed while readers are made by the hundred. Those that were
// shown are there, and no request has left a part of its readers.
func TestReadersAreMadeWhollyOrNot(t *testing.T) {
	t.Parallel()
	redis := redistest.NewDurable(t)
	settings := e2e.ChildSettings(t, redis.URL(), "AUTH_REGISTRATION=open", "LEASE=6s")
	first := e2e.Launch(t, settings...)
	first.AwaitReady(t)
	user, email := first.Client(t), e2e.NewEmail()
	user.Post("/v1/auth/register", e2e.CredentialsBody(email, e2e.Password)).Want(t, http.StatusCreated)
	user = user.With(user.Login(email, e2e.Password).Access)
	const count = 100
	type made struct {
		APIKeys []struct{} `json:"api_keys"`
		Total   int        `json:"total"`
	}
	var shown atomic.Int64
	var making sync.WaitGroup
	for i := range 4 {
		making.Go(func() {
			for n := 0; ; n++ {
				body := fmt.Sprintf(`{"name_prefix":"r%d-%d","count":%d,"view":{}}`, i, n, count)
				a, err := user.Try(http.MethodPost, "/v1/auth/api-keys/batch", body)
				if err != nil || a.Status != http.StatusOK {
					return
				}
				shown.Add(int64(len(e2e.Decode[made](t, a.Body).APIKeys)))
			}
		})
	}
	e2e.Eventually(t, "readers are made", func() bool { return shown.Load() >= 10*count })
	var killing sync.WaitGroup
	killing.Go(first.Kill)
	killing.Go(redis.Kill)
	killing.Wait()
	making.Wait()

	redis.Restart()
	second := e2e.LaunchReady(t, settings...)
	user = user.At(second.URL)
	known := int(shown.Load())
	total := e2e.Decode[made](t, user.Get("/v1/auth/api-keys?view=true&limit=1").Ok(t).Body).Total
	if total < known || total > known+4*count {
		t.Errorf("%d readers are there, %d were shown", total, known)
	}
	for i := range 4 {
		for n := 0; total > 0; n++ {
			path := fmt.Sprintf("/v1/auth/api-keys?name_prefix=r%d-%d-", i, n)
			got := user.Do(http.MethodDelete, path, "").Ok(t).Body
			if got == `{"revoked":0}` {
				break
			}
			if got != fmt.Sprintf(`{"revoked":%d}`, count) {
				t.Errorf("%s: %s", path, got)
			}
			total -= count
		}
	}
	if total != 0 {
		t.Errorf("%d readers are in no whole request", total)
	}
}
