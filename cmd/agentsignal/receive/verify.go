package receive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/webhook/signature"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
)

// errNotGenuine ends the command when a request does not pass.
var errNotGenuine = errors.New("the request is not genuine")

func webhookVerify() *cobra.Command {
	var secrets secretFlags
	var request, headers, body, at string
	var timeless bool
	c := &cobra.Command{
		Use: "verify", Short: "Verify a saved delivery and report what fits", Args: cobra.NoArgs,
		Long: "Verify a saved delivery and report what fits and what does not. It is given as a raw HTTP\n" +
			"request, such as agentsignal webhook listen --save writes, or as a file of headers, a\n" +
			"line each, and one of the body, byte for byte. Ends with 0 if the request is genuine.",
		Example: "  agentsignal webhook verify --secret-file secret.txt --request saved.http --no-time-check\n" +
			"  agentsignal webhook verify --secret-file secret.txt --headers headers.txt --body body.json " +
			"--at 2026-11-21T09:30:00Z",
		RunE: func(cmd *cobra.Command, _ []string) error {
			given, err := secrets.read(cmd)
			if err != nil {
				return err
			}
			if len(given) == 0 {
				return errNoSecret
			}
			if (request == "") == (headers == "" && body == "") || (headers == "") != (body == "") {
				return errors.New("give --request, or --headers and --body")
			}
			now, err := checkTime(at)
			if err != nil {
				return err
			}
			saved, err := readSaved(request, headers, body)
			if err != nil {
				return err
			}
			found := examine(given, saved, now, timeless)
			return found.print(cmd.OutOrStdout())
		},
	}
	secrets.add(c)
	c.Flags().StringVar(&request, "request", "", "file with a raw HTTP request")
	c.Flags().StringVar(&headers, "headers", "", "file with the headers, a line each")
	c.Flags().StringVar(&body, "body", "", "file with the body")
	c.Flags().StringVar(&at, "at", "", "time to compare with, RFC 3339 or Unix seconds; default: now")
	c.Flags().BoolVar(&timeless, "no-time-check", false, "do not check when the request was sent")
	return c
}

// checkTime reads the time of --at.
func checkTime(at string) (time.Time, error) {
	if at == "" {
		return time.Now(), nil
	}
	if seconds, err := strconv.ParseInt(at, 10, 64); err == nil {
		return time.Unix(seconds, 0), nil
	}
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return t, fmt.Errorf("--at %q: give a time like 2026-11-21T09:30:00Z, or Unix seconds", at)
	}
	return t, nil
}

// verdict is the result for one part of a request.
type verdict string

const (
	partFits  verdict = "ok"
	partFails verdict = "NO"
	partNoted verdict = "--" // neither; for information
)

// finding is the verdict on one part of a request, with the reason.
type finding struct {
	verdict    verdict
	what, text string
}

// findings are the findings on a request, which is genuine if none fails.
type findings []finding

func (f *findings) add(v verdict, what, format string, args ...any) {
	*f = append(*f, finding{v, what, fmt.Sprintf(format, args...)})
}

