package http

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// document is an answer to many requests, which is compressed once.
type document struct {
	types []string // its Content-Type
	plain []byte
	once  sync.Once
	small []byte // compressed
}

// compressed returns the document in gzip.
func (d *document) compressed() []byte {
	d.once.Do(func() {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(d.plain) // a buffer takes all
		_ = w.Close()
		d.small = b.Bytes()
	})
	return d.small
}

// document answers with d, compressed if the client takes that.
func (c *call) document(d *document) error {
	h, body := c.Header(), d.plain
	h["Content-Type"] = d.types
	h.Add("Vary", "Accept-Encoding")
	if takesGzip(c.r.Header["Accept-Encoding"]) {
		h["Content-Encoding"] = headerGzip
		body = d.compressed()
	}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	c.WriteHeader(http.StatusOK)
	_, _ = c.Write(body) // fails if the client has left
	return nil
}

// takesGzip reports whether an Accept-Encoding header allows gzip (RFC 9110, 12.5.3).
func takesGzip(values []string) bool {
	any := false
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			coding, weight, _ := strings.Cut(part, ";")
			name, value, _ := strings.Cut(strings.TrimSpace(weight), "=")
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			allowed := !strings.EqualFold(name, "q") || err == nil && q > 0
			switch coding = strings.TrimSpace(coding); {
			case strings.EqualFold(coding, "gzip"):
				return allowed
			case coding == "*":
				any = allowed
			}
		}
	}
	return any
}

// recorder records an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header         { return w.header }
func (w *recorder) WriteHeader(status int)      { w.status = status }
func (w *recorder) Write(b []byte) (int, error) { return w.body.Write(b) }
