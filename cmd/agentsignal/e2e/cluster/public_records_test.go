package cluster

import (
	"net/http"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// TestPublicRecordsOnEveryNode: what one node changes, the other shows, or no longer shows.
func TestPublicRecordsOnEveryNode(t *testing.T) {
	t.Parallel()
	n := e2e.StartNodes(t, "stream")
	there, _, _ := n.Second.User(t)
	here := there.At(n.First.URL)
	account := e2e.Decode[e2e.AccountJSON](t, there.Get("/v1/account").Ok(t).Body).AccountID
	nodes := map[string]*e2e.Client{"the first node": here.With(""), "the second node": there.With("")}
	set := func(by *e2e.Client, members string) {
		t.Helper()
		by.Do(http.MethodPut, "/v1/account/public", `{"title":"Record",`+members+`}`).Ok(t)
	}
	await := func(slug string, status int) {
		t.Helper()
		for name, node := range nodes {
			for _, path := range []string{"/r/" + slug, "/r/" + slug + ".json", "/r/" + slug + "/badge.svg", "/r/" + slug +
				"/feed.xml"} {
				e2e.Eventually(t, name+" answers as it should for "+path, func() bool { return node.Get(path).Status == status })
			}
		}
	}
	await("my-record", 404)
	set(here, `"slug":"my-record","enabled":true`)
	await("my-record", 200)
	for name, node := range nodes {
		if body := node.Get("/r/my-record.json").Ok(t).Body; !strings.Contains(body, `"account_id":"`+string(account)+`"`) {
			t.Errorf("%s shows %s", name, body)
		}
	}
	set(there, `"slug":"my-record","enabled":false`)
	await("my-record", 404)
	set(there, `"slug":"my-record","enabled":true`)
	await("my-record", 200)
	set(here, `"slug":"other-record","enabled":true`)
	await("other-record", 200)
	await("my-record", 410)
	e2e.Must(t, n.Second.Credentials().Accounts.DeleteAccount(t.Context(), account))
	await("other-record", 410)

	// A killed node has not lost what was acknowledged.
	again, _, _ := n.Second.User(t)
	set(again.At(n.First.URL), `"slug":"third-record","enabled":true`)
	n.First.Kill()
	delete(nodes, "the first node")
	await("third-record", 200)
	again.Do(http.MethodPut, "/v1/account/public", `{"slug":"my-record","title":"x"}`).Fails(t, "slug_taken")
}
