package content

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"
)

// The strategies.
const (
	BlogPost           = "blog_post"
	ProductDescription = "product_description"
	MetaTags           = "meta_tags"
)

// The writers of texts, as named in metadata.
const (
	writerTemplate = "template"
	writerChat     = "chat"
)

// Request describes the text to be written.
type Request struct {
	Strategy string   // one of the strategies above
	Subject  string   // not empty
	Keywords []string // the first is the one to be found by; empty: the subject is
	Features []string // features of the subject that the text must name
	Locale   string   // such as en-US, the default
}

// Keyword returns the phrase by which the text is to be found.
func (r *Request) Keyword() string {
	if len(r.Keywords) > 0 {
		return r.Keywords[0]
	}
	return r.Subject
}

// normal returns r without surrounding spaces, empty values and repetitions, so that
// equivalent requests become equal.
func normal(r Request) Request {
	r.Subject, r.Locale = strings.TrimSpace(r.Subject), cmp.Or(strings.TrimSpace(r.Locale), "en-US")
	r.Keywords, r.Features = distinct(r.Keywords), distinct(r.Features)
	return r
}

// distinct returns the non-empty values without repetitions, ignoring case.
func distinct(values []string) []string {
	all := []string{}
	for _, v := range values {
		v = strings.TrimSpace(v)
		if v != "" && !slices.ContainsFunc(all, func(known string) bool { return strings.EqualFold(known, v) }) {
			all = append(all, v)
		}
	}
	return all
}

// Text is a text with its rating.
type Text struct {
	Confidence float64
	Metadata   json.RawMessage // an object that includes the text
	Lifetime   time.Duration   // how long the text is considered current
}

// lifetimes are by the clock, however fast the market runs.
var lifetimes = map[string]time.Duration{BlogPost: 30 * 24 * time.Hour, ProductDescription: 60 * 24 * time.Hour,
	MetaTags: 14 * 24 * time.Hour}

// Options are the optional parts of a Writer. The zero value uses no endpoint.
type Options struct {
	Chat ChatOptions  // without a URL no endpoint is used
	Log  *slog.Logger // or nil
}

// Writer writes texts. It is safe for concurrent use.
type Writer struct {
	chat *chat // or nil
	log  *slog.Logger
}

// New returns a writer. The error means that the options of the endpoint are not valid.
func New(o Options) (*Writer, error) {
	w := &Writer{log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)).With("component", "content")}
	if o.Chat.URL == "" {
		return w, nil
	}
	var err error
	w.chat, err = newChat(o.Chat)
	return w, err
}

// Write writes and checks a text. If the endpoint fails or takes too long, the built-in
// writer is used. The error means that the strategy does not exist or that ctx has ended.
func (w *Writer) Write(ctx context.Context, r Request) (Text, error) {
	if _, known := lifetimes[r.Strategy]; !known {
		return Text{}, fmt.Errorf("write content: no strategy %q", r.Strategy)
	}
	r = normal(r)
	m := metadata{Writer: writerTemplate}
	if w.chat != nil {
		content, err := w.chat.write(ctx, &r)
		switch {
		case err == nil:
			m.Writer, m.Model = writerChat, w.chat.o.Model
			return finish(&r, content, m), nil
		case ctx.Err() != nil:
			return Text{}, fmt.Errorf("write content: %w", context.Cause(ctx))
		}
		m.Fallback = reasonOf(err)
		w.log.Warn("chat endpoint has written nothing: the built-in writer does", "strategy", r.Strategy, "err", err)
	}
	content, err := compose(&r)
	if err != nil {
		return Text{}, err
	}
	return finish(&r, content, m), nil
}

