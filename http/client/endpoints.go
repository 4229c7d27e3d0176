package client

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
)

// The endpoints of the API. Their types stand by subject: auth.go, signals.go, webhooks.go, work.go.

// exportSilence is how long the service may send nothing of an export.
const exportSilence = 60 * time.Second

// pollJob is the pause between two looks at a job.
const pollJob = time.Second

// Login begins a session.
func (c *Client) Login(ctx context.Context, email, password string) (*Session, error) {
	var s Session
	in := map[string]string{"email": email, "password": password}
	return &s, request{client: c, method: http.MethodPost, path: "/v1/auth/login"}.send(ctx, in, &s)
}

// Logout ends the session whose access token is the key of the client.
func (c *Client) Logout(ctx context.Context) error {
	return request{client: c, method: http.MethodPost, path: "/v1/auth/logout"}.send(ctx, nil, nil)
}

// CreateKey makes an API key. The key of the client must be an access token.
func (c *Client) CreateKey(ctx context.Context, in NewAPIKey) (*APIKey, error) {
	var k APIKey
	return &k, request{client: c, method: http.MethodPost, path: "/v1/auth/api-key"}.send(ctx, in, &k)
}

// RevokeKey ends an API key. The key of the client must be an access token.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	return request{client: c, method: http.MethodDelete, path: "/v1/auth/api-keys/" + url.PathEscape(id)}.send(ctx, nil, nil)
}

// CreateReaders makes readers, all or none, and returns them with ID, secret and name. The key of the client must be an access
// token.
func (c *Client) CreateReaders(ctx context.Context, in NewReaders) ([]APIKey, error) {
	var made struct {
		Object
		APIKeys []APIKey `json:"api_keys"`
	}
	err := request{client: c, method: http.MethodPost, path: "/v1/auth/api-keys/batch"}.send(ctx, in, &made)
	return made.APIKeys, err
}

// RevokeReaders ends the readers whose names begin with prefix, of 3 or more characters, and returns how many. The key of the
// client must be an access token.
func (c *Client) RevokeReaders(ctx context.Context, prefix string) (int, error) {
	var ended struct {
		Object
		Revoked int `json:"revoked"`
	}
	path := "/v1/auth/api-keys?name_prefix=" + url.QueryEscape(prefix)
	err := request{client: c, method: http.MethodDelete, path: path}.send(ctx, nil, &ended)
	return ended.Revoked, err
}

