package console

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"go.yaml.in/yaml/v3"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/configs"
)

//go:embed testdata/docs/page.js
var docsScript string

// notTried are the operations that cannot succeed with the values filled in by the page.
var notTried = map[string]string{
	"openStream":       "a page cannot upgrade a connection by fetch",
	"openStreamAtRoot": "a page cannot upgrade a connection by fetch",
	"openEventStream":  "its answer has no end",
	"refresh":          "the token is the reader's own",
	"changePassword":   "the password is the reader's own",
	"countersign":      "the reader is not a witness",
	"mcp":              "pages are refused",
}

// "Try it out" and "Execute" succeed for every operation, with an id of the reader where
// necessary; every example on the page is visible; and the operation that a link opens has the
// parameters of its path.
func TestDocsPage(t *testing.T) {
	t.Parallel()
	hooks := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(hooks.Close)
	config := e2e.SigningConfig(t, "")
	config.Market.Source, config.Auth.Registration = "simulated", "open"
	config.Webhooks.AllowedNetworks, config.Webhooks.AllowHTTP = []string{"127.0.0.0/8"}, true
	config.Audit.Every = configs.Duration(time.Second)
	s := e2e.Start(t, config)
	s.AwaitPrices(t, "BTC", signal.H1) // on busy cores the market takes longer than the page waits
	s.AwaitPrices(t, "natural_gas", signal.D1)
	owner, account := s.Account(t)
	owner = owner.With(owner.Login(account.Email, e2e.Password).Access)
	owner.Await("/v1/audit", http.StatusOK)
	page := newBrowser(t, s.URL+"/docs#/Agents/getAgent", 1280)
	evaluate[any](t, page, docsScript)
	evaluate[any](t, page, fmt.Sprintf(`window.opened = until("the linked operation has the parameter of its path",
		() => document.querySelector('.opblock[id$="-getAgent"] tr[data-param-name="id"]'))
		.then((row) => {
			row.closest(".opblock").querySelector(".opblock-summary-control").click();
			ui.preauthorizeApiKey("bearer", %q);
		})`, owner.Token))
	texts, faint := 0, make(map[string]bool)
	for _, operation := range operations(t) {
		if notTried[operation] != "" {
			continue
		}
		values := e2e.JsonOf(t, valuesFor(owner, hooks.URL, operation))
		// The page keeps the promise: the browser may collect one that only the test waits for.
		got := evaluate[attempt](t, page, fmt.Sprintf("window.tried = attempt(%q, %s)", operation, values))
		if got.Status < 200 || got.Status > 299 {
			t.Errorf("the first try of %s with %s is answered with %d %s", operation, values, got.Status, got.Body)
		}
		texts += got.Texts
		for _, text := range got.Faint {
			faint[text] = true
		}
		if operation == "createWebhook" { // the host of its example belongs to others
			id := e2e.Decode[struct {
				ID string `json:"webhook_id"`
			}](t, got.Body).ID
			owner.Do(http.MethodDelete, "/v1/webhooks/"+id, "").Want(t, http.StatusNoContent)
		}
	}
	if texts < 1000 {
		t.Errorf("only %d texts of examples were found", texts)
	}
	for text := range faint {
		t.Errorf("hard to read: %s", text)
	}
}

// attempt is what attempt in page.js returns.
type attempt struct {
	Status int      `json:"status"`
	Body   string   `json:"body"`
	Texts  int      `json:"texts"`
	Faint  []string `json:"faint"`
}

// The button Authorize asks for one thing, whose field is visible and focused; and a narrow
// page does not scroll sideways.
func TestDocsPageAuthorize(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	c, _ := s.Account(t)
	page := newBrowser(t, s.URL+"/docs", 390)
	evaluate[any](t, page, docsScript)
	box := evaluate[struct {
		Schemes int  `json:"schemes"`
		Focused bool `json:"focused"`
		InSight bool `json:"inSight"`
		Wide    bool `json:"wide"`
	}](t, page, "authorize()")
	if box.Schemes != 1 || !box.Focused || !box.InSight || box.Wide {
		t.Errorf("the box is %+v", box)
	}
	got := evaluate[attempt](t, page, fmt.Sprintf("submit(%q).then(() => attempt('getAccount', {}))", c.Token))
	if got.Status != http.StatusOK {
		t.Errorf("with the key of the box the account is answered with %d %s", got.Status, got.Body)
	}
}

