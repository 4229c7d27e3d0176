package durability

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// TestAnAskedJobSurvivesKillNine: another process asks again under the same id, and the reply becomes the signal.
func TestAnAskedJobSurvivesKillNine(t *testing.T) {
	t.Parallel()
	redis := redistest.NewDurable(t)
	settings := e2e.ChildSettings(t, redis.URL(), "AUTH_REGISTRATION=open", "LEASE=6s",
		"WEBHOOKS_ALLOWED_NETWORKS="+e2e.Loopback)
	var asked atomic.Int64
	agent := e2e.NewHookEndpoint(t, func(w http.ResponseWriter, a e2e.HookRequest) {
		if asked.Add(1) == 1 {
			<-a.Ctx.Done() // the process that asks is killed
			return
		}
		io.WriteString(w, `{"content":"a text"}`)
	})
	first := e2e.LaunchReady(t, settings...)
	public, email := first.Client(t), e2e.NewEmail()
	public.Post("/v1/auth/register", e2e.CredentialsBody(email, e2e.Password)).Want(t, http.StatusCreated)
	ada := public.With(public.Login(email, e2e.Password).Access)
	ada.Post("/v1/agents", `{"id":"my_texts","name":"Texts","category":"content","strategies":["notes"],"endpoint":{"url":"`+
		agent.URL+`"}}`).Want(t, http.StatusCreated)
	run := ada.Post("/v1/agents/my_texts/run", e2e.RunBody("desks", "notes", `"async":true`)).Ok(t)
	job := e2e.Decode[e2e.WireJob](t, run.Body)
	agent.Await(t, 1)
	first.Kill()

	second := e2e.LaunchReady(t, settings...)
	ada = ada.At(second.URL)
	ended := ada.Completed(job.ID)
	all := agent.Got()
	if len(all) != 2 || all[0].Event() != job.Run || all[1].Event() != job.Run || all[0].Body != all[1].Body {
		t.Errorf("run %s was asked %d times: %.300v", job.Run, len(all), all)
	}
	if a := ada.Get("/v1/signals/" + ended.Signal.ID).Ok(t); !strings.Contains(a.Body, "a text") {
		t.Error(a.Body)
	}
	ada.Lists("", 1, ended.Signal.ID)
}
