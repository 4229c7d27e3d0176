package http

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/dashboard"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/credentials"
	"github.com/agentsignal/agentsignal/http/pages"
	"github.com/agentsignal/agentsignal/http/request"
)

// problemKind is a kind of error document. Code is its stable name.
type problemKind pages.Problem

// problemKinds lists every error code that an answer may carry.
var problemKinds = []problemKind{
	{"invalid_request", 400, "The request is not valid",
		"The body is not JSON, or values in the body, the query or the headers are missing, of the wrong type, " +
			"unknown or out of range. The member errors lists every fault with its place."},
	{"missing_credentials", 401, "Credentials are missing",
		"The request has no Authorization header. Send Authorization: Bearer and an API key or an access token."},
	{"invalid_token", 401, "The token is not valid",
		"The API key is unknown, revoked or expired, or the access token is malformed, forged or expired, or its " +
			"session has ended."},
	{"jwt_required", 401, "An access token is required",
		"An API key was sent to an endpoint that takes only an access token. Sign in to get one."},
	{"invalid_credentials", 401, "The email or the password is wrong", "No account has this email and this password."},
	{"invalid_refresh_token", 401, "The refresh token is not valid",
		"The refresh token is unknown, expired, used or revoked. Sign in again."},
	{"insufficient_scope", 403, "A scope is missing",
		"The API key is valid but lacks the scope that the member required_scope names."},
	{"reader_key", 403, "The API key is a reader's",
		"The API key has a view: it reads the signals that its view has, and nothing else of the account. Use another key of " +
			"the account, or an access token."},
	{"origin_not_allowed", 403, "The origin is not allowed",
		"A page of a foreign origin opened the stream. The operator lists allowed origins in http.cors_origins."},
	{"not_found", 404, "Not found", "No such path exists, or no such resource, or it belongs to another account."},
	{"method_not_allowed", 405, "The method is not allowed",
		"The path exists but not with this method. The header Allow lists those it has."},
	{"name_taken", 409, "The name is taken",
		"Another API key of the account has this name: revoke it first, or choose another name. Or the account has, or " +
			"had, an agent with this id, which is never free again."},
	{"slug_taken", 409, "The slug is taken",
		"A public record has, or had, this slug, after which it is never free again. Choose another one."},
	{"email_taken", 409, "The email is taken", "An account with this email exists."},
	{"limit_reached", 409, "A limit is reached", "The account has as many resources of this kind as it may have."},
	{"built_in", 409, "The agent belongs to the service", "Only agents of the account can be changed and submit signals."},
	{"agent_changed", 409, "The agent was changed meanwhile", "Other requests changed it at the same time. Repeat the request."},
	{"not_runnable", 409, "The agent has no endpoint",
		"An agent of the account can be run only if it has an endpoint, at which it is asked. Without one it submits its " +
			"signals by POST /v1/agents/{id}/signals."},
	{agent.CodeNoSignal, 409, "The agent has no signal",
		"The account's agent was asked and has nothing to submit. The detail is the reason that it gives. The run has " +
			"completed; the next one may find a signal."},
	{"price_moved", 409, "The price has moved",
		"The price that the agent saw is further from the market than a quarter of the distance to the stop. The entry is " +
			"always the service's own price."},
	{"reference_used", 409, "The reference was used for another signal",
		"The agent has submitted another asset, strategy or direction under this reference."},
	{"expired_alert", 409, "The alert was not carried out",
		"An alert of a chart that was answered by 202 is carried out within a minute, and not after a later one about the " +
			"asset. The list of the intake's requests has this error; no request is answered with it."},
	{"webhook_disabled", 409, "The webhook is disabled",
		"Nothing is sent to a disabled webhook, so nothing is sent again. Change its status to enabled first."},
	{"not_closable", 409, "The signal cannot be closed",
		"Only agents of an account end their signals. Those of the service's agents close at their levels or expire."},
	{"delivery_not_failed", 409, "The delivery has not failed",
		"Only a delivery that has failed can be tried again. One that succeeded is sent again by the bulk retry with " +
			"the status succeeded."},
	{"delivery_not_pending", 409, "The delivery is not pending",
		"Only a delivery that is still to be sent can be cancelled; this one has ended."},
	{"idempotency_in_progress", 409, "The first request is still running",
		"A request with the same Idempotency-Key has not been answered yet. Try again in a moment."},
	{"not_signed", 409, "No checkpoint has it yet",
		"The creation of the signal is newer than the checkpoint of the proof. A checkpoint follows each leaf within seconds: " +
			"ask again after the time in the header Retry-After, or with the size of a newer checkpoint."},
	{"record_gone", 410, "The public record is gone",
		"The account shows its record at another address, or was deleted. No other record ever gets the address."},
	{"body_too_large", 413, "The body is too large", "A body may have at most 1 MiB, under /v1/auth 64 KiB."},
	{"unsupported_media_type", 415, "The media type is not supported",
		"Bodies must be JSON: Content-Type application/json, application/*+json or none, without a Content-Encoding."},
	{"idempotency_key_reused", 422, "The Idempotency-Key was used for another request",
		"The same Idempotency-Key came with another body. Make a new key for each request."},
	{"rate_limited", 429, "Too many requests",
		"The rate limit is used up. Retry-After is the time to wait, the RateLimit headers show what is left."},
	{"too_many_runs", 429, "Too many runs at once",
		"The account has as many runs under way, or jobs waiting, as it may have."},
	{dashboard.ErrTooManyConnections.Code, 429, "Too many connections of the reader",
		"The API key has a view, and as many connections to the stream as it may have. One that has just ended " +
			"counts for up to 2 seconds."},
	{"too_many_exports", 429, "Too many exports at once",
		"The account, the reader, or the service, has as many exports under way as it may have. The operator sets the " +
			"numbers by http.max_account_exports and http.max_exports."},
	{"too_many_signals", 429, "Too many open signals",
		"The account has as many open signals as it may have. Runs are possible again when some of them have closed. " +
			"The operator sets the number by signals.max_open."},
	{"account_locked", 429, "The account is locked for a while",
		"Too many logins failed. The header Retry-After is the time until the lock ends."},
	{"agent_failed", 500, "The agent's run failed",
		"The request was valid but the run ended with an error. The members error_code and retryable name the error " +
			"and whether trying again may help. If it failed for a reason of the service that soon passes, the answer is " +
			"503 unavailable instead."},
	{"price_unavailable", 503, "The asset has no fresh price",
		"A signal is entered at a price that is at most 30 seconds old. The member error_code says why there is none."},
	{"internal", 500, "Something went wrong",
		"An unexpected error. Its cause is in the log of the service, under the request_id."},
	{"unavailable", 503, "The service is not available",
		"The service cannot reach its store, its store refuses to be written (it may be full), the service cannot " +
			"read prices for the moment or is about to stop, a list is being read, or too many passwords wait to be " +
			"checked. Try again after the time in the header Retry-After."},
	{signal.CodeAgentPaused, 503, "The agent is paused",
		"The account's agent has failed several times in a row at its endpoint, so it is not asked for half a minute. After " +
			"the time in the header Retry-After one run is let through; when it succeeds, the pause is over."},
}