// valuesFor returns the values of those parameters of an operation that only a reader
// knows, and makes what they name.
func valuesFor(c *e2e.Client, hooks, operation string) map[string]string {
	c.TB.Helper()
	made := func(method, path, body, id string) string {
		a := c.Do(method, path, body)
		if a.Status > 299 {
			c.TB.Fatalf("%s %s: %d %s", method, path, a.Status, a.Body)
		}
		value, _ := e2e.Decode[map[string]any](c.TB, a.Body)[id].(string)
		return value
	}
	webhook := func() string {
		return made("POST", "/v1/webhooks", fmt.Sprintf(`{"url":"%s/%s","events":["webhook.test"]}`, hooks, operation),
			"webhook_id")
	}
	agent := func() string {
		return made("POST", "/v1/agents", `{"id":"`+strings.ToLower(operation)+
			`","name":"Mine","category":"trading","strategies":["cross"]}`, "id")
	}
	switch operation {
	case "updateAgent", "deleteAgent", "submitSignal", "createIntake", "listIntakes":
		return map[string]string{"id": agent()}
	case "deleteIntake", "listIntakeRequests":
		id := agent()
		return map[string]string{"id": id, "intake_id": made("POST", "/v1/agents/"+id+"/intakes", "", "intake_id")}
	case "sendAlert":
		return map[string]string{"token": made("POST", "/v1/agents/"+agent()+"/intakes", "", "token")}
	case "closeSignal":
		return map[string]string{"id": made("POST", "/v1/agents/"+agent()+"/signals",
			`{"asset":"BTC","strategy":"cross","direction":"long"}`, "signal_id")}
	case "getSignal", "getSignalHistory":
		return map[string]string{"id": c.Run("BTC", "momentum").ID}
	case "getSignalProof":
		id := c.Run("BTC", "momentum").ID
		c.Proof(id) // once it is signed
		return map[string]string{"id": id}
	case "getPublicRecordPage", "getPublicRecord", "getPublicRecordBadge", "getPublicRecordFeed", "getPublicProof":
		slug := strings.ToLower(operation)
		values := map[string]string{"slug": slug}
		if operation == "getPublicProof" {
			values["signal_id"] = c.Run("BTC", "momentum").ID
			c.Proof(values["signal_id"]) // once it is signed
		}
		c.Do(http.MethodPut, "/v1/account/public",
			`{"slug":"`+slug+`","title":"Record","enabled":true,"show_open":true}`).Ok(c.TB)
		return values
	case "getConsistency":
		return map[string]string{"from": strconv.FormatInt(c.Checkpoint().Root.N, 10)}
	case "getTile":
		leaf := c.Proof(c.Run("BTC", "momentum").ID).Created
		return map[string]string{"log": strconv.Itoa(leaf.Log), "path": "8/0/000.p/1"}
	case "getPublicLeaves":
		leaf := c.Proof(c.Run("BTC", "momentum").ID).Created
		return map[string]string{"log": strconv.Itoa(leaf.Log), "path": "0/000.p/1"}
	case "getWeatherSignal":
		id := made("POST", "/v1/agents/weather/run", e2e.RunBody("natural_gas", "energy_demand"), "signal_id")
		return map[string]string{"id": "w" + id}
	case "getJob":
		return map[string]string{"id": c.Submit("BTC", "momentum").ID}
	case "getSchedule", "changeSchedule", "removeSchedule":
		return map[string]string{"id": made("POST", "/v1/schedules",
			`{"agent_id":"trading","assets":["BTC"],"strategy":"momentum","every":"1440m"}`, "schedule_id")}
	case "getWebhook", "changeWebhook", "removeWebhook", "rotateSecret", "testWebhook", "listDeliveries",
		"retryDeliveries", "cancelDeliveries":
		return map[string]string{"id": webhook()}
	case "getDelivery", "retryDelivery", "cancelDelivery":
		id := webhook()
		delivery := made("POST", "/v1/webhooks/"+id+"/test", "", "delivery_id")
		if operation == "retryDelivery" {
			made("POST", "/v1/webhooks/"+id+"/deliveries/"+delivery+"/cancel", "", "")
		}
		return map[string]string{"id": id, "delivery_id": delivery}
	case "revokeApiKey":
		return map[string]string{"key_id": c.Key("revoked", "").ID}
	default:
		return map[string]string{}
	}
}

// newBrowser opens a page in a Chromium that ends with the test.
func newBrowser(t *testing.T, url string, width int64) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("chromium is needed for this test: install the package chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path),
		chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true))
	ctx, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	ctx, end = chromedp.NewContext(ctx)
	t.Cleanup(end)
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, 900), chromedp.Navigate(url)); err != nil {
		t.Fatalf("open %s: %v", url, err)
	}
	return ctx
}

// evaluate returns the value of an expression in the page.
func evaluate[T any](t *testing.T, page context.Context, expression string) T {
	t.Helper()
	v, err := chromedp.Run(page, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise, chromedp.EvalAsValue))
	if err != nil {
		t.Fatalf("%.200s: %v", expression, err)
	}
	return v
}

// operations returns the operation ids of the description in its order, but for login, which
// needs an account, and logout, which ends the session of the page. Those of the service
// itself are left out: they ask for nothing, and the page takes long to colour what they
// answer.
func operations(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(e2e.OpenAPIFile)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Paths yaml.Node }
	e2e.Must(t, yaml.Unmarshal(text, &doc))
	var ids []string
	for i := 1; i < len(doc.Paths.Content); i += 2 {
		var item map[string]yaml.Node
		e2e.Must(t, doc.Paths.Content[i].Decode(&item))
		for _, method := range []string{"get", "post", "put", "patch", "delete"} {
			var operation struct {
				ID   string `yaml:"operationId"`
				Tags []string
			}
			if node, ok := item[method]; ok {
				e2e.Must(t, node.Decode(&operation))
				if !slices.Contains(operation.Tags, "Service") {
					ids = append(ids, operation.ID)
				}
			}
		}
	}
	if len(ids) < 40 {
		t.Fatalf("%d operations were found", len(ids))
	}
	for _, late := range []string{"login", "logout"} {
		ids = append(slices.DeleteFunc(ids, func(id string) bool { return id == late }), late)
	}
	return ids
}
