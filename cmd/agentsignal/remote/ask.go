package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
)

// Limits of a request to the service.
const (
	maxAPIAnswer = 1 << 16 // bytes of the answer
	apiTimeout   = 10 * time.Second
)

// apiClient does not follow redirects: the body of a registration may hold a secret.
var apiClient = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// Ask sends a request to the service at address and returns the body of the answer. A
// status other than 2xx is an error, see AnswerFault.
func Ask(ctx context.Context, address *url.URL, key, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, address.String()+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	w, err := apiClient.Do(r)
	if err != nil {
		return nil, ConnectFault(address, err, false)
	}
	defer w.Body.Close()
	text, err := io.ReadAll(io.LimitReader(w.Body, maxAPIAnswer))
	if err == nil && w.StatusCode/100 != 2 {
		err = AnswerFault(address, w.StatusCode, text)
	}
	return text, err
}

// faults returns the reasons that an answer gives: those of a problem document, or else
// its text.
func faults(text []byte) string {
	var problem struct {
		Detail string
		Errors []struct{ Pointer, Detail string }
	}
	if err := json.Unmarshal(text, &problem); err != nil || problem.Detail == "" {
		return command.Printable(string(text))
	}
	all := make([]string, 0, len(problem.Errors))
	for _, e := range problem.Errors {
		all = append(all, e.Pointer+": "+e.Detail)
	}
	return command.Printable(cmp.Or(strings.Join(all, "; "), problem.Detail))
}