var problemsByCode = func() map[string]*problemKind {
	m := make(map[string]*problemKind, len(problemKinds))
	for i := range problemKinds {
		m[problemKinds[i].Code] = &problemKinds[i]
	}
	return m
}()

// defaultCodes has the problem of an error whose own code is not in the list. Conflicts and
// limits have no default: each must have a code of the list.
var defaultCodes = map[signal.Kind]string{
	signal.KindInvalid:      "invalid_request",
	signal.KindUnauthorized: "invalid_token",
	signal.KindNotFound:     "not_found",
	signal.KindMismatch:     "idempotency_key_reused",
	signal.KindUnavailable:  "unavailable",
}

// statusClientGone is counted and logged if the client left before the answer. It is never
// sent.
const statusClientGone = 499

var (
	errNotFound = &signal.Error{Kind: signal.KindNotFound, Code: "not_found",
		Message: "no such path: GET /v1/openapi.json lists all, /docs shows them"}
	errMediaType = &signal.Error{Kind: signal.KindInvalid, Code: "unsupported_media_type",
		Message: "the body must be JSON: send it with Content-Type: application/json and without Content-Encoding"}
	errForeignOrigin = &signal.Error{Kind: signal.KindForbidden, Code: "origin_not_allowed",
		Message: "pages of this origin may not use the stream and /mcp: http.cors_origins lists those that may"}
	errWaiting = &signal.Error{Kind: signal.KindUnavailable, Code: "unavailable",
		Message: "the service cannot reach its store", RetryAfter: retryUnavailable}
	errDraining         = signal.Stopping(nil)
	errTooManyAnonymous = &signal.Error{Kind: signal.KindTooMany, Code: "rate_limited",
		Message: "too many connections of this address wait for a credential", RetryAfter: 10 * time.Second}
	errRateLimited = &signal.Error{Kind: signal.KindTooMany, Code: "rate_limited",
		Message: "the rate limit is used up"}
	retryUnavailable  = 5 * time.Second
	internalErrorText = "The service met an unexpected error. Name the request_id when you report it."
)

