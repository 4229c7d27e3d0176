package operations

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// described has all metrics of this version, with their kind, labels and buckets, and two of those of Go and the
// process. With TLS there is agentsignal_tls_certificate_expiry_timestamp_seconds besides.
var described = []struct{ name, kind, labels, buckets string }{
	{"agentsignal_build_info", "GAUGE", "commit goversion version", ""},
	{"agentsignal_ready", "GAUGE", "", ""},
	{"agentsignal_panics_total", "COUNTER", "where", ""},
	{"agentsignal_log_lines_total", "COUNTER", "level", ""},
	{"agentsignal_audit_differences_total", "COUNTER", "kind", ""},
	{"agentsignal_audit_last_run_timestamp_seconds", "GAUGE", "", ""},
	{"agentsignal_audit_due_timestamp_seconds", "GAUGE", "", ""},
	{"agentsignal_http_requests_total", "COUNTER", "code method route", ""},
	{"agentsignal_http_request_duration_seconds", "HISTOGRAM", "method route",
		".001 .0025 .005 .01 .025 .05 .1 .25 .5 1 2.5 5 10 30"},
	{"agentsignal_http_requests_in_flight", "GAUGE", "", ""},
	{"agentsignal_http_rate_limited_total", "COUNTER", "class", ""},
	{"agentsignal_http_connections_refused_total", "COUNTER", "", ""},
	{"agentsignal_public_record_requests_total", "COUNTER", "cache", ""},
	{"agentsignal_auth_failures_total", "COUNTER", "reason", ""},
	{"agentsignal_auth_locks_total", "COUNTER", "", ""},
	{"agentsignal_reader_views", "GAUGE", "", ""},
	{"agentsignal_ws_connections", "GAUGE", "", ""},
	{"agentsignal_sse_connections", "GAUGE", "", ""},
	{"agentsignal_ws_subscriptions", "GAUGE", "channel", ""},
	{"agentsignal_ws_connects_total", "COUNTER", "result", ""},
	{"agentsignal_ws_disconnects_total", "COUNTER", "code", ""},
	{"agentsignal_ws_resumes_total", "COUNTER", "result", ""},
	{"agentsignal_ws_messages_sent_total", "COUNTER", "channel", ""},
	{"agentsignal_ws_sent_bytes_total", "COUNTER", "", ""},
	{"agentsignal_ws_delivery_lag_seconds", "HISTOGRAM", "", ".001 .0025 .005 .01 .025 .05 .1 .25 .5 1 2.5 5 10"},
	{"agentsignal_ws_reader_connections", "GAUGE", "", ""},
	{"agentsignal_ws_reader_refusals_total", "COUNTER", "reason", ""},
	{"agentsignal_actor_running", "GAUGE", "kind", ""},
	{"agentsignal_actor_mailbox_messages", "GAUGE", "kind", ""},
	{"agentsignal_actor_messages_total", "COUNTER", "kind", ""},
	{"agentsignal_actor_restarts_total", "COUNTER", "kind", ""},
	{"agentsignal_actor_dead_letters_total", "COUNTER", "kind", ""},
	{"agentsignal_actor_receive_duration_seconds", "HISTOGRAM", "kind", ".00001 .0001 .001 .01 .1 1"},
	{"agentsignal_runs_total", "COUNTER", "agent result strategy", ""},
	{"agentsignal_run_errors_total", "COUNTER", "agent error_code", ""},
	{"agentsignal_run_duration_seconds", "HISTOGRAM", "agent", ".01 .05 .1 .25 .5 1 2.5 5 10 30"},
	{"agentsignal_runs_in_flight", "GAUGE", "agent", ""},
	{"agentsignal_agent_asks_total", "COUNTER", "result", ""},
	{"agentsignal_agents_paused", "GAUGE", "", ""},
	{"agentsignal_scheduled_runs_total", "COUNTER", "result", ""},
	{"agentsignal_jobs_waiting", "GAUGE", "", ""},
	{"agentsignal_job_wait_seconds", "HISTOGRAM", "", ".01 .1 .5 1 5 15 60 300"},
	{"agentsignal_signals_created_total", "COUNTER", "agent direction", ""},
	{"agentsignal_signals_closed_total", "COUNTER", "agent close_reason", ""},
	{"agentsignal_signals_open", "GAUGE", "agent", ""},
	{"agentsignal_record_leaves_total", "COUNTER", "", ""},
	{"agentsignal_record_checkpoint_age_seconds", "GAUGE", "", ""},
	{"agentsignal_webhook_attempts_total", "COUNTER", "result", ""},
	{"agentsignal_webhook_attempt_duration_seconds", "HISTOGRAM", "result", ".01 .05 .1 .25 .5 1 2.5 5 10"},
	{"agentsignal_webhook_deliveries_total", "COUNTER", "status", ""},
	{"agentsignal_webhook_deliveries_dropped_total", "COUNTER", "", ""},
	{"agentsignal_webhook_pending_deliveries", "GAUGE", "", ""},
	{"agentsignal_webhook_due_lag_seconds", "GAUGE", "", ""},
	{"agentsignal_webhooks", "GAUGE", "status", ""},
	{"agentsignal_webhooks_held", "GAUGE", "", ""},
	{"agentsignal_webhook_disabled_total", "COUNTER", "reason", ""},
	{"agentsignal_emails_total", "COUNTER", "result", ""},
	{"agentsignal_stream_length", "GAUGE", "group stream", ""},
	{"agentsignal_stream_lag_messages", "GAUGE", "group stream", ""},
	{"agentsignal_stream_oldest_pending_seconds", "GAUGE", "group stream", ""},
	{"agentsignal_stream_reclaimed_total", "COUNTER", "group stream", ""},
	{"agentsignal_redis_command_duration_seconds", "HISTOGRAM", "command", ".0001 .0005 .001 .005 .01 .05 .1 .5 1"},
	{"agentsignal_redis_errors_total", "COUNTER", "command", ""},
	{"agentsignal_redis_unconfirmed_total", "COUNTER", "", ""},
	{"agentsignal_redis_degraded", "GAUGE", "", ""},
	{"agentsignal_redis_bytes", "GAUGE", "partition", ""},
	{"agentsignal_redis_pool_connections", "GAUGE", "state", ""},
	{"agentsignal_redis_pool_timeouts_total", "COUNTER", "", ""},
	{"agentsignal_live_nodes", "GAUGE", "", ""},
	{"agentsignal_partitions", "GAUGE", "", ""},
	{"agentsignal_partitions_followed", "GAUGE", "reason", ""},
	{"agentsignal_partition_owned", "GAUGE", "partition", ""},
	{"agentsignal_partition_epoch", "GAUGE", "partition", ""},
	{"agentsignal_partition_owned_timestamp_seconds", "GAUGE", "partition", ""},
	{"agentsignal_partition_lag_seconds", "GAUGE", "partition", ""},
	{"agentsignal_market_feeding", "GAUGE", "", ""},
	{"agentsignal_market_ticks_total", "COUNTER", "", ""},
	{"agentsignal_market_entries_skipped_total", "COUNTER", "reason", ""},
	{"agentsignal_market_stream_restarts_total", "COUNTER", "stream", ""},
	{"agentsignal_market_news_skipped_total", "COUNTER", "reason source", ""},
	{"agentsignal_market_source_requests_total", "COUNTER", "result source", ""},
	{"agentsignal_market_source_failures_total", "COUNTER", "source", ""},
	{"agentsignal_weather_source_requests_total", "COUNTER", "result source", ""},
	{"agentsignal_weather_points_missing_total", "COUNTER", "reason source", ""},
	{"go_goroutines", "GAUGE", "", ""},
	{"process_open_fds", "GAUGE", "", ""},
}

