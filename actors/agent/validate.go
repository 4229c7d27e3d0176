package agent

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Fault describes an invalid value of a request.
type Fault struct {
	Pointer string // JSON Pointer into the body
	Code    string // stable name, such as invalid_value
	Detail  string // for people
}

// Codes of faults.
const (
	codeInvalidValue  = "invalid_value"
	codeInvalidFormat = "invalid_format"
	codeUnknownField  = "unknown_field"
	codeTooLong       = "too_long"
	codeTooShort      = "too_short"
)

// Limits of an agent's parameters.
const (
	MaxPhrases      = 20  // keywords, and features
	MaxPhraseLength = 100 // characters of each
	MaxLocaleLength = 35
)

// Regions of the weather agent. The first is the default.
var Regions = []string{"global", "us", "eu", "asia"}

// Commodities are the assets of the weather agent.
var Commodities = []string{"natural_gas", "wheat", "corn", "oil"}

// commoditiesOf lists the assets that each weather strategy can judge.
var commoditiesOf = map[string][]string{
	"commodity_impact": Commodities,
	"energy_demand":    {"natural_gas", "oil"},
	"agriculture":      {"corn", "wheat"},
}

// CommoditiesOf returns the assets that a weather strategy can judge.
func CommoditiesOf(strategy string) []string { return commoditiesOf[strategy] }

// Check returns what agent does not accept of a request: its strategy, asset and
// parameters, in this order. An empty strategy or asset is no fault here: the reader of
// the request requires them, and checks what is the same for all agents.
func Check(agent signal.Agent, req signal.RunRequest) []Fault {
	var faults []Fault
	if req.Strategy != "" && !agent.Has(req.Strategy) {
		faults = append(faults, notOneOf("/strategy", agent.Strategies))
	}
	p := req.Parameters
	switch agent.Category {
	case signal.Trading:
		faults = append(faults, foreign(p.Region != "", "region", agent)...)
		faults = append(faults, foreignContent(p, agent)...)
	case signal.Weather:
		faults = append(faults, checkCommodity(agent, req)...)
		if p.Region != "" && !slices.Contains(Regions, p.Region) {
			faults = append(faults, notOneOf("/parameters/region", Regions))
		}
		faults = append(faults, foreignContent(p, agent)...)
	case signal.Content:
		faults = append(faults, foreign(p.Region != "", "region", agent)...)
		faults = append(faults, checkPhrases("keywords", p.Keywords)...)
		faults = append(faults, checkPhrases("features", p.Features)...)
		if p.Locale != "" && !isLocale(p.Locale) {
			const detail = "must be a language tag such as en-US"
			faults = append(faults, Fault{"/parameters/locale", codeInvalidFormat, detail})
		}
	}
	return faults
}

func notOneOf(pointer string, allowed []string) Fault {
	return Fault{pointer, codeInvalidValue, "must be one of: " + strings.Join(allowed, ", ")}
}

// foreignContent refuses the parameters of the content agent.
func foreignContent(p signal.Parameters, agent signal.Agent) []Fault {
	return slices.Concat(foreign(p.Keywords != nil, "keywords", agent), foreign(p.Features != nil, "features", agent),
		foreign(p.Locale != "", "locale", agent))
}

// foreign refuses a parameter that belongs to another agent.
func foreign(given bool, name string, agent signal.Agent) []Fault {
	if !given {
		return nil
	}
	detail := "the agent " + string(agent.ID) + " has no parameter " + name
	return []Fault{{"/parameters/" + name, codeUnknownField, detail}}
}

// checkCommodity checks that the asset is a commodity that the strategy can judge.
func checkCommodity(agent signal.Agent, req signal.RunRequest) []Fault {
	if req.Asset == "" || agent.Account != "" { // an account's agent writes about any subject
		return nil
	}
	allowed, detail := Commodities, "must be one of: "
	if agent.Has(req.Strategy) {
		allowed, detail = commoditiesOf[req.Strategy], "for the strategy "+req.Strategy+" it must be one of: "
	}
	if slices.ContainsFunc(allowed, func(c string) bool { return strings.EqualFold(c, req.Asset) }) {
		return nil
	}
	return []Fault{{"/asset", codeInvalidValue, detail + strings.Join(allowed, ", ")}}
}

// checkPhrases checks a list of short texts.
func checkPhrases(name string, phrases []string) []Fault {
	pointer := "/parameters/" + name
	if len(phrases) > MaxPhrases {
		return []Fault{{pointer, codeTooLong, "at most " + strconv.Itoa(MaxPhrases) + " are allowed"}}
	}
	var faults []Fault
	for i, phrase := range phrases {
		at := pointer + "/" + strconv.Itoa(i)
		switch {
		case strings.TrimSpace(phrase) == "":
			faults = append(faults, Fault{at, codeTooShort, "must not be empty"})
		case utf8.RuneCountInString(phrase) > MaxPhraseLength:
			detail := "at most " + strconv.Itoa(MaxPhraseLength) + " characters are allowed"
			faults = append(faults, Fault{at, codeTooLong, detail})
		case !utf8.ValidString(phrase) || strings.ContainsFunc(phrase, unicode.IsControl):
			faults = append(faults, Fault{at, codeInvalidFormat, "must not contain control characters"})
		}
	}
	return faults
}

// isLocale reports whether s has the form of a BCP 47 tag: a language of 2 or 3 letters
// and subtags of 1 to 8 letters or digits, joined by hyphens.
func isLocale(s string) bool {
	if len(s) > MaxLocaleLength {
		return false
	}
	for i, part := range strings.Split(s, "-") {
		if len(part) == 0 || len(part) > 8 || i == 0 && (len(part) < 2 || len(part) > 3) {
			return false
		}
		for _, c := range []byte(part) {
			letter := c|0x20 >= 'a' && c|0x20 <= 'z'
			if !letter && (i == 0 || c < '0' || c > '9') {
				return false
			}
		}
	}
	return true
}