// notFound is signal.NotFound with advice.
func notFound(subject, advice string) error {
	e := signal.NotFound(subject)
	e.Message += ": " + advice
	return e
}

// tooLarge returns the error of a body of more than limit bytes.
func tooLarge(limit int64) error {
	return &signal.Error{Kind: signal.KindInvalid, Code: "body_too_large",
		Message: fmt.Sprintf("the body is too large: it may have at most %d bytes", limit)}
}

// scopeError refuses a credential without the scope that the endpoint requires.
type scopeError struct{ scope signal.Scope }

func (e *scopeError) Error() string { return "the credential lacks the scope " + string(e.scope) }

// runFailed is the error of a run with its ID.
type runFailed struct {
	run  signal.RunID
	code string // empty: agent_failed
	*signal.RunError
}

// Unwrap makes signal.KindOf find that the error is of a run, and not unexpected.
func (e *runFailed) Unwrap() error { return e.RunError }

// problem is an error document (RFC 9457), with the values of the headers of its answer.
type problem struct {
	*problemKind
	Detail     string
	RetryAfter time.Duration

	invalid *request.InvalidError // of invalid_request
	scope   signal.Scope          // of insufficient_scope
	run     *runFailed            // of agent_failed
}

// newProblem returns the error document of err. Errors that are not meant for clients become
// internal, without their text.
func newProblem(err error) problem {
	if e, ok := errors.AsType[*request.InvalidError](err); ok {
		return problem{problemKind: problemsByCode["invalid_request"], Detail: e.Error(), invalid: e}
	}
	if e, ok := errors.AsType[credentials.ValidationError](err); ok {
		return newProblem(invalidCredentials(e))
	}
	if e, ok := errors.AsType[*scopeError](err); ok {
		return problem{problemKind: problemsByCode["insufficient_scope"], Detail: e.Error(), scope: e.scope}
	}
	if e, ok := errors.AsType[*runFailed](err); ok {
		if e.Passing {
			return problem{problemKind: problemsByCode["unavailable"], Detail: e.Message,
				RetryAfter: cmp.Or(e.RetryAfter, retryUnavailable)}
		}
		kind := problemsByCode[cmp.Or(e.code, "agent_failed")]
		return problem{problemKind: kind, Detail: e.Message, RetryAfter: e.RetryAfter, run: e}
	}
	if e, ok := errors.AsType[*signal.Error](err); ok && e.Kind != signal.KindInternal {
		return knownProblem(e)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return problem{problemKind: problemsByCode["unavailable"], Detail: "the answer took too long",
			RetryAfter: retryUnavailable}
	}
	return problem{problemKind: problemsByCode["internal"], Detail: internalErrorText}
}

// knownProblem is newProblem for an error that a caller may see.
func knownProblem(e *signal.Error) problem {
	kind := problemsByCode[e.Code]
	if kind == nil {
		kind = problemsByCode[defaultCodes[e.Kind]]
	}
	if kind == nil {
		return problem{problemKind: problemsByCode["internal"], Detail: internalErrorText}
	}
	p := problem{problemKind: kind, Detail: e.Message, RetryAfter: e.RetryAfter}
	if path := listPaths[e.Subject]; path != "" {
		p.Detail += ": GET " + path + " lists those of the account"
	}
	if kind.Code == "invalid_request" {
		p.invalid = asInvalid(e)
		p.Detail = p.invalid.Error()
	}
	if kind.Status == http.StatusServiceUnavailable && p.RetryAfter == 0 {
		p.RetryAfter = retryUnavailable
	}
	return p
}

