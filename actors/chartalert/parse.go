package chartalert

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/jsonobject"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/spelling"
)

// MaxBytes is the maximum length of a body, and MaxParameters that of Alert.Parameters.
const (
	MaxBytes      = 16 << 10
	MaxParameters = 4 << 10
)

// The codes of the errors of Parse.
const (
	CodeTooLong        = "alert_too_long"    // more than MaxBytes, or than MaxParameters in unknown names
	CodeMalformed      = "malformed_alert"   // no text, or JSON with a fault
	CodePlaceholder    = "placeholder"       // a placeholder that the chart has not filled in
	CodeNotAlert       = "not_an_alert"      // a sentence, or commands of another program
	CodeDuplicate      = "duplicate_name"    // a name that is given twice
	CodeMissingAsset   = "missing_asset"     // no asset, or an empty one
	CodeMissingAction  = "missing_action"    // neither a position nor an action with its direction
	CodeUnknownAction  = "unknown_action"    // no known word for an action or a position
	CodeContradiction  = "contradiction"     // two values that cannot both hold
	CodeInvalidValue   = "invalid_value"     // such as a price that is no number
	CodeNotRepresented = "not_representable" // what a signal cannot express, such as pips or a partial exit
)

// fail returns the error of a code with a sentence for the sender.
func fail(code, format string, args ...any) error {
	return &signal.Error{Kind: signal.KindInvalid, Code: code, Message: fmt.Sprintf(format, args...)}
}

// given is a name of the alert with its value.
type given struct {
	name string // as written, after those of the objects around it; empty for a word alone
	key  string // its compact form, without those of the objects around it
	text string // of a string, number or literal
	json []byte // nil in an alert that is not JSON
}

// composite reports whether the value is an object or an array.
func (g given) composite() bool { return g.json != nil && (g.json[0] == '{' || g.json[0] == '[') }

// quoted lists the first values for an error: `action "buy" and side "short"`.
func quoted(list []given) string {
	var b strings.Builder
	for i, g := range list[:min(len(list), maxCompared)] {
		if i > 0 {
			b.WriteString(" and ")
		}
		b.WriteString(strings.TrimSpace(fmt.Sprintf("%s %q", spelling.Shorten(g.name), spelling.Shorten(g.text))))
	}
	return b.String()
}

// values are the values of an alert by what their names stand for.
type values struct {
	given   [fields][]given
	seen    map[string]bool // names
	dropped []string        // names of credentials
	// bare is set for the form of PineConnector, where the unit of a bare level is a setting.
	bare bool
}

// Parse returns what the alert in body asks for. The error is always a *signal.Error of
// KindInvalid with a code of this package and a sentence for the person who has set up the alert, which
// may quote a part of the body.
func Parse(body []byte) (Alert, error) {
	if len(body) > MaxBytes {
		return Alert{}, fail(CodeTooLong, "an alert has at most %d bytes, and this one %d", MaxBytes, len(body))
	}
	text := bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff")))
	v := values{seen: map[string]bool{}}
	err := error(nil)
	switch {
	case len(text) == 0:
		err = fail(CodeMalformed, "the alert is empty: its message must be such as %q", example(""))
	case !utf8.Valid(text):
		err = fail(CodeMalformed, "the alert must be text in UTF-8")
	case bytes.Contains(text, []byte("{{")) || bytes.IndexByte(text, '%') >= 0:
		err = unfilled(text)
	}
	if err == nil && (text[0] == '{' || text[0] == '[' || text[0] == '"') {
		err = v.readJSON(text)
	} else if err == nil {
		err = v.readText(string(text))
	}
	if err != nil {
		return Alert{}, err
	}
	return resolve(&v)
}

// example returns a line that would be understood, for an asset or, if it is empty, for BTCUSD.
func example(asset string) string {
	if asset == "" || len(asset) > 20 {
		asset = "BTCUSD"
	}
	return "long " + asset + " sl=1.5% tp=3%"
}

// placeholder matches those of TradingView and of TrendSpider.
var placeholder = regexp.MustCompile(
	`\{\{[^{}\n]{1,80}\}\}|%(alert_(name|symbol|note)|price_action_event|last_price|bot_[a-z]+)%`)

var placeholders = strings.Fields("ticker exchange open high low close volume time timenow interval plot_0 " +
	"syminfo.currency syminfo.basecurrency strategy.order.action strategy.order.id strategy.order.comment " +
	"strategy.order.price strategy.order.contracts strategy.order.alert_message strategy.market_position " +
	"strategy.market_position_size strategy.prev_market_position strategy.prev_market_position_size strategy.position_size")