// metadata is the metadata of a signal.
type metadata struct {
	Indicators []string       `json:"indicators"` // the names of the checks
	Reasoning  string         `json:"reasoning"`
	Measure    string         `json:"measure"` // what Text.Confidence is
	Values     map[string]any `json:"values"`  // of the checks
	Failed     []string       `json:"failed"`  // the names of the checks that failed
	Content    string         `json:"content"` // Markdown; HTML for meta_tags
	Format     string         `json:"format"`
	Keyword    string         `json:"keyword"`
	Keywords   []string       `json:"keywords"` // extracted from the request, the most important first
	Writer     string         `json:"writer"`
	Model      string         `json:"model,omitempty"`           // of the endpoint
	Fallback   string         `json:"fallback_reason,omitempty"` // why the endpoint was not used
}

// measure names what the confidence of a text is: the share of checks that it passes. That of a
// trade is a probability.
const measure = "checks_passed"

// finish checks a text and returns it with its rating.
func finish(r *Request, content string, m metadata) Text {
	report := examine(r, content)
	m.Indicators, m.Values, m.Failed = report.names, report.values, report.failed
	m.Reasoning, m.Measure = reasoning(r, report), measure
	if m.Writer == writerTemplate && !inEnglish(r) {
		m.Reasoning += fmt.Sprintf(" The text is in English: the built-in writer does not know %s.", r.Locale)
	}
	m.Content, m.Keyword, m.Keywords = content, r.Keyword(), related(r)
	m.Format = "markdown"
	if r.Strategy == MetaTags {
		m.Format = "html"
	}
	encoded, err := json.Marshal(m)
	if err != nil { // every value is a text or a finite number
		panic("encode metadata of content: " + err.Error())
	}
	return Text{Confidence: report.share, Metadata: encoded, Lifetime: lifetimes[r.Strategy]}
}

// reasoning describes the result of the checks in words.
func reasoning(r *Request, p report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s", map[string]string{BlogPost: "Blog post", ProductDescription: "Product description",
		MetaTags: "Meta tags"}[r.Strategy], r.Subject)
	if slices.Contains(p.failed, subjectMatter) {
		b.WriteString(", only a frame to be filled in with facts")
	}
	b.WriteString(": ")
	switch r.Strategy {
	case BlogPost:
		fmt.Fprintf(&b, "%v words under %v headings, reading ease %v, %q at %v %% of the words.",
			p.values["word_count"], p.values["heading_count"], p.values["reading_ease"],
			r.Keyword(), p.values["keyword_density"])
	case ProductDescription:
		fmt.Fprintf(&b, "%v words", p.values["word_count"])
		if n := len(r.Features); n > 0 {
			fmt.Fprintf(&b, ", features named: %v of %d", p.values["features_named"], n)
		}
		b.WriteByte('.')
	case MetaTags:
		fmt.Fprintf(&b, "a title of %v and a description of %v characters.", p.values["title_length"],
			p.values["description_length"])
	}
	if len(p.failed) == 0 {
		fmt.Fprintf(&b, " It passes all %d checks", len(p.names))
	} else {
		fmt.Fprintf(&b, " It passes %d of %d checks, not %s", len(p.names)-len(p.failed), len(p.names),
			strings.Join(p.failed, ", "))
	}
	b.WriteString("; the confidence is the weighted share of checks passed, not a probability.")
	return b.String()
}

// rounded returns v rounded to the given number of decimals.
func rounded(v float64, decimals int) float64 {
	scale := math.Pow10(decimals)
	return math.Round(v*scale) / scale
}

// inEnglish reports whether the locale of r is English, the only language of the built-in
// writer.
func inEnglish(r *Request) bool {
	language, _, _ := strings.Cut(r.Locale, "-")
	return strings.EqualFold(language, "en")
}

// locale returns the locale of a text of the built-in writer in the form of Open Graph,
// with the region of r.
func locale(r *Request) string {
	if _, region, _ := strings.Cut(r.Locale, "-"); inEnglish(r) && len(region) == 2 {
		return "en_" + strings.ToUpper(region)
	}
	return "en_US"
}