// maxSeries is the maximum number of series of a process.
const maxSeries = 3000

func TestMetricsAreThoseDocumented(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	c := e2e.TestConfig(t, redis.URL())
	c.Auth.Registration, c.Auth.LockAfter = "open", 2
	s := e2e.Start(t, c)
	// Before the first event, so that a rate sees it.
	fresh := s.Client(t).Get("/metrics").Ok(t).Body
	for _, m := range described {
		if m.kind == "COUNTER" && m.name != "agentsignal_http_requests_total" && !strings.Contains(fresh, "\n"+m.name) {
			t.Errorf("%s is not there before the first event", m.name)
		}
	}
	secrets := exercise(t, s, e2e.NewMarket(t, redis.Client()))

	e2e.Eventually(t, "the streams are measured", func() bool {
		return s.Metric(t, "agentsignal_stream_length", `stream="events"`) > 0
	})
	families, err := s.Metrics().Gather()
	e2e.Must(t, err)
	var names, seriesNames []string // no series has the name of a histogram
	for _, f := range families {
		name := f.GetName()
		names = append(names, name)
		if f.GetType().String() == "HISTOGRAM" {
			seriesNames = append(seriesNames, name+"_bucket", name+"_sum", name+"_count")
		} else {
			seriesNames = append(seriesNames, name)
		}
	}
	known := map[string]bool{}
	for _, m := range described {
		known[m.name] = true
	}
	for _, name := range names {
		if strings.HasPrefix(name, "agentsignal_") && !known[name] {
			t.Errorf("%s is not described", name)
		}
	}
	for _, m := range described {
		i := slices.Index(names, m.name)
		if i < 0 {
			t.Errorf("%s is not there", m.name)
			continue
		}
		f := families[i]
		if f.GetType().String() != m.kind || f.GetHelp() == "" {
			t.Errorf("%s is a %s, help %q, want a %s", m.name, f.GetType(), f.GetHelp(), m.kind)
		}
		for _, series := range f.GetMetric() {
			var labels, buckets []string
			for _, l := range series.GetLabel() {
				labels = append(labels, l.GetName())
			}
			slices.Sort(labels)
			if got := strings.Join(labels, " "); got != m.labels {
				t.Errorf("%s has the labels %q, want %q", m.name, got, m.labels)
			}
			for _, b := range series.GetHistogram().GetBucket() {
				buckets = append(buckets, strings.TrimPrefix(strconv.FormatFloat(b.GetUpperBound(), 'f', -1, 64), "0"))
			}
			if got := strings.Join(buckets, " "); got != m.buckets {
				t.Errorf("%s has the buckets %q, want %q", m.name, got, m.buckets)
			}
		}
	}
	text := s.Client(t).Get("/metrics").Ok(t).Body
	checkCardinality(t, text, secrets)
	if problems, err := testutil.GatherAndLint(s.Metrics()); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	if tool, err := exec.LookPath("promtool"); err == nil {
		check := exec.Command(tool, "check", "metrics")
		check.Stdin = strings.NewReader(text)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("promtool: %v\n%s", err, out)
		}
	}
	checkCounts(t, text)
	checkRules(t, seriesNames)
	checkBoard(t, seriesNames)
}

