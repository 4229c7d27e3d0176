package http

import (
	"bytes"
	"errors"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/http/request"
)

const (
	maxBodyBytes     = 1 << 20
	maxAuthBodyBytes = 64 << 10
	// firstRead limits the memory that a body gets before any of it has arrived.
	firstRead = 4 << 10
)

// readBody returns the body of the request. It fails with 415 if the body is not declared as
// JSON, and with 413 if it is longer than limit.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, within time.Duration) ([]byte, error) {
	if !isJSON(r.Header) {
		return nil, errMediaType
	}
	return readRaw(w, r, limit, within)
}

// readRaw is readBody for a body of any type.
func readRaw(w http.ResponseWriter, r *http.Request, limit int64, within time.Duration) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	capacity := int64(firstRead)
	if 0 < r.ContentLength && r.ContentLength < capacity {
		capacity = r.ContentLength
	}
	// The deadline ends with the body: a run may take longer.
	deadline := http.NewResponseController(w)
	_ = deadline.SetReadDeadline(time.Now().Add(within)) // a test's recorder has no deadline
	body := bytes.NewBuffer(make([]byte, 0, capacity+bytes.MinRead))
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, limit)); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, tooLarge(limit)
		}
		var f request.Faults
		f.Body("", request.CodeFormat, "the body could not be read to its end")
		return nil, errors.Join(f.Err(), err)
	}
	_ = deadline.SetReadDeadline(time.Time{})
	return body.Bytes(), nil
}

// isJSON reports whether the body is declared as JSON or has no declared type.
func isJSON(h http.Header) bool {
	if e := h.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return false
	}
	switch values := h["Content-Type"]; {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return true
	case len(values) > 1:
		return false
	case values[0] == typeJSON: // nearly always
		return true
	}
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return false
	}
	sub, ok := strings.CutPrefix(media, "application/")
	return ok && (sub == "json" || strings.HasSuffix(sub, "+json") && len(sub) > len("+json"))
}
