package receive

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// maxSaved limits the saved requests, since they are saved before they are verified.
const maxSaved = 10_000

// deliverySaver saves requests as files, unchanged except for the spelling and order of
// their headers. A nil *deliverySaver saves nothing.
type deliverySaver struct {
	dir   string
	count atomic.Int64
}

func newDeliverySaver(dir string) (*deliverySaver, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("--save: %w", err)
	}
	return &deliverySaver{dir: dir}, nil
}

// keep writes a request to a file of its own. It prints errors on errs, since a delivery
// must not fail because of them.
func (s *deliverySaver) keep(r *http.Request, body []byte, errs io.Writer) {
	if s == nil || s.count.Add(1) > maxSaved {
		return
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\n", r.URL.RequestURI(), r.Host)
	_ = r.Header.WriteSubset(&b, map[string]bool{"Content-Length": true})
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n", len(body))
	b.Write(body)
	// The name is unique across runs and holds nothing from the sender.
	f, err := os.CreateTemp(s.dir, time.Now().UTC().Format("20060102T150405.000")+"-*.http")
	if err == nil {
		_, err = f.Write(b.Bytes())
		if e := f.Close(); err == nil {
			err = e
		}
	}
	if err != nil {
		fmt.Fprintln(errs, "agentsignal: save request:", err)
		return
	}
	fmt.Fprintln(errs, "agentsignal: saved", filepath.Base(f.Name()))
}
