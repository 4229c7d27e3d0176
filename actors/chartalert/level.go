package chartalert

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/agentsignal/agentsignal/actors/jsonobject"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/spelling"
)

// levelOf returns the level of stop or target that list gives, or the zero Level, and the values that
// are not used for it. bare is values.bare.
func levelOf(f field, list []given, bare bool) (level signal.Level, unused []given, err error) {
	var from given
	for _, g := range list {
		if names[g.key].vague != "" {
			unused = append(unused, g)
			continue
		}
		l, err := readLevel(f, g, bare)
		switch {
		case err != nil:
			return signal.Level{}, nil, err
		case l.Value == 0: // charts send it for none
		case level.Value != 0 && l != level:
			return signal.Level{}, nil, fail(CodeContradiction, "%s differ: keep one of them", quoted([]given{from, g}))
		default:
			level, from = l, g
		}
	}
	for _, g := range unused {
		if level.Value == 0 && strings.Trim(g.text, "0.") != "" && g.text != "false" {
			return signal.Level{}, nil, fail(CodeNotRepresented, "%s cannot be used: it is %s. Write %s as a price or as "+
				"a distance such as 1.5%%", quoted([]given{g}), names[g.key].vague, levelName(f))
		}
	}
	return level, unused, nil
}

func levelName(f field) string {
	if f == stop {
		return "stop"
	}
	return "target"
}

// ParseLevel reads a stop or a target as alerts write it: a price such as 95.5, or a distance such as 1.5%, 2atr or, of a
// target, 2R. name is how errors name it: stop or target, in any spelling that Parse knows. KindInvalid.
func ParseLevel(name, text string) (level signal.Level, err error) {
	g := given{name: name, key: compact(name), text: strings.TrimSpace(text)}
	if g.text != "" {
		level, err = readLevel(names[g.key].field, g, false)
	}
	if err == nil && level.Value == 0 {
		err = fail(CodeInvalidValue, "%s must be above 0", quoted([]given{g}))
	}
	return level, err
}

// readLevel reads one level; its value is 0 for none.
func readLevel(f field, g given, bare bool) (signal.Level, error) {
	if g.composite() {
		return readObject(f, g)
	}
	unit, text := names[g.key].unit, g.text
	switch last := text[len(text)-1]; {
	case unit == "" && strings.HasSuffix(strings.ToLower(text), "atr"):
		unit, text = signal.ATRLevel, text[:len(text)-len("atr")]
	case last == '%' && unit != signal.PriceLevel:
		unit, text = signal.PercentLevel, text[:len(text)-1]
	case (last == 'R' || last == 'r') && f == target && unit == "":
		unit, text = signal.RLevel, text[:len(text)-1]
	}
	v, err := number(g, strings.TrimSpace(text), `a price such as 95.5, or a distance such as 1.5% or 2atr`)
	if err == nil && bare && unit == "" && v != 0 {
		err = fail(CodeNotRepresented, "%s cannot be used: in alerts for PineConnector and the like it is pips, a price or a "+
			"percentage by a setting of the receiver. Write %s=1.5%%, or leave the licence out and give a price",
			quoted([]given{g}), g.name)
	}
	return signal.Level{Unit: cmp.Or(unit, signal.PriceLevel), Value: v}, err
}

// readObject reads a level such as {"percent": 1.5}. The type of an order may stand beside it.
func readObject(f field, g given) (signal.Level, error) {
	rule := fail(CodeInvalidValue, `%s must be one of {"price": 95.5}, {"percent": 1.5}, {"atr": 2}, or for the target {"r": 2}`,
		spelling.Shorten(g.name))
	if g.json[0] != '{' {
		return signal.Level{}, rule
	}
	var level signal.Level
	for member, value := range jsonobject.Members(g.json) {
		units := map[string]signal.LevelUnit{"price": signal.PriceLevel, "stopprice": signal.PriceLevel,
			"percent": signal.PercentLevel, "atr": signal.ATRLevel}
		if f == target {
			units = map[string]signal.LevelUnit{"price": signal.PriceLevel, "limitprice": signal.PriceLevel,
				"percent": signal.PercentLevel, "atr": signal.ATRLevel, "r": signal.RLevel}
		}
		inner := given{name: g.name + "." + string(member), key: compact(string(member)), text: string(value), json: value}
		if value[0] == '"' {
			inner.text = strings.TrimSpace(string(jsonobject.Text(value)))
		}
		unit, ok := units[inner.key]
		if inner.key == "type" && slices.Contains([]string{"stop", "limit", "market", "stopmarket"}, compact(inner.text)) {
			continue
		}
		if !ok || inner.composite() {
			return signal.Level{}, rule
		}
		if value[0] == 'n' {
			continue
		}
		v, err := number(inner, inner.text, "a number such as 1.5")
		switch {
		case err != nil:
			return signal.Level{}, err
		case v != 0 && level.Value != 0:
			return signal.Level{}, rule
		case v != 0:
			level = signal.Level{Unit: unit, Value: v}
		}
	}
	return level, nil
}

// number reads a number that is finite and not negative; 0 for an empty text.
func number(g given, text, form string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case text == "":
		return 0, nil
	case strings.Contains(text, ","):
		return 0, fail(CodeInvalidValue, "%s has a comma, which is a decimal point to some and not to others: write it with a "+
			"point and without separators, such as 12.5", quoted([]given{g}))
	case !jsonobject.IsNumber(text) || err != nil || math.IsInf(v, 0) || v < 0:
		return 0, fail(CodeInvalidValue, "%s must be %s, finite and not negative", quoted([]given{g}), form)
	}
	return math.Abs(v), nil // -0
}