// unfilled returns the error of the first placeholder in text, or nil.
func unfilled(text []byte) error {
	found := string(placeholder.Find(text))
	if found == "" {
		return nil
	}
	inner := strings.TrimSpace(strings.Trim(found, "{}"))
	near := spelling.Nearest(inner, placeholders)
	switch {
	case strings.HasPrefix(inner, "strategy.") && slices.Contains(placeholders, inner):
		return fail(CodePlaceholder, "%s was not filled in: TradingView does that only in alerts of a strategy, for its "+
			`order fills. In alerts of an indicator, a drawing or a price write the word itself, such as "action": "buy"`, found)
	case strings.HasPrefix(inner, "plot"):
		return fail(CodePlaceholder, "%s was not filled in: TradingView does that only in alerts of an indicator that has "+
			"this plot. Otherwise write the value itself, or leave the name out", found)
	case found[0] == '%' || slices.Contains(placeholders, inner):
		return fail(CodePlaceholder, "%s was not filled in: the alert was not sent by the program that fills it in. In a "+
			"test write the value itself", found)
	case len(near) > 0:
		return fail(CodePlaceholder, "%s is no placeholder of TradingView: did you mean {{%s}}?", spelling.Shorten(found),
			near[0])
	}
	return fail(CodePlaceholder, "%s was not filled in, as it is no placeholder of TradingView: write the value itself, or "+
		"leave the name out", spelling.Shorten(found))
}

// readJSON reads a JSON text.
func (v *values) readJSON(text []byte) error {
	if err := jsonobject.Check(text); err != nil {
		hint := ""
		switch rest := string(text[min(err.At, len(text)):]); {
		case strings.ContainsAny(string(text), "“”"):
			hint = `: replace the typographic quotes by "`
		case err.Reason == "expected a value" && strings.ContainsRune("NI,}", rune(rest[0])):
			hint = `: put placeholders of numbers in quotes, as in "price": "{{close}}", as NaN or nothing may be filled in`
		case rest != "":
			hint = fmt.Sprintf(", before %.20q", strings.ToValidUTF8(rest[:min(20, len(rest))], ""))
		}
		return fail(CodeMalformed, "malformed JSON: %s%s", err, hint)
	}
	if text[0] != '{' {
		return fail(CodeMalformed, `the JSON must be one object, such as {"asset": "BTCUSD", "action": "buy"}`)
	}
	return v.object("", text)
}

// object adds the members of an object, whose name and a dot are prefix.
func (v *values) object(prefix string, object []byte) error {
	for member, value := range jsonobject.Members(object) {
		g := given{name: prefix + string(member), key: compact(string(member)), text: string(value), json: value}
		switch {
		case value[0] == '"':
			g.text = string(jsonobject.Text(value))
		case value[0] == 'n':
			g.text = ""
		case value[0] == '{' && (prefix == "" && (g.key == "strategy" || g.key == "strategyinfo" || g.key == "bar") ||
			compact(prefix) == "strategy" && g.key == "order"):
			err := v.once(g.name)
			if err == nil {
				err = v.object(g.name+".", value)
			}
			if err != nil {
				return err
			}
			continue
		}
		if err := v.add(g); err != nil {
			return err
		}
	}
	return nil
}

// once refuses a name that was given before.
func (v *values) once(name string) error {
	if v.seen[name] {
		return fail(CodeDuplicate, "%q is given twice: keep one of them", spelling.Shorten(name))
	}
	v.seen[name] = true
	return nil
}

// add adds a value. Empty values of known names are left out.
func (v *values) add(g given) error {
	if err := v.once(g.name); err != nil {
		return err
	}
	g.text = strings.TrimSpace(g.text)
	f := names[g.key].field
	switch {
	case f == secret:
		v.dropped = append(v.dropped, g.name)
		return nil
	case f == unknown:
	case g.text == "":
		return nil
	case g.composite() && f == kind, g.composite() && f == price:
		f = unknown
	case g.composite() && f != stop && f != target:
		return fail(CodeInvalidValue, "%s must be a text or a number", spelling.Shorten(g.name))
	case f == kind:
		f = action
		if value := compact(g.text); words[value] == (word{}) {
			if forbidden(value) {
				return unknownAction(g)
			}
			f = unknown
		}
	}
	v.given[f] = append(v.given[f], g)
	return nil
}

func unknownAction(g given) error {
	hint, value := "write one of "+strings.Join(suggestedWords, ", "), compact(g.text)
	if near := spelling.Nearest(g.text, suggestedWords); len(near) > 0 {
		hint = spelling.DidYouMean(near)
	} else if forbidden(value) || strings.Contains(value, "limit") || strings.Contains(value, "stop") {
		hint = "an alert opens a signal at the market's price or closes it, and changes neither orders nor a part of a " +
			"signal; " + hint
	}
	return fail(CodeUnknownAction, "%s is not understood: %s", quoted([]given{g}), hint)
}
