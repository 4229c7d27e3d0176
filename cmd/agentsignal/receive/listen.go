package receive

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook"
	"github.com/agentsignal/agentsignal/actors/webhook/signature"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
)

// Limits of the local receiver.
const (
	maxDeliveryBytes = 1 << 20 // body of a request; the service sends far less
	maxHeaderBytes   = 64 << 10
	maxForwardAnswer = 64 << 10 // body of the answer to a forwarded request
	listenTimeout    = 30 * time.Second
	forwardTimeout   = 14 * time.Second // less than that of the service
	listenGrace      = 5 * time.Second  // for requests in flight at the end
)

// localReceiver receives, verifies and prints the deliveries of a webhook.
type localReceiver struct {
	secrets []string
	forward string // URL to which genuine deliveries are forwarded, or ""
	json    bool   // print JSON
	save    *deliverySaver
	now     func() time.Time
	client  *http.Client // for forward
	failed  chan error   // the first error, which ends the command

	mu       sync.Mutex // one delivery is printed at a time
	out, err io.Writer
}

func webhookListen(dataDir func() (string, error)) *cobra.Command {
	l := &localReceiver{now: time.Now, failed: make(chan error, 1)}
	var secrets secretFlags
	register := registration{from: remote.Flags{DataDir: dataDir}}
	var addr, print, save string
	c := &cobra.Command{
		Use: "listen", Short: "Receive deliveries, verify and print them", Args: cobra.NoArgs,
		Long: "Receive the deliveries of a webhook on any path, verify their signatures and print\n" +
			"them. A genuine one is answered with 200, or with the answer of --forward-to; another\n" +
			"with 401. With --register a webhook for this address is made at the service, with the\n" +
			"secret that is given or a new one, and removed at the end; webhooks.allowed_networks\n" +
			"of the service must hold the address.\n\n" + remote.KeySources,
		Example: "  agentsignal webhook listen --secret-file secret.txt --forward-to http://localhost:3000/hooks\n" +
			"  agentsignal webhook listen --register --key-file key.txt",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if l.secrets, err = secrets.read(cmd); err != nil {
				return err
			}
			if err := register.configure(cmd); err != nil {
				return err
			}
			l.out, l.err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if err := l.configure(print, save); err != nil {
				return err
			}
			return l.listen(cmd.Context(), addr, &register)
		},
	}
	secrets.add(c)
	c.Flags().StringVar(&addr, "addr", "127.0.0.1:8090", "address to listen on")
	c.Flags().StringVar(&l.forward, "forward-to", "",
		"URL to which genuine deliveries are forwarded unchanged, and whose answer is returned")
	c.Flags().StringVar(&print, "print", "text", "how deliveries are printed: text, or json with one per line")
	c.Flags().StringVar(&save, "save", "",
		"directory in which each request is kept, for agentsignal webhook verify --request")
	register.add(c)
	return c
}

// configure checks the flags.
func (l *localReceiver) configure(print, save string) error {
	switch print {
	case "text", "json":
		l.json = print == "json"
	default:
		return fmt.Errorf("--print %q: must be text or json", print)
	}
	if l.forward != "" {
		if u, err := url.Parse(l.forward); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("--forward-to %q: give a URL like http://localhost:3000/hooks", l.forward)
		}
		// Redirects are answers to pass on, and bodies are not changed.
		l.client = &http.Client{Timeout: forwardTimeout,
			Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if save != "" {
		var err error
		if l.save, err = newDeliverySaver(save); err != nil {
			return err
		}
	}
	return nil
}

// listen receives until ctx ends.
func (l *localReceiver) listen(ctx context.Context, addr string, register *registration) (err error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("--addr: %w: choose another, such as 127.0.0.1:0 for any free port", err)
	}
	if register.wanted {
		if len(l.secrets) == 0 {
			// The secret is made here, so that the first delivery can already be verified.
			l.secrets = []string{delivery.NewSecret()}
		}
		register.secret = l.secrets[0]
	}
	if len(l.secrets) == 0 {
		ln.Close()
		return errNoSecret
	}
	s := &http.Server{
		Handler:        l,
		ReadTimeout:    listenTimeout,
		WriteTimeout:   listenTimeout,
		MaxHeaderBytes: maxHeaderBytes,
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	fmt.Fprintf(l.err, "agentsignal: listening on http://%s\n", ln.Addr())
	if register.wanted {
		if err = register.begin(ctx, ln.Addr().String()); err == nil {
			fmt.Fprintf(l.err, "agentsignal: registered %s for %s\n", register.id, register.endpoint)
		}
	}
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-ended:
		case err = <-l.failed:
		}
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), listenGrace)
	defer cancel()
	// The webhook is removed first: deliveries to a closed listener would be retried.
	return errors.Join(err, register.end(grace), s.Shutdown(grace))
}

