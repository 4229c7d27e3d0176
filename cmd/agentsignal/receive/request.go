package receive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"os"
	"strconv"
	"strings"
)

// savedRequest is a saved delivery.
type savedRequest struct {
	header http.Header
	body   []byte
	notes  []string // on ignored bytes
}

// readSaved reads a request from one file, or from a file of headers and one of the body.
func readSaved(request, headers, body string) (*savedRequest, error) {
	if request != "" {
		text, err := readAtMost(request, maxHeaderBytes+2*maxDeliveryBytes)
		if err != nil {
			return nil, err
		}
		s, err := parseRequest(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", request, err)
		}
		return s, nil
	}
	text, err := readAtMost(headers, maxHeaderBytes)
	if err != nil {
		return nil, err
	}
	s := &savedRequest{}
	rest, line, err := s.parseHeader(text)
	if err == nil && len(bytes.TrimSpace(rest)) > 0 {
		err = fmt.Errorf("line %d: text after the headers: give a whole request by --request", line)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", headers, err)
	}
	if s.body, err = readAtMost(body, maxDeliveryBytes); err != nil {
		return nil, err
	}
	if err := s.fitLength(); err != nil {
		return nil, fmt.Errorf("%s: %w", body, err)
	}
	return s, nil
}

// readAtMost returns the content of a file of at most maxBytes.
func readAtMost(name string, maxBytes int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err == nil && int64(len(text)) > maxBytes {
		err = fmt.Errorf("%s: the file is longer than %d bytes", name, maxBytes)
	}
	return text, err
}

// parseRequest reads a raw request: a request line, which may be missing, headers, an empty
// line and the body. Lines may end in LF alone.
func parseRequest(text []byte) (*savedRequest, error) {
	s := &savedRequest{}
	rest, _, err := s.parseHeader(text)
	if err != nil {
		return nil, err
	}
	s.body = rest
	switch encoding := strings.Join(s.header.Values("Transfer-Encoding"), ", "); {
	case strings.EqualFold(encoding, "chunked"):
		if s.body, err = io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(rest))); err != nil {
			return nil, fmt.Errorf("read chunked body: %w", err)
		}
	case encoding != "":
		return nil, fmt.Errorf("the transfer encoding %.40q is not known", encoding)
	default:
		if err := s.fitLength(); err != nil {
			return nil, err
		}
	}
	if len(s.body) > maxDeliveryBytes {
		return nil, fmt.Errorf("the body is longer than %d bytes", maxDeliveryBytes)
	}
	return s, nil
}

// parseHeader reads headers up to an empty line, and a request or status line before them.
// It returns the text after the empty line and the number of its first line.
func (s *savedRequest) parseHeader(text []byte) (rest []byte, line int, err error) {
	s.header = http.Header{}
	rest = text
	for line = 1; len(rest) > 0; line++ {
		if len(text)-len(rest) > maxHeaderBytes {
			return nil, line, fmt.Errorf("the headers are longer than %d bytes", maxHeaderBytes)
		}
		var raw []byte
		raw, rest, _ = bytes.Cut(rest, []byte("\n"))
		one := strings.TrimSuffix(string(raw), "\r")
		if one == "" {
			return rest, line + 1, nil
		}
		if line == 1 && isStartLine(one) {
			continue
		}
		name, value, ok := strings.Cut(one, ":")
		value = strings.Trim(value, " \t")
		switch {
		case one[0] == ' ' || one[0] == '\t':
			return nil, line, fmt.Errorf("line %d: a header goes on over two lines: join them", line)
		case !ok || !isToken(name):
			return nil, line, fmt.Errorf("line %d: %.40q is not a header: want Name: value", line, one)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			return nil, line, fmt.Errorf("line %d: a control character in the value of %s", line, name)
		}
		s.header.Add(name, value)
	}
	if len(s.header) == 0 {
		return nil, line, errors.New("there are no headers")
	}
	return nil, line, nil
}

// isStartLine reports whether a line is the first of a request or an answer.
func isStartLine(line string) bool {
	if strings.HasPrefix(line, "HTTP/") {
		return true
	}
	method, rest, _ := strings.Cut(line, " ")
	target, version, ok := strings.Cut(rest, " ")
	return ok && isToken(method) && target != "" && strings.HasPrefix(version, "HTTP/")
}

// isToken reports whether a text is a valid name of a header or a method.
func isToken(text string) bool {
	const marks = "!#$%&'*+-.^_`|~"
	for _, c := range []byte(text) {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && !strings.ContainsRune(marks, rune(c)) {
			return false
		}
	}
	return text != ""
}

// fitLength compares the body with Content-Length, if given, and removes a line end that an
// editor has added.
func (s *savedRequest) fitLength() error {
	given := s.header.Values("Content-Length")
	if len(given) == 0 {
		return nil
	}
	n, err := strconv.ParseUint(given[0], 10, 31)
	if err != nil || len(given) > 1 {
		return fmt.Errorf("Content-Length %.40q is not a length", strings.Join(given, ", "))
	}
	want := int(n)
	switch {
	case len(s.body) < want:
		return fmt.Errorf("the body is cut off: %d of %d bytes are there", len(s.body), want)
	case len(s.body) > want && len(bytes.Trim(s.body[want:], "\r\n")) > 0:
		return fmt.Errorf("the body has %d bytes, but Content-Length says %d", len(s.body), want)
	case len(s.body) > want:
		s.notes = append(s.notes, "the line end at the end of the file is not part of the body")
		s.body = s.body[:want]
	}
	return nil
}