// identifiers matches texts that no label may contain.
var identifiers = regexp.MustCompile(
	`(acc|key|sig|wsig|run|job|evt|whk|dlv|ses|req|con|ask|rt|node)_[0-9A-Za-z]{16,}|` +
		`[0-9A-HJKMNP-TV-Z]{26}|@|[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+:|\.sock`)

// checkCardinality fails the test if there are too many series, or labels that could
// be without bound.
func checkCardinality(t *testing.T, text string, secrets []string) {
	t.Helper()
	series := 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		series++
		labels, _, _ := strings.Cut(line, "} ")
		labels = strings.ReplaceAll(labels, "/rotate-secret", "") // part of a template
		if strings.HasPrefix(line, "agentsignal_build_info") || !strings.Contains(line, "} ") {
			continue
		}
		if found := identifiers.FindString(labels); found != "" {
			t.Errorf("a label holds %q: %s", found, line)
		}
		for _, secret := range secrets {
			if strings.Contains(labels, secret) {
				t.Errorf("a label holds what a client sent: %s", line)
			}
		}
	}
	if series >= maxSeries {
		t.Errorf("%d series, want fewer than %d", series, maxSeries)
	}
	t.Logf("%d series", series)
}

// checkCounts compares some counts with what exercise has done.
func checkCounts(t *testing.T, text string) {
	t.Helper()
	for _, count := range []struct {
		at     float64 // least
		name   string
		labels []string
	}{
		{4, "agentsignal_runs_total", []string{`agent="trading"`, `result="completed"`}},
		{1, "agentsignal_run_errors_total", []string{`agent="weather"`, `error_code="DATA_UNAVAILABLE"`}},
		{4, "agentsignal_signals_created_total", []string{`agent="trading"`}},
		{1, "agentsignal_ws_messages_sent_total", []string{`channel="signal.new"`}},
		{1, "agentsignal_ws_resumes_total", []string{`result="complete"`}},
		{1, "agentsignal_ws_resumes_total", []string{`result="incomplete"`}},
		{1, "agentsignal_ws_disconnects_total", []string{`code="1003"`}},
		{1, "agentsignal_sse_connections", nil},
		{1, "agentsignal_ws_connects_total", []string{`result="ok"`}},
		{1, "agentsignal_auth_failures_total", []string{`reason="unknown_key"`}},
		{1, "agentsignal_auth_locks_total", nil},
		{1, "agentsignal_actor_running", []string{`kind="partition"`}},
		{1, "agentsignal_actor_messages_total", []string{`kind="agent"`}},
		{1, "agentsignal_http_requests_total", []string{`route="unmatched"`, `code="404"`}},
		{1, "agentsignal_http_requests_total", []string{`route="/v1/signals"`, `method="other"`, `code="405"`}},
		{1, "agentsignal_http_requests_total", []string{`route="/v1/signals/{id}"`, `method="GET"`, `code="404"`}},
		{1, "agentsignal_job_wait_seconds_count", nil},
		{1, "agentsignal_ws_delivery_lag_seconds_count", nil},
		{1, "agentsignal_redis_pool_connections", nil},
		{1, "agentsignal_ready", nil},
		{1, "agentsignal_log_lines_total", []string{`level="info"`}},
		{1, "agentsignal_live_nodes", nil},
		{16, "agentsignal_partitions", nil},
		{16, "agentsignal_partition_owned", nil},
		{1, "agentsignal_partition_epoch", []string{`partition="15"`}},
		{1, "agentsignal_partition_owned_timestamp_seconds", []string{`partition="0"`}},
		{0, "agentsignal_partition_lag_seconds", []string{`partition="0"`}},
		{1, "agentsignal_market_feeding", nil},
	} {
		if got := e2e.MetricOf(text, count.name, count.labels...); got < count.at {
			t.Errorf("%s%v is %v, want at least %v", count.name, count.labels, got, count.at)
		}
	}
}

