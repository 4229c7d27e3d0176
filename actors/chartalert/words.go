package chartalert

import (
	"strings"
	"unicode"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// field is what a name of an alert stands for.
type field uint8

const (
	unknown field = iota
	asset
	position
	previous
	action
	kind // names with many uses: action if the value is a word of actions, else unknown
	stop
	target
	price
	interval
	strategy
	reference
	confidence
	secret
	fields
)

// name is what a name stands for.
type name struct {
	field field
	unit  signal.LevelUnit // of a level: the unit that the name states, or empty
	// vague is set for a level that a signal cannot have, and completes "it cannot be used: it is". If
	// another name gives the level, the value is kept as a parameter.
	vague string
}

// priceNames are the names of the price that was seen, the first of which counts.
var priceNames = strings.Fields("price close entry trigger_price signal_price order_price")

// names are the known names in their compact form.
var names = func() map[string]name {
	m := map[string]name{}
	add := func(n name, list string) {
		for _, s := range strings.Fields(list) {
			m[compact(s)] = n
		}
	}
	add(name{field: asset}, "asset ticker symbol pair instrument tv_instrument")
	add(name{field: position}, "market_position position sentiment strategy_market_position")
	add(name{field: previous}, "prev_market_position previous_market_position prev_position previous_position")
	add(name{field: action}, "direction action side order_action strategy_order_action")
	add(name{field: kind}, "signal type order command cmd")
	add(name{field: price}, strings.Join(priceNames, " "))
	add(name{field: interval}, "interval timeframe tf")
	add(name{field: strategy}, "strategy")
	add(name{field: reference}, "reference")
	add(name{field: confidence}, "confidence probability")
	add(name{field: secret}, "secret secret_key webhook_secret password passphrase passwd pwd pin token api_token auth_token "+
		"access_token signal_token email_token apikey api_key api_secret auth auth_key authorization key private_key "+
		"license license_id license_key licence licence_id signature")
	for _, level := range []struct {
		field field
		roots string
	}{{stop, "stop stop_loss sl"}, {target, "target take_profit tp"}} {
		for _, root := range strings.Fields(level.roots) {
			add(name{field: level.field}, root)
			add(name{field: level.field, unit: signal.PriceLevel}, root+"_price")
			add(name{field: level.field, unit: signal.PercentLevel}, root+"_pct "+root+"_percent "+root+"_percentage")
			for _, unit := range []string{"pips", "points", "ticks"} {
				add(name{field: level.field, vague: "in " + unit + ", whose size differs from program to program"}, root+"_"+unit)
			}
			for n := '1'; n <= '9'; n++ {
				add(name{field: level.field, vague: "one of several, and a signal has one"}, root+string(n))
			}
		}
	}
	add(name{field: stop, vague: "a trailing stop, and the stop of a signal stays where it is"},
		"trail trailing_stop trailing_stop_loss trail_percent trail_price trail_points")
	return m
}()

// compact returns a name or word without case and separators: "stopLoss" and "Stop-Loss" are one.
func compact(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == ' ' || r == '.' {
			return -1
		}
		return unicode.ToLower(r)
	}, s)
}

// word is what a word says about the action.
type word struct {
	act  act
	side Position // Long, Short or empty
}

type act uint8

const (
	way   act = iota // a direction: long
	order            // buy opens a long or closes a short
	enter
	exit
	flat
)

// words are the words of actions in their compact form.
var words = func() map[string]word {
	m := map[string]word{
		"buy": {order, Long}, "sell": {order, Short}, "flat": {act: flat},
		"long": {way, Long}, "bullish": {way, Long}, "bull": {way, Long},
		"short": {way, Short}, "bearish": {way, Short}, "bear": {way, Short},
		"positiontypebuy": {enter, Long}, "positiontypesell": {enter, Short},
		"buytoopen": {enter, Long}, "selltoopen": {enter, Short}, "sellshort": {enter, Short},
		"selltoclose": {exit, Long}, "buytoclose": {exit, Short}, "buytocover": {exit, Short}, "cover": {exit, Short},
		"closeposition": {act: exit}, "exitall": {act: exit}, "closeall": {act: exit}, "flatten": {act: exit},
		"exitfill": {act: exit}, "entryfill": {act: enter},
	}
	for verb, act := range map[string]act{"enter": enter, "entry": enter, "open": enter, "exit": exit, "close": exit} {
		m[verb] = word{act: act}
		for _, side := range []Position{Long, Short} {
			m[verb+string(side)], m[string(side)+verb] = word{act, side}, word{act, side}
		}
	}
	return m
}()

// suggested are the words and names that an error suggests for a misspelt one.
var (
	suggestedWords = strings.Fields("buy sell long short bullish bearish enter_long enter_short exit close " +
		"exit_long exit_short close_long close_short flat")
	suggestedNames = strings.Fields("asset ticker symbol pair instrument market_position position sentiment direction " +
		"action side order_action stop stop_loss sl target take_profit tp price interval timeframe strategy reference")
)

// forbidden reports whether a word in its compact form asks for what is neither understood nor safe
// to ignore, such as the change of an order.
func forbidden(value string) bool {
	for _, prefix := range []string{"exit", "close", "cancel", "reverse", "reduce", "change", "modify"} {
		if strings.HasPrefix(value, prefix) {
			return true
		}
	}
	return strings.HasSuffix(value, "exit") || strings.HasSuffix(value, "cancel")
}

// combine returns the action that the known words of list describe together, such as "exit" and
// "long". list must not be empty.
func combine(list []given) (Action, error) {
	var side, ordered Position
	var has [flat + 1]bool
	for _, g := range list {
		w := words[compact(g.text)]
		have := &side
		if w.act == order {
			have = &ordered
		}
		if *have != "" && w.side != "" && *have != w.side {
			return "", contradiction(list)
		}
		if w.side != "" {
			*have = w.side
		}
		has[w.act] = true
	}
	closes := has[exit] || has[flat]
	switch {
	case has[enter] && closes, has[flat] && has[way]:
		return "", contradiction(list)
	case closes && ordered != "" && (side == ordered || side == "" && !has[flat]):
		return "", fail(CodeContradiction, "%s does not say which direction is closed: write exit_long, which closes "+
			"long signals, exit_short, or flat for both", quoted(list))
	case closes:
		return map[Position]Action{"": Close, Long: CloseLong, Short: CloseShort}[side], nil
	case side != "" && ordered != "" && side != ordered:
		return "", contradiction(list)
	case side == "" && ordered == "":
		return "", fail(CodeMissingAction, "%s does not say in which direction: write enter_long or enter_short", quoted(list))
	case side == Long || ordered == Long:
		return OpenLong, nil
	}
	return OpenShort, nil
}

func contradiction(list []given) error {
	return fail(CodeContradiction, "%s contradict each other: keep one of them. Where a chart's position and its order "+
		`differ, send the position as "market_position": it decides alone`, quoted(list))
}
