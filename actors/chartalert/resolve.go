package chartalert

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/spelling"
)

const (
	maxAsset = 64 // characters
	maxText  = 100
)

// resolver fills in an alert from its values.
type resolver struct {
	*values
	alert Alert
}

// resolve returns the alert with the values v.
func resolve(v *values) (Alert, error) {
	r := resolver{values: v}
	for _, step := range []func() error{r.asset, r.action, r.levels, r.price, r.bars, r.texts, r.parameters} {
		if err := step(); err != nil {
			return Alert{}, err
		}
	}
	r.alert.Dropped = v.dropped
	return r.alert, nil
}

// one returns the value of a field, which has at most most characters, or "" if it is not given. Values of
// several names must be equal in the form that same gives them.
func (r *resolver) one(f field, most int, same func(string) string) (string, error) {
	list := r.given[f]
	for _, g := range list {
		if utf8.RuneCountInString(g.text) > most || strings.ContainsFunc(g.text, unicode.IsControl) {
			return "", fail(CodeInvalidValue, "%s must have at most %d characters and no control characters",
				quoted([]given{g}), most)
		}
		if same(g.text) != same(list[0].text) {
			return "", fail(CodeContradiction, "%s differ: keep one of them", quoted([]given{list[0], g}))
		}
	}
	if len(list) == 0 {
		return "", nil
	}
	return list[0].text, nil
}

func (r *resolver) asset() (err error) {
	if r.alert.Asset, err = r.one(asset, maxAsset, Symbol); err != nil {
		return err
	}
	if r.alert.Symbol = Symbol(r.alert.Asset); r.alert.Symbol == "" {
		return fail(CodeMissingAsset, `the alert names no asset%s: add "ticker": "{{ticker}}", or a word as in %q`,
			r.misspelt(), example(""))
	}
	return nil
}

// misspelt returns which unknown name may be a misspelt known one, for an error.
func (r *resolver) misspelt() string {
	list := r.given[unknown]
	for _, g := range list[:min(len(list), maxCompared)] {
		if near := spelling.Nearest(g.name, suggestedNames); len(near) > 0 {
			return " (" + strconv.Quote(spelling.Shorten(g.name)) + ": " + spelling.DidYouMean(near) + ")"
		}
	}
	return ""
}

// action finds what is asked for: by the position if it is given, or else by the action.
func (r *resolver) action() (err error) {
	if r.alert.Position, err = r.positionOf(position); err != nil {
		return err
	}
	if r.alert.Previous, err = r.positionOf(previous); err != nil {
		return err
	}
	var known []given
	for _, g := range r.given[action] {
		word := compact(g.text)
		_, ok := words[word]
		switch p := r.alert.Position; {
		case ok:
			known = append(known, g)
		case p == "", p != Flat && forbidden(word):
			return unknownAction(g)
		default: // the position decides alone
			r.given[unknown] = append(r.given[unknown], g)
		}
	}
	switch p := r.alert.Position; {
	case p == Flat:
		r.alert.Action = Close
	case p != "":
		r.alert.Action = map[Position]Action{Long: OpenLong, Short: OpenShort}[p]
		for _, g := range known {
			if w := words[compact(g.text)]; (w.act == exit || w.act == flat) && w.side != p.opposite() {
				return contradiction([]given{r.given[position][0], g})
			}
		}
	case len(known) == 0:
		return fail(CodeMissingAction, `the alert does not say what to do%s: add "action": "buy", or in an alert of a strategy `+
			`"position": "{{strategy.market_position}}", or write a line such as %q`, r.misspelt(), example(r.alert.Asset))
	default:
		r.alert.Action, err = combine(known)
	}
	return err
}

// opposite returns the position of the other direction.
func (p Position) opposite() Position {
	return map[Position]Position{Long: Short, Short: Long}[p]
}

// positionOf returns the position in a field, or "" if there is none.
func (r *resolver) positionOf(f field) (Position, error) {
	value := Position("")
	for _, g := range r.given[f] {
		var p Position
		switch w, ok := words[compact(g.text)]; {
		case ok && w.act == way:
			p = w.side
		case ok && w.act == flat:
			p = Flat
		default:
			return "", fail(CodeUnknownAction, "%s is no position: write long, short or flat, or in an alert of a strategy "+
				"{{strategy.market_position}}; an action is named action", quoted([]given{g}))
		}
		if value != "" && p != value {
			return "", contradiction(r.given[f])
		}
		value = p
	}
	return value, nil
}

// levels reads stop and target.
func (r *resolver) levels() (err error) {
	var unused, more []given
	if r.alert.Stop, unused, err = levelOf(stop, r.given[stop], r.bare); err != nil {
		return err
	}
	r.alert.Target, more, err = levelOf(target, r.given[target], r.bare)
	r.given[unknown] = slices.Concat(r.given[unknown], unused, more)
	return err
}

// price takes the first of the names of the price. The others are kept.
func (r *resolver) price() error {
	rank := func(g given) int {
		return slices.IndexFunc(priceNames, func(name string) bool { return compact(name) == g.key })
	}
	list := r.given[price]
	slices.SortStableFunc(list, func(a, b given) int { return cmp.Compare(rank(a), rank(b)) })
	for _, g := range list {
		if r.alert.Price != 0 {
			r.given[unknown] = append(r.given[unknown], g)
			continue
		}
		v, err := number(g, g.text, "a price such as 95.5")
		if err != nil {
			return err
		}
		r.alert.Price = v
	}
	return nil
}

func (r *resolver) bars() (err error) {
	length := func(text string) string {
		_, bar, _ := Interval(text)
		return bar.String()
	}
	if r.alert.Interval, err = r.one(interval, maxText, length); err != nil || r.alert.Interval == "" {
		return err
	}
	ok := false
	if r.alert.Timeframe, r.alert.Bar, ok = Interval(r.alert.Interval); !ok {
		return fail(CodeInvalidValue, "%s is no interval: write minutes, such as 5 or 240, or a number with a unit, such as "+
			"15S, 5m, 4h, 1D, W or 1M", quoted(r.given[interval][:1]))
	}
	return nil
}

// texts reads strategy, reference and confidence.
func (r *resolver) texts() (err error) {
	same := func(s string) string { return s }
	if r.alert.Strategy, err = r.one(strategy, maxText, same); err != nil {
		return err
	}
	if r.alert.Reference, err = r.one(reference, maxText, same); err != nil {
		return err
	}
	text, err := r.one(confidence, maxText, same)
	if err != nil || text == "" {
		return err
	}
	g, scale := r.given[confidence][0], 1.0
	if bare, ok := strings.CutSuffix(text, "%"); ok {
		text, scale = strings.TrimSpace(bare), 100
	}
	v, err := number(g, text, "a number from 0 to 1, or a percentage such as 70%")
	if err == nil && v > scale {
		err = fail(CodeInvalidValue, "%s must be a number from 0 to 1, or a percentage such as 70%%", quoted([]given{g}))
	}
	v /= scale
	r.alert.Confidence = &v
	return err
}

// parameters keeps the values of unknown names.
func (r *resolver) parameters() (err error) {
	list := r.given[unknown]
	if r.alert.Action != OpenLong && r.alert.Action != OpenShort {
		err = partial(list)
	}
	if err == nil && len(list) > 0 {
		c := canonical{}
		r.alert.Parameters, err = c.parameters(list)
		r.dropped = append(r.dropped, c.dropped...)
	}
	return err
}