// ServeHTTP receives one delivery. An error other than that of the sender ends the command.
func (l *localReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := l.receive(w, r); err != nil {
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		select {
		case l.failed <- err:
		default: // another error ends it
		}
	}
}

// receive verifies and prints one delivery, and answers it unless it returns an error.
func (l *localReceiver) receive(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "deliveries are POST requests", http.StatusMethodNotAllowed)
		return nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxDeliveryBytes))
	if err != nil {
		status := http.StatusBadRequest
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			status = http.StatusRequestEntityTooLarge
		}
		if err := l.report(l.describe(r, body, status, err)); err != nil {
			return err
		}
		http.Error(w, http.StatusText(status), status)
		return nil
	}
	l.save.keep(r, body, l.err)
	if _, err := verifyBy(l.secrets, r.Header, body, l.now()); err != nil {
		if err := l.report(l.describe(r, body, http.StatusUnauthorized, err)); err != nil {
			return err
		}
		http.Error(w, "the delivery is not genuine", http.StatusUnauthorized)
		return nil
	}
	if l.forward != "" {
		return l.pass(w, r, body)
	}
	if err := l.report(l.describe(r, body, http.StatusOK, nil)); err != nil {
		return err
	}
	_, _ = io.WriteString(w, webhook.ChallengeOf(body))
	return nil
}

// hopHeaders concern one connection only and are not forwarded.
var hopHeaders = []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// pass forwards a genuine delivery and passes the answer on.
func (l *localReceiver) pass(w http.ResponseWriter, r *http.Request, body []byte) error {
	out, err := http.NewRequestWithContext(r.Context(), http.MethodPost, l.forward, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("forward: %w", err)
	}
	out.Header = r.Header.Clone()
	for name := range strings.SplitSeq(r.Header.Get("Connection"), ",") {
		out.Header.Del(strings.TrimSpace(name))
	}
	for _, name := range hopHeaders {
		out.Header.Del(name)
	}
	answer, err := l.client.Do(out)
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(answer.Body, maxForwardAnswer))
		answer.Body.Close()
		if err == nil && answer.StatusCode < 100 { // net/http cannot send it
			err = fmt.Errorf("answered with status %d", answer.StatusCode)
		}
	}
	if err != nil {
		err = fmt.Errorf("genuine, but forwarding failed: %w", err)
		if err := l.report(l.describe(r, body, http.StatusBadGateway, err)); err != nil {
			return err
		}
		http.Error(w, "forwarding failed", http.StatusBadGateway)
		return nil
	}
	if err := l.report(l.describe(r, body, answer.StatusCode, nil)); err != nil {
		return err
	}
	for _, name := range []string{"Content-Type", "Retry-After"} {
		if v := answer.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = w.Write(text)
	return nil
}

// printedDelivery is a delivery as it is printed.
type printedDelivery struct {
	Time     string `json:"time"` // of arrival
	Event    string `json:"event"`
	Delivery string `json:"delivery"`
	Attempt  string `json:"attempt"`
	OK       bool   `json:"ok"`     // genuine and, if required, forwarded
	Why      string `json:"why"`    // it is not OK
	Status   int    `json:"status"` // of the answer
	Body     string `json:"body"`
}

func (l *localReceiver) describe(r *http.Request, body []byte, status int, err error) printedDelivery {
	d := printedDelivery{
		Time:     l.now().UTC().Format(signal.TimeLayout),
		Event:    r.Header.Get(signature.HeaderEvent),
		Delivery: r.Header.Get(signature.HeaderDelivery),
		Attempt:  r.Header.Get(signature.HeaderAttempt),
		OK:       err == nil,
		Status:   status,
		Body:     string(body),
	}
	if err != nil {
		d.Why = err.Error()
	}
	return d
}

// report prints a delivery.
func (l *localReceiver) report(d printedDelivery) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.json {
		text, err := json.Marshal(d)
		if err != nil {
			return fmt.Errorf("print delivery: %w", err)
		}
		fmt.Fprintf(l.out, "%s\n", text)
		return nil
	}
	verdict := "ok"
	if !d.OK {
		verdict = d.Why
	}
	line := fmt.Sprintf("%s  %-16s %s  attempt %s  %d  %s",
		d.Time, cmp.Or(d.Event, "-"), cmp.Or(d.Delivery, "-"), cmp.Or(d.Attempt, "-"), d.Status, verdict)
	// The body is indented, so that it cannot look like another delivery.
	fmt.Fprintf(l.out, "%s\n  %s\n", strings.ReplaceAll(command.Printable(line), "\n", " "),
		strings.ReplaceAll(command.Printable(d.Body), "\n", "\n  "))
	return nil
}
