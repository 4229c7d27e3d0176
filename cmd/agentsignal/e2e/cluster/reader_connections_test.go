package cluster

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// TestConnectionsOfAReaderOnThreeNodes count together, against its max_connections and in the list of readers.
func TestConnectionsOfAReaderOnThreeNodes(t *testing.T) {
	t.Parallel()
	redis := redistest.NewCluster(t, 3)
	var nodes []*e2e.Service
	for range 3 {
		c := clusterConfig(t, redis.URL())
		c.Auth.Registration = "open"
		nodes = append(nodes, e2e.Start(t, c))
	}
	user, _, _ := nodes[0].User(t)
	made := e2e.Decode[struct {
		Secret string `json:"api_key"`
	}](t, user.Post("/v1/auth/api-key", `{"name":"ann","view":{},"max_connections":2}`).Want(t, http.StatusCreated).Body)
	reader := func(n int) *e2e.Client { return user.With(made.Secret).At(nodes[n].URL) }
	listed := func(want int) {
		t.Helper()
		e2e.Eventually(t, fmt.Sprintf("each node lists %d connections", want), func() bool {
			for _, n := range nodes {
				list := e2e.Decode[struct {
					APIKeys []struct{ Connections int } `json:"api_keys"`
				}](t, user.At(n.URL).Get("/v1/auth/api-keys?view=true").Ok(t).Body)
				if len(list.APIKeys) != 1 || list.APIKeys[0].Connections != want {
					return false
				}
			}
			return true
		})
	}
	refused := func(n int) {
		t.Helper()
		_, answer, err := reader(n).TryDial(http.Header{})
		if err == nil || answer.StatusCode != http.StatusTooManyRequests {
			t.Errorf("node %d admits one connection more: %v", n, err)
		}
	}
	first := reader(0).Dial()
	reader(1).Dial()
	listed(2)
	for n := range nodes {
		refused(n)
	}
	first.WS.Close()
	listed(1)
	reader(2).Dial()
	listed(2)
	refused(0)

	nodes[1].Stop(t)
	nodes = []*e2e.Service{nodes[0], nodes[2]}
	listed(1)
	reader(0).Dial()
}