// exercise uses every route and all that is counted, and sends invalid requests. It returns
// texts that must not occur in labels.
func exercise(t *testing.T, s *e2e.Service, prices e2e.Pricer) []string {
	t.Helper()
	prices.Open("SECRETASSET", "101.25")
	s.AwaitPrices(t, "SECRETASSET", signal.H1)
	trader, account := s.Account(t)
	public := s.Client(t)
	user := public.With(public.Login(account.Email, e2e.Password).Access)
	live := trader.Dial()
	trader.Events("").Await("a welcome", func(m e2e.Message) bool { return m.Type == "welcome" })
	var ids []string
	for _, name := range []string{"momentum", "mean_reversion", "breakout"} {
		ids = append(ids, trader.Run("SECRETASSET", name).ID)
	}
	job := trader.AwaitJob(trader.Submit("SECRETASSET", "momentum").ID)
	trader.Post("/v1/agents/weather/run", e2e.RunBody("wheat", "agriculture")).Want(t, http.StatusInternalServerError)
	trader.Post("/v1/agents/seo/run", e2e.RunBody("secretsubject", "blog_post")).Ok(t)
	for range 3 {
		public.TryLogin("secretmail@example.com", "secretpassword")
	}
	live.Until("the signals", func(all []e2e.Message) bool { return len(e2e.SignalsOf(all)) == 5 })
	live.Subscribe(`"last_event_id":"` + live.Last() + `"`)
	live.Subscribe(`"last_event_id":"5-5"`)
	live.SendRaw(websocket.BinaryMessage, "x")
	live.Closing()

	fill := strings.NewReplacer("{id}", "secretid", "{key_id}", "secretkey", "{delivery_id}",
		"secretdelivery", "{code}", "secretcode", "{file}", "secretfile")
	for _, route := range s.Server().Routes() {
		_, template, _ := strings.Cut(route, " ")
		for _, who := range []*e2e.Client{public, trader, user, public.With(e2e.UnknownKey()), public.With("secrettoken")} {
			if template == "/v1/auth/logout" && who == user {
				continue // at the end
			}
			methods := []string{"GET", "POST", "DELETE"}
			if who == public || who == trader { // those without and with credentials
				methods = append(methods, "HEAD", "PUT", "PATCH", "OPTIONS", "TRACE", "SECRETMETHOD", "get")
			}
			for _, method := range methods {
				who.Do(method, fill.Replace(template)+"?secretquery=secretvalue", "", "User-Agent: secretagent",
					"X-Request-Id: secretrequest")
			}
		}
		if template == e2e.EventsPath {
			continue // its answer has no end
		}
		for _, id := range append(ids, job.ID, string(signal.NewKeyID())) {
			trader.Get(strings.NewReplacer("{id}", id, "{key_id}", id, "{code}", "not-found", "{file}",
				"docs.css").Replace(template))
		}
	}
	for i := range 30 {
		public.Get(fmt.Sprintf("/secretpath/%d", i))
		trader.Get(fmt.Sprintf("/v1/signals/secret%d?asset=secret%d", i, i))
	}
	odd := e2e.RawConn(t, s.URL)
	io.WriteString(odd, "SECRET /v1/signals HTTP/1.0\r\nHost: secrethost\r\n\r\n")
	e2e.UntilEnd(odd)
	user.Post("/v1/auth/logout", "").Want(t, http.StatusNoContent)
	return []string{"secret", "SECRET"}
}

// The gauges of Redis are set at once, not only by the first update.
func TestGaugesAreThereFromTheStart(t *testing.T) {
	t.Parallel()
	config := e2e.HookConfig(t, redistest.New(t).URL())
	first := e2e.Start(t, config)
	user, _ := first.Account(t)
	user.Hook(e2e.NewHookEndpoint(t, nil).URL)
	first.Stop(t)
	second := e2e.Start(t, config)
	began := time.Now()
	e2e.Eventually(t, "there is a webhook", func() bool {
		return second.Metric(t, "agentsignal_webhooks", `status="enabled"`) == 1
	})
	if uptime := time.Since(began); uptime >= 15*time.Second {
		t.Errorf("it is shown after %v", uptime)
	}
}