// Ready asks the service once whether it is ready.
func (c *Client) Ready(ctx context.Context) (*Readiness, error) {
	var r Readiness
	text, err := (&request{client: c, method: http.MethodGet, path: "/readyz"}).once(ctx, "")
	if p, ok := errors.AsType[*Problem](err); ok && p.Status >= 500 {
		if read(p.body, &r) == nil && r.Status != "" {
			return &r, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if read(text, &r) != nil || r.Status == "" {
		return nil, &ConnectError{Kind: AnotherServer, Host: c.Address.Host, Err: &Problem{Status: http.StatusOK}}
	}
	return &r, nil
}

// Account returns the account of the credential.
func (c *Client) Account(ctx context.Context) (*Account, error) {
	return get[Account](ctx, c, "/v1/account")
}

// Signals returns the signals that match, the newest first, with their state; at most limit of them if
// it is positive.
func (c *Client) Signals(ctx context.Context, q SignalQuery, limit int) iter.Seq2[*Signal, error] {
	v := q.values()
	v.Set("view", "full")
	return all(ctx, c, "/v1/signals", "signals", v, limit, func(s *Signal) string { return s.ID })
}

// Signal returns a signal with its state.
func (c *Client) Signal(ctx context.Context, id string) (*Signal, error) {
	return get[Signal](ctx, c, "/v1/signals/"+url.PathEscape(id))
}

// CloseSignal ends an open signal of an agent of the account at the next price, and returns it: closed, or after two
// seconds without a price still open.
func (c *Client) CloseSignal(ctx context.Context, id string) (*Signal, error) {
	var s Signal
	path := "/v1/signals/" + url.PathEscape(id) + "/close"
	return &s, request{client: c, method: http.MethodPost, path: path, again: true}.send(ctx, nil, &s)
}

// History returns the history of a signal.
func (c *Client) History(ctx context.Context, id string) (*History, error) {
	return get[History](ctx, c, "/v1/signals/"+url.PathEscape(id)+"/history")
}

// Export writes all signals that match to out, the newest first; the format is "csv" or "jsonl". It
// returns the number of bytes. It is repeated as long as the service has sent nothing of it.
func (c *Client) Export(ctx context.Context, q SignalQuery, format string, out io.Writer) (int64, error) {
	v := q.values()
	v.Set("format", format)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(exportSilence, cancel)
	defer silence.Stop()
	r := &request{client: c, method: http.MethodGet, path: "/v1/signals/export?" + v.Encode()}
	w, err := again(ctx, r, func() (*http.Response, error) {
		silence.Reset(exportSilence + cmp.Or(c.MaxPause, DefaultMaxPause))
		return r.open(ctx, "")
	})
	if err != nil {
		return 0, err
	}
	defer w.Body.Close()
	n, err := io.Copy(out, readerFunc(func(b []byte) (int, error) {
		silence.Reset(exportSilence)
		return w.Body.Read(b)
	}))
	if err != nil {
		return n, &ConnectError{Host: c.Address.Host, Err: err, Again: true}
	}
	return n, nil
}

// Scorecard returns the scorecard of the signals that match.
func (c *Client) Scorecard(ctx context.Context, q ScoreQuery) (*Scorecard, error) {
	s := SignalQuery{Agent: q.Agent, Strategy: q.Strategy, Asset: q.Asset, Since: q.Since}
	v := s.values()
	if q.Timeframe != "" {
		v.Set("timeframe", q.Timeframe)
	}
	return get[Scorecard](ctx, c, "/v1/scorecard?"+v.Encode())
}

// Assets returns all assets, sorted by name.
func (c *Client) Assets(ctx context.Context) ([]*Asset, error) {
	return whole[Asset](ctx, c, "/v1/assets", "assets")
}

// CreateWebhook makes a webhook.
func (c *Client) CreateWebhook(ctx context.Context, in NewWebhook) (*Webhook, error) {
	var w Webhook
	return &w, request{client: c, method: http.MethodPost, path: "/v1/webhooks", keyed: true}.send(ctx, in, &w)
}

// RemoveWebhook removes a webhook.
func (c *Client) RemoveWebhook(ctx context.Context, id string) error {
	return request{client: c, method: http.MethodDelete, path: "/v1/webhooks/" + url.PathEscape(id)}.send(ctx, nil, nil)
}

// Webhooks returns the webhooks of the account.
func (c *Client) Webhooks(ctx context.Context) iter.Seq2[*Webhook, error] {
	return all(ctx, c, "/v1/webhooks", "webhooks", nil, 0, func(w *Webhook) string { return w.ID })
}

// Delivery returns a delivery to a webhook. Its Error has a reason that lists leave out.
func (c *Client) Delivery(ctx context.Context, webhook, id string) (*Delivery, error) {
	return get[Delivery](ctx, c, "/v1/webhooks/"+url.PathEscape(webhook)+"/deliveries/"+url.PathEscape(id))
}

// Deliveries returns the deliveries with a status to a webhook, of all if one of the two is empty, the
// newest first; at most limit of them if it is positive.
func (c *Client) Deliveries(ctx context.Context, webhook, status string, limit int) iter.Seq2[*Delivery, error] {
	return all(ctx, c, "/v1/deliveries", "deliveries", values("webhook_id", webhook, "status", status), limit,
		func(d *Delivery) string { return d.ID })
}

// RetryDelivery makes one more attempt at a failed delivery at once.
func (c *Client) RetryDelivery(ctx context.Context, webhook, id string) (*Delivery, error) {
	var d Delivery
	path := "/v1/webhooks/" + url.PathEscape(webhook) + "/deliveries/" + url.PathEscape(id) + "/retry"
	return &d, request{client: c, method: http.MethodPost, path: path, keyed: true}.send(ctx, nil, &d)
}

// RetryDeliveries makes one more attempt at all failed deliveries to a webhook at once.
func (c *Client) RetryDeliveries(ctx context.Context, webhook string) (*Retried, error) {
	var r Retried
	path := "/v1/webhooks/" + url.PathEscape(webhook) + "/deliveries/retry"
	in := map[string]string{"status": "failed"}
	return &r, request{client: c, method: http.MethodPost, path: path, keyed: true}.send(ctx, in, &r)
}

// Run runs an agent and returns the signal, which is stored.
func (c *Client) Run(ctx context.Context, agent string, in RunRequest) (*Signal, error) {
	var s Signal
	return &s, runOf(c, agent).send(ctx, in, &s)
}

// Agents returns the agents of the service and those of the account.
func (c *Client) Agents(ctx context.Context) ([]*Agent, error) {
	return whole[Agent](ctx, c, "/v1/agents?limit="+strconv.Itoa(MaxPage), "agents")
}

// Agent returns an agent.
func (c *Client) Agent(ctx context.Context, id string) (*Agent, error) {
	return get[Agent](ctx, c, agentPath(id, ""))
}

// CreateAgent registers an agent of the account. The key of the client must be an access token.
func (c *Client) CreateAgent(ctx context.Context, in NewAgent) (*Agent, error) {
	var a Agent
	return &a, request{client: c, method: http.MethodPost, path: "/v1/agents"}.send(ctx, in, &a)
}

// UpdateAgent changes an agent of the account. The key of the client must be an access token.
func (c *Client) UpdateAgent(ctx context.Context, id string, in AgentChange) (*Agent, error) {
	var a Agent
	return &a, request{client: c, method: http.MethodPatch, path: agentPath(id, ""), again: true}.send(ctx, in, &a)
}

// RemoveAgent removes an agent of the account; its signals stay. The key of the client must be an access token.
func (c *Client) RemoveAgent(ctx context.Context, id string) error {
	return request{client: c, method: http.MethodDelete, path: agentPath(id, "")}.send(ctx, nil, nil)
}

// Submit submits a signal of an agent of the account and returns it, which is stored.
func (c *Client) Submit(ctx context.Context, agent string, in Submission) (*Signal, error) {
	var s Signal
	r := request{client: c, method: http.MethodPost, path: agentPath(agent, "/signals"), keyed: true}
	return &s, r.send(ctx, in, &s)
}

// StartRun is Run without waiting for the end: it returns the job.
func (c *Client) StartRun(ctx context.Context, agent string, in RunRequest) (*Job, error) {
	var j Job
	return &j, runOf(c, agent).send(ctx, struct {
		RunRequest
		Async bool `json:"async"`
	}{in, true}, &j)
}

// StartScan starts a scan and returns its job. No signal is stored.
func (c *Client) StartScan(ctx context.Context, agent string, in ScanRequest) (*Job, error) {
	var j Job
	r := request{client: c, method: http.MethodPost, path: agentPath(agent, "/scan")}
	return &j, r.send(ctx, in, &j)
}

// Job returns a job.
func (c *Client) Job(ctx context.Context, id string) (*Job, error) {
	return get[Job](ctx, c, "/v1/jobs/"+url.PathEscape(id))
}

// AwaitJob waits until a job has ended, and returns it.
func (c *Client) AwaitJob(ctx context.Context, id string) (*Job, error) {
	sleep := c.Sleep
	if sleep == nil {
		sleep = backoff.Sleep
	}
	for {
		j, err := c.Job(ctx, id)
		if err != nil || j.Ended() {
			return j, err
		}
		if !sleep(ctx, pollJob) {
			return nil, ctx.Err()
		}
	}
}

// Jobs returns the jobs with a status, all if it is empty, the newest first; at most limit of them if it
// is positive.
func (c *Client) Jobs(ctx context.Context, status string, limit int) iter.Seq2[*Job, error] {
	return all(ctx, c, "/v1/jobs", "jobs", values("status", status), limit, func(j *Job) string { return j.ID })
}

// Schedules returns the schedules of the account.
func (c *Client) Schedules(ctx context.Context) iter.Seq2[*Schedule, error] {
	return all(ctx, c, "/v1/schedules", "schedules", nil, 0, func(s *Schedule) string { return s.ID })
}

type readerFunc func([]byte) (int, error)

// Read implements io.Reader.
func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func runOf(c *Client, agent string) request {
	return request{client: c, method: http.MethodPost, path: agentPath(agent, "/run"), keyed: true}
}

func agentPath(id, below string) string { return "/v1/agents/" + url.PathEscape(id) + below }

// values returns a query without empty values.
func values(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}