// print writes the findings, and returns an error if the request is not genuine.
func (f findings) print(w io.Writer) error {
	for _, one := range f {
		line := fmt.Sprintf("%s  %-20s %s", one.verdict, one.what, one.text)
		if _, err := fmt.Fprintln(w, strings.ReplaceAll(command.Printable(line), "\n", " ")); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(f, func(one finding) bool { return one.verdict == partFails }) {
		return errNotGenuine
	}
	_, err := fmt.Fprintln(w, "the request is genuine")
	return err
}

// examination is a request with the findings so far.
type examination struct {
	*savedRequest
	findings
	secrets []string
}

// examine checks all parts of a request. signature.Verify decides whether it is genuine. The
// other findings explain that, and check the headers that no signature covers.
func examine(secrets []string, r *savedRequest, now time.Time, timeless bool) findings {
	e := &examination{savedRequest: r, secrets: secrets}
	for _, n := range r.notes {
		e.add(partNoted, "body", "%s", n)
	}
	e.once()
	sent, err := strconv.ParseInt(r.header.Get(signature.HeaderStandardTimestamp), 10, 64)
	if timeless && err == nil {
		now = time.Unix(sent, 0)
	}
	by, why := verifyBy(secrets, r.header, r.body, now)
	e.signatures()
	if r.header.Get(signature.HeaderStandardSignature) != "" {
		e.time(sent, err, now, timeless)
	}
	e.content()
	if why != nil {
		e.add(partFails, "verification", "%v", why)
	} else {
		e.add(partFits, "verification", "signed with secret %d of %d", by+1, len(secrets))
	}
	return e.findings
}

// once fails duplicate headers of the verification, since receivers differ in which one they
// read.
func (e *examination) once() {
	for _, name := range []string{signature.HeaderSignature, signature.HeaderStandardID,
		signature.HeaderStandardTimestamp, signature.HeaderStandardSignature} {
		if n := len(e.header.Values(name)); n > 1 {
			e.add(partFails, name, "is given %d times", n)
		}
	}
}

// signatures finds the secrets that the signatures were made with.
func (e *examination) signatures() {
	given := e.header.Get(signature.HeaderSignature)
	standard := e.header.Get(signature.HeaderStandardSignature)
	fitsBody := e.fits(signature.HeaderSignature)
	fitsAll := e.fits(signature.HeaderStandardSignature, signature.HeaderStandardID, signature.HeaderStandardTimestamp)
	ours, by := e.signedBy(e.body, fitsBody), e.signedBy(e.body, fitsAll)
	switch {
	case given == "":
		e.add(partNoted, signature.HeaderSignature, "is missing")
	case ours > 0:
		e.add(partFits, signature.HeaderSignature, "fits secret %d and the body", ours)
	case !strings.HasPrefix(given, "sha256="):
		e.add(partFails, signature.HeaderSignature, "%.40q does not have the form sha256=HEX", given)
	case by > 0:
		// During a rotation it is made with the new secret only.
		e.add(partNoted, signature.HeaderSignature,
			"fits no secret given: after a rotation it is made with the new one")
	default:
		e.add(partFails, signature.HeaderSignature, "fits no secret given with this body%s", e.hint(fitsBody))
	}
	switch {
	case standard == "":
		e.add(partNoted, signature.HeaderStandardSignature,
			"is missing: nothing signs the time, so the request can be sent again by others")
	case by > 0:
		e.add(partFits, signature.HeaderStandardSignature, "fits secret %d, the id, the time and the body", by)
	default:
		e.add(partFails, signature.HeaderStandardSignature, "fits no secret given with this id, time and body%s",
			e.hint(fitsAll))
	}
}

// signedBy returns the number, from 1, of the first secret that fits, or 0.
func (e *examination) signedBy(body []byte, fit func(secret string, body []byte) bool) int {
	return 1 + slices.IndexFunc(e.secrets, func(s string) bool { return fit(s, body) })
}

// fits returns whether a secret and a body fit one of the signatures, which covers the other headers.
func (e *examination) fits(names ...string) func(secret string, body []byte) bool {
	header := http.Header{}
	for _, name := range names {
		header.Set(name, e.header.Get(name))
	}
	sent, _ := strconv.ParseInt(header.Get(signature.HeaderStandardTimestamp), 10, 64) // Verify fails without one
	return func(secret string, body []byte) bool {
		return signature.Verify(secret, header, body, time.Unix(sent, 0)) == nil
	}
}

// hint returns how the body has probably been changed, or "".
func (e *examination) hint(fit func(secret string, body []byte) bool) string {
	trimmed := bytes.TrimRight(e.body, "\r\n")
	var compact bytes.Buffer
	switch {
	case len(trimmed) < len(e.body) && e.signedBy(trimmed, fit) > 0:
		return ": it would without the line end at the end"
	case json.Compact(&compact, e.body) == nil && e.signedBy(compact.Bytes(), fit) > 0:
		return ": it would without the white space, so the JSON was formatted after it came"
	}
	return ""
}

// time checks the time at which the request was sent.
func (e *examination) time(sent int64, err error, now time.Time, timeless bool) {
	given := e.header.Get(signature.HeaderStandardTimestamp)
	if err != nil {
		e.add(partFails, signature.HeaderStandardTimestamp, "%.40q is not a time in Unix seconds", given)
		return
	}
	at := time.Unix(sent, 0).UTC()
	text, age := at.Format(time.RFC3339), now.Sub(at).Round(time.Second)
	switch {
	case timeless:
		e.add(partNoted, signature.HeaderStandardTimestamp, "%s: not compared", text)
	case age.Abs() <= signature.Tolerance:
		e.add(partFits, signature.HeaderStandardTimestamp, "%s: within %v", text, signature.Tolerance)
	case age > 0:
		e.add(partFails, signature.HeaderStandardTimestamp, "%s: %v ago, more than %v; for a saved request see --at",
			text, age, signature.Tolerance)
	default:
		e.add(partFails, signature.HeaderStandardTimestamp, "%s: %v ahead, more than %v", text, -age,
			signature.Tolerance)
	}
	if t := e.header.Get(signature.HeaderTimestamp); t != "" && t != given {
		e.add(partFails, signature.HeaderTimestamp, "%.40q is not that of %s", t, signature.HeaderStandardTimestamp)
	}
}

// content compares the headers that no signature covers with the body.
func (e *examination) content() {
	var envelope struct {
		ID   string `json:"id"`
		Type string `json:"type"`
	}
	if err := json.Unmarshal(e.body, &envelope); err != nil {
		e.add(partNoted, "body", "%d bytes, not a JSON object", len(e.body))
		return
	}
	e.add(partNoted, "body", "%d bytes, event %.64q of type %.64q", len(e.body), envelope.ID, envelope.Type)
	for _, pair := range []struct{ name, want, member string }{
		{signature.HeaderEvent, envelope.Type, "type"}, {signature.HeaderStandardID, envelope.ID, "id"},
	} {
		switch got := e.header.Get(pair.name); {
		case got == "":
		case got == pair.want:
			e.add(partFits, pair.name, "is the %s in the body", pair.member)
		default:
			e.add(partFails, pair.name, "%.64q is not the %s in the body", got, pair.member)
		}
	}
}