// listPaths has the path that lists all things of a kind, by the subject of signal.NotFound.
var listPaths = map[string]string{
	"signal":         "/v1/signals",
	"weather signal": "/v1/signals/weather",
	"job":            "/v1/jobs",
	"schedule":       "/v1/schedules",
	"webhook":        "/v1/webhooks",
	"delivery":       "/v1/webhooks/{id}/deliveries",
	"API key":        "/v1/auth/api-keys",
}

// setHeaders sets the headers that go with the problem.
func (p *problem) setHeaders(h http.Header) {
	h["Content-Type"] = headerProblem
	switch {
	case p.Code == "missing_credentials":
		h["Www-Authenticate"] = []string{`Bearer realm="agent-signals"`}
	case p.Status == http.StatusUnauthorized:
		h["Www-Authenticate"] = []string{`Bearer realm="agent-signals", error="invalid_token"`}
	case p.scope != "":
		h["Www-Authenticate"] = []string{`Bearer realm="agent-signals", error="insufficient_scope", scope="` +
			string(p.scope) + `"`}
	}
	if p.RetryAfter > 0 {
		h["Retry-After"] = []string{wholeSeconds(p.RetryAfter)}
	}
}

// wholeSeconds returns d in seconds, rounded up, at least 1.
func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(max(1, int64((d+time.Second-1)/time.Second)), 10)
}

// problemView is the document of a problem. The second group depends on its kind.
type problemView struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Instance  string `json:"instance"`
	Code      string `json:"code"`
	RequestID string `json:"request_id"`

	Errors        []faultView      `json:"errors,omitempty"`
	RequiredScope signal.Scope     `json:"required_scope,omitempty"`
	Run           signal.RunID     `json:"run_id,omitempty"`
	ErrorCode     signal.ErrorCode `json:"error_code,omitempty"`
	Retryable     *bool            `json:"retryable,omitempty"`
}

// faultView has one of its first three members, the place of the fault.
type faultView struct {
	Pointer   *string `json:"pointer,omitempty"`
	Parameter *string `json:"parameter,omitempty"`
	Header    *string `json:"header,omitempty"`
	Code      string  `json:"code"`
	Detail    string  `json:"detail"`
}

// document returns the document. instance is the path of the request.
func (p *problem) document(instance, requestID string) []byte {
	v := problemView{
		Type:      "/problems/" + pages.Slug(p.Code),
		Title:     p.Title,
		Status:    p.Status,
		Detail:    p.Detail,
		Instance:  instance,
		Code:      p.Code,
		RequestID: requestID,
	}
	switch {
	case p.invalid != nil:
		for _, f := range p.invalid.Faults {
			v.Errors = append(v.Errors, viewFault(f))
		}
	case p.scope != "":
		v.RequiredScope = p.scope
	case p.run != nil:
		v.Run, v.ErrorCode, v.Retryable = p.run.run, p.run.Code, &p.run.Retryable
	}
	body, err := encode(v)
	if err != nil {
		panic("encode error document: " + err.Error()) // cannot happen: it holds texts only
	}
	return body
}

func viewFault(f request.Fault) faultView {
	v := faultView{Code: f.Code, Detail: f.Detail}
	switch f.In {
	case request.InBody:
		v.Pointer = &f.Name
	case request.InQuery:
		v.Parameter = &f.Name
	case request.InHeader:
		v.Header = &f.Name
	}
	return v
}

// asInvalid returns an error of KindInvalid as a fault of the body, since it has no pointer.
func asInvalid(e *signal.Error) *request.InvalidError {
	fault := request.Fault{In: request.InBody, Code: request.CodeInvalidValue, Detail: e.Message}
	return &request.InvalidError{Faults: []request.Fault{fault}}
}

// invalidCredentials returns e as faults of the body.
func invalidCredentials(e credentials.ValidationError) error {
	var f request.Faults
	for _, field := range e {
		f.Body("/"+field.Field, field.Code, field.Detail)
	}
	return f.Err()
}
