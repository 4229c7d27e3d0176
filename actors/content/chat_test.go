package content

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// answerWith returns the body of an answer whose content is text.
func answerWith(text, finish string) string {
	quoted, _ := json.Marshal(text)
	return fmt.Sprintf(`{"choices":[{"message":{"role":"assistant","content":%s},"finish_reason":%q}],`+
		`"usage":{"total_tokens":9}}`, quoted, finish)
}

const goodText = `{"title":"A standing desk for you","description":"About a standing desk",` +
	`"body":"A standing desk helps you stand."}`

// endpoint is a server that answers by f.
func endpoint(t *testing.T, f http.HandlerFunc) (string, *atomic.Int64) {
	t.Helper()
	asked := new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		f(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

func respond(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

var desk = Request{Strategy: BlogPost, Subject: "standing desk", Keywords: []string{"standing desk"},
	Features: []string{"quiet motor"}, Locale: "en-GB"}

func TestEndpointTextIsChecked(t *testing.T) {
	t.Parallel()
	var got map[string]any
	url, _ := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		token := r.Header.Get("Authorization")
		if r.Method != "POST" || r.URL.Path != "/v1/chat/completions" || token != "Bearer secret" {
			t.Errorf("asked by %s %s with %q", r.Method, r.URL, token)
		}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		respond(200, "application/json; charset=utf-8", answerWith(goodText, "stop"))(w, r)
	})
	w := newWriter(t, Options{Chat: ChatOptions{URL: url + "/v1/", Key: "secret", Model: "small"}})
	text, m := written(t, w, desk)
	if m.Writer != "chat" || m.Model != "small" || m.Fallback != "" {
		t.Errorf("metadata: %+v", m)
	}
	if want := "---\ndescription: \"About a standing desk\"\n---\n\n# A standing desk for you\n\n" +
		"A standing desk helps you stand.\n"; m.Content != want {
		t.Errorf("content %q", m.Content)
	}
	// Neither long enough nor with headings, and too dense: 11 of 17.
	if want := rounded((2+2+2+1+1+3)/17.0, 4); text.Confidence != want {
		t.Errorf("confidence %v, want %v; failed %v", text.Confidence, want, m.Failed)
	}
	format, _ := got["response_format"].(map[string]any)
	schema, _ := format["json_schema"].(map[string]any)
	if got["model"] != "small" || format["type"] != "json_schema" || schema["strict"] != true ||
		got["max_completion_tokens"] == nil {
		t.Errorf("asked for %v", got)
	}
}

func TestMetaTagsOfTheEndpointBecomeTags(t *testing.T) {
	t.Parallel()
	url, _ := endpoint(t, respond(200, "application/json",
		answerWith(`{"title":"Standing desk \"A\" <b> for people who stand","description":"How high a standing desk goes, `+
			`how much weight it lifts and how loud its motor is.","body":""}`, "stop")))
	r := desk
	r.Strategy = MetaTags
	text, m := written(t, newWriter(t, Options{Chat: ChatOptions{URL: url, Model: "m"}}), r)
	if text.Confidence != 1 || m.Writer != "chat" || strings.Contains(m.Content, "<b>") ||
		!strings.Contains(m.Content, `content="en_GB"`) {
		t.Errorf("confidence %v, failed %v:\n%s", text.Confidence, m.Failed, m.Content)
	}
}

func TestTheBuiltInWriterTakesOver(t *testing.T) {
	t.Parallel()
	const ok = "application/json"
	cases := []struct {
		name, reason string
		asked        int64
		handle       http.HandlerFunc
	}{
		{"truncated", reasonTruncated, 1, respond(200, ok, answerWith(`{"title":"A`, "length"))},
		{"filtered", reasonAnswer, 1,
			respond(200, ok, `{"choices":[{"message":{"content":null},"finish_reason":"content_filter"}]}`)},
		{"no choices", reasonAnswer, 1, respond(200, ok, `{"choices":[]}`)},
		{"cut JSON", reasonAnswer, 1, respond(200, ok, `{"choices":[{"mess`)},
		{"content that is no object", reasonAnswer, 1, respond(200, ok, answerWith("Sure! Here it is.", "stop"))},
		{"empty text", reasonAnswer, 1, respond(200, ok, answerWith(`{"title":" "}`, "stop"))},
		{"long text", reasonAnswer, 1, respond(200, ok,
			answerWith(`{"title":"a","body":"`+strings.Repeat("a", maxContentLength)+`"}`, "stop"))},
		{"HTML under 200", reasonAnswer, 1, respond(200, "text/html", "<html>Sign in</html>")},
		{"bad request", reasonStatus, 1, respond(400, ok, `{"error":{"message":"bad"}}`)},
		{"bad key", reasonStatus, 1, respond(401, ok, `{}`)},
		{"redirect", reasonStatus, 1, http.RedirectHandler("/elsewhere", http.StatusFound).ServeHTTP},
		{"server error", reasonStatus, 3, respond(500, ok, `{}`)},
		{"too many requests", reasonStatus, 3, respond(429, ok, `{}`)},
		{"cut connection", reasonConnection, 3,
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"cut body", reasonConnection, 3, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"choices":`)
		}},
		{"rest longer than the time left", reasonStatus, 1, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(503)
		}},
		{"silence", reasonTimeout, 1, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, asked := endpoint(t, c.handle)
			timeout := 30 * time.Second
			if c.reason == reasonTimeout {
				timeout = 200 * time.Millisecond
			}
			_, m := written(t, newWriter(t, Options{Chat: ChatOptions{URL: url, Model: "m", Timeout: timeout}}), desk)
			_, plain := written(t, newWriter(t, Options{}), desk)
			if m.Writer != "template" || m.Fallback != c.reason || m.Content != plain.Content ||
				asked.Load() != c.asked {
				t.Errorf("writer %q, reason %q, asked %d times", m.Writer, m.Fallback, asked.Load())
			}
		})
	}
}

func TestFailingEndpointRests(t *testing.T) {
	t.Parallel()
	var well atomic.Bool
	url, asked := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		if well.Load() {
			respond(200, "application/json", answerWith(goodText, "stop"))(w, r)
			return
		}
		w.WriteHeader(400)
	})
	w := newWriter(t, Options{Chat: ChatOptions{URL: url, Model: "m", Rest: time.Hour}})
	for range restAfter {
		written(t, w, desk)
	}
	well.Store(true)
	if _, m := written(t, w, desk); m.Fallback != reasonResting || asked.Load() != restAfter {
		t.Errorf("reason %q after %d questions", m.Fallback, asked.Load())
	}
	w.chat.mu.Lock()
	w.chat.restsTo = time.Time{}
	w.chat.mu.Unlock()
	if _, m := written(t, w, desk); m.Writer != "chat" {
		t.Errorf("after its rest the writer is %q", m.Writer)
	}
	if w.chat.failures != 0 {
		t.Errorf("%d failures after a success", w.chat.failures)
	}
}

// A wait that is longer than the time of a text holds the endpoint for all of them, and none of them waits for it.
func TestEndpointThatAsksForAWaitRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, wait := 0, "120"
		w := overTransport(t, func(*http.Request) (*http.Response, error) {
			asked++
			return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {wait}}, Body: http.NoBody}, nil
		})
		begin := time.Now()
		want := func(reason string, questions int) {
			t.Helper()
			if _, m := written(t, w, desk); m.Fallback != reason || asked != questions {
				t.Errorf("reason %q after %d questions, want %q after %d", m.Fallback, asked, reason, questions)
			}
		}
		want(reasonStatus, 1)
		want(reasonResting, 1)
		if took := time.Since(begin); took > 0 {
			t.Errorf("two texts take %s", took)
		}
		time.Sleep(2 * time.Minute)
		wait = "86400"
		want(reasonStatus, 2)
		time.Sleep(maxChatRest)
		want(reasonStatus, 3)
	})
}

// transport answers without a network, inside a bubble.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func overTransport(t *testing.T, f transport) *Writer {
	t.Helper()
	client := &http.Client{Transport: f}
	return newWriter(t, Options{Chat: ChatOptions{URL: "http://chat.example.com", Model: "m", Client: client}})
}

func TestEqualConcurrentRequestsAreJoined(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		w := overTransport(t, func(*http.Request) (*http.Response, error) {
			asked++
			time.Sleep(time.Second)
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(answerWith(goodText, "stop")))}, nil
		})
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if text, err := w.Write(context.Background(), desk); err != nil ||
					!strings.Contains(string(text.Metadata), "helps you stand") {
					t.Errorf("%s, %v", text.Metadata, err)
				}
			})
		}
		all.Wait()
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
	})
}

func TestTheEndpointHasTwentySeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := overTransport(t, func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		begun := time.Now()
		if _, m := written(t, w, desk); m.Writer != "template" || m.Fallback != reasonTimeout ||
			time.Since(begun) != 20*time.Second {
			t.Errorf("writer %q, reason %q after %v", m.Writer, m.Fallback, time.Since(begun))
		}
	})
}

func TestWriteStopsWithItsContext(t *testing.T) {
	t.Parallel()
	url, _ := endpoint(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	w := newWriter(t, Options{Chat: ChatOptions{URL: url, Model: "m", Timeout: 300 * time.Millisecond}})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := w.Write(ctx, desk); err == nil {
		t.Error("no error")
	}
}

func TestSecretsAreNotLogged(t *testing.T) {
	t.Parallel()
	url, _ := endpoint(t, respond(401, "application/json", `{"error":"no such key: s3cret"}`))
	for _, url := range []string{url, strings.Replace(url, "http://", "http://user:s3cret@", 1),
		"http://user:s3cret@127.0.0.1:1"} {
		var log bytes.Buffer
		w := newWriter(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil)),
			Chat: ChatOptions{URL: url, Key: "s3cret", Model: "m", Timeout: time.Second}})
		text, _ := written(t, w, desk)
		if log.Len() == 0 || strings.Contains(log.String()+string(text.Metadata), "s3cret") {
			t.Errorf("log: %s\nmetadata: %s", log.String(), text.Metadata)
		}
	}
}

func TestInvalidChatOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []ChatOptions{{URL: "example.com", Model: "m"}, {URL: "ftp://example.com", Model: "m"},
		{URL: "https://", Model: "m"}, {URL: "https://example.com?x=1", Model: "m"}, {URL: "https://example.com"}} {
		if _, err := New(Options{Chat: o}); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

func FuzzReadAnswer(f *testing.F) {
	f.Add([]byte(answerWith(goodText, "stop")))
	f.Add([]byte(`{"choices":[{"message":{"content":null}}]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		for strategy := range lifetimes {
			r := desk
			r.Strategy = strategy
			if text, err := r.text(answer); err == nil {
				finish(&r, text, metadata{})
			}
		}
	})
}
