package cluster

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// TestAnAskedJobIsTakenOver: the node that takes a job over asks again under the same id, and the reply becomes the one
// signal of the job.
func TestAnAskedJobIsTakenOver(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	c := clusterConfig(t, redis.URL())
	c.Market.Source, c.Auth.Registration, c.Lease = "stream", "open", configs.Duration(6*time.Second)
	c.Webhooks.AllowedNetworks = []string{e2e.Loopback}
	first := e2e.LaunchReady(t, e2e.ChildSettings(t, redis.URL(), "CLUSTER=true", "AUTH_JWT_KEYS="+e2e.SharedKeys,
		"SECURITY_ENCRYPTION_KEYS="+e2e.SharedKeys, "SECURITY_RECORD_KEYS="+e2e.SharedRecordKey(t), "LEASE=6s",
		"MARKET_SOURCE=stream", "AUTH_REGISTRATION=open", "WEBHOOKS_ALLOWED_NETWORKS="+e2e.Loopback)...)
	var asked atomic.Int64
	agent := e2e.NewHookEndpoint(t, func(w http.ResponseWriter, a e2e.HookRequest) {
		if asked.Add(1) == 1 {
			<-a.Ctx.Done() // the node that asks is killed
			return
		}
		io.WriteString(w, `{"content":"a text"}`)
	})
	public, email := first.Client(t), e2e.NewEmail()
	public.Post("/v1/auth/register", e2e.CredentialsBody(email, e2e.Password)).Want(t, http.StatusCreated)
	here := public.With(public.Login(email, e2e.Password).Access)
	here.Post("/v1/agents", `{"id":"my_texts","name":"Texts","category":"content","strategies":["notes"],"endpoint":{"url":"`+
		agent.URL+`"}}`).Want(t, http.StatusCreated)
	run := here.Post("/v1/agents/my_texts/run", e2e.RunBody("desks", "notes", `"async":true`)).Ok(t)
	job := e2e.Decode[e2e.WireJob](t, run.Body)
	agent.Await(t, 1)

	there := here.At(e2e.Start(t, c).URL) // it comes after the job was taken, and lives when the other one dies
	first.Kill()
	ended := there.Completed(job.ID)
	all := agent.Got()
	if len(all) != 2 || all[0].Event() != job.Run || all[1].Event() != job.Run || all[0].Body != all[1].Body {
		t.Errorf("run %s was asked %d times: %.300v", job.Run, len(all), all)
	}
	if a := there.Get("/v1/signals/" + ended.Signal.ID).Ok(t); !strings.Contains(a.Body, "a text") {
		t.Error(a.Body)
	}
	there.Lists("", 1, ended.Signal.ID)
}
