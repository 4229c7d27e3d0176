package cluster

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
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

// TestPublicRecordsOfThreeNodesOnARedisCluster: each node shows all of an account, whichever node owns it, and what it shows
// holds while the slots of the slugs and of the account move.
func TestPublicRecordsOfThreeNodesOnARedisCluster(t *testing.T) {
	t.Parallel()
	redis := redistest.NewCluster(t, 3)
	var nodes []*e2e.Service
	for range 3 {
		c := clusterConfig(t, redis.URL())
		c.Partitions, c.Record.Every = 3, configs.Duration(time.Second)
		nodes = append(nodes, e2e.Start(t, c))
	}
	e2e.Eventually(t, "each node owns a partition", func() bool {
		return !slices.ContainsFunc(nodes, func(s *e2e.Service) bool { return s.Partitions().Owned() != 1 })
	})
	type shown struct {
		user *e2e.Client
		id   signal.AccountID
		slug string
	}
	all := map[int]shown{} // an account in each partition
	for len(all) < 3 {
		user, _, _ := nodes[0].User(t)
		id := e2e.Decode[e2e.AccountJSON](t, user.Get("/v1/account").Ok(t).Body).AccountID
		p := nodes[0].Store().Client.Partition(id)
		if _, known := all[p]; known {
			continue
		}
		all[p] = shown{user, id, fmt.Sprintf("record-%d", p)}
	}
	publish := func(a shown, at int, title string) e2e.Answer {
		return a.user.At(nodes[at].URL).Do(http.MethodPut, "/v1/account/public",
			fmt.Sprintf(`{"slug":%q,"title":%q,"enabled":true,"show_open":true}`, a.slug, title))
	}
	// await waits until every node shows n signals of an account, each with its leaf.
	await := func(a shown, n int, title string) {
		t.Helper()
		publish(a, n%3, title).Ok(t)
		for i, s := range nodes {
			looks := 0
			e2e.Eventually(t, fmt.Sprintf("node %d shows %d signals at %s", i, n, a.slug), func() bool {
				looks++ // a page is kept for a minute, unless its title changes
				publish(a, i, fmt.Sprintf("%s %d", title, looks)).Ok(t)
				got := e2e.Decode[struct {
					Account signal.AccountID `json:"account_id"`
					Totals  struct{ Created int }
					Open    []struct {
						Signal struct {
							ID string `json:"signal_id"`
						}
						Created *verify.Leaf
					} `json:"open_signals"`
				}](t, s.Client(t).Get("/r/"+a.slug+".json").Ok(t).Body)
				if got.Account != a.id {
					t.Fatalf("the record of %s at the slug of %s", got.Account, a.id)
				}
				if got.Totals.Created != n || len(got.Open) != n {
					return false
				}
				for _, x := range got.Open {
					if x.Created == nil || !strings.Contains(string(x.Created.Text), x.Signal.ID) {
						t.Fatalf("node %d: signal %s has the leaf %v", i, x.Signal.ID, x.Created)
					}
				}
				return true
			})
		}
	}
	for _, a := range all {
		nodes[0].OwnSignal(t, a.id)
		await(a, 1, "First")
	}
	k := nodes[0].Store().Client
	redis.Move(k.SlugsKey())
	redis.Move(k.EventsKey(1))
	for _, a := range all {
		nodes[1].OwnSignal(t, a.id)
		await(a, 2, "Moved")
	}

	other, _, _ := nodes[2].User(t)
	taken := shown{user: other, slug: all[0].slug}
	publish(taken, 2, "x").Fails(t, "slug_taken")
	e2e.Must(t, nodes[1].Credentials().Accounts.DeleteAccount(t.Context(), all[0].id))
	for i, s := range nodes {
		e2e.Eventually(t, fmt.Sprintf("node %d says that the record is gone", i), func() bool {
			return s.Client(t).Get("/r/"+all[0].slug).Status == http.StatusGone
		})
	}
	publish(taken, 0, "x").Fails(t, "slug_taken")
}
