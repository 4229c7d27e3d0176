package chartalert

import (
	"strings"

	"github.com/agentsignal/agentsignal/actors/spelling"
)

const (
	minLicence  = 8 // digits of the licence with which alerts for PineConnector begin
	maxCompared = 8 // words or names that an error looks at
)

// readText reads an alert that is not JSON.
func (v *values) readText(text string) error {
	if strings.ContainsAny(text, "{}") {
		return fail(CodeNotAlert, "braces are understood only if the whole message is one JSON object: remove what stands "+
			"around it. Commands of other programs are not understood; write %q", example(""))
	}
	var loose []string
	for _, statement := range statements(text) {
		if err := v.statement(statement, &loose); err != nil {
			return err
		}
	}
	if v.seen["b"] || v.seen["c"] {
		return fail(CodeNotAlert, "commands of Autoview and ProfitView are not understood: write %q", example(""))
	}
	return v.words(loose)
}

// statements splits text at line ends, semicolons, and commas that do not stand between two digits.
// Nothing is split in double quotes.
func statements(text string) (list []string) {
	start, quoted, quotes := 0, false, strings.Count(text, `"`)%2 == 0
	for i := 0; i <= len(text); i++ {
		if i < len(text) {
			if text[i] == '"' && quotes {
				quoted = !quoted
			}
			inNumber := text[i] == ',' && isDigit(text, i-1) && isDigit(text, i+1)
			if quoted || inNumber || !strings.ContainsRune("\r\n;,", rune(text[i])) {
				continue
			}
		}
		if s := strings.TrimSpace(text[start:i]); s != "" {
			list = append(list, s)
		}
		start = i + 1
	}
	return list
}

func isDigit(s string, i int) bool { return 0 <= i && i < len(s) && '0' <= s[i] && s[i] <= '9' }

// statement adds the pairs of a statement, and to loose the words before the first.
func (v *values) statement(s string, loose *[]string) error {
	before, name, s, ok := nextPair(s, true)
	*loose = append(*loose, strings.Fields(before)...)
	for ok {
		var next string
		g := given{name: name, key: compact(name)}
		g.text, next, s, ok = nextPair(s, false)
		if n := len(g.text); n > 1 && g.text[0] == '"' && g.text[n-1] == '"' {
			g.text = g.text[1 : n-1]
		}
		if err := v.add(g); err != nil {
			return err
		}
		name = next
	}
	return nil
}

// nextPair finds the next name with its separator: a known name before "=" or ":", the word before
// "=", or, if first, all before a colon and a space. before is the text before the name, and after
// that behind the separator.
func nextPair(s string, first bool) (before, name, after string, ok bool) {
	quoted := false
	for i := range len(s) {
		if s[i] == '"' {
			quoted = !quoted
		}
		if quoted || s[i] != '=' && s[i] != ':' {
			continue
		}
		left := strings.TrimRight(s[:i], " \t")
		at := knownName(left)
		switch {
		case at >= 0 || left == "":
		case s[i] == '=':
			at = strings.LastIndexAny(left, " \t") + 1
		case first && (i+1 == len(s) || s[i+1] == ' '):
			at = 0
		}
		if at >= 0 {
			return strings.TrimSpace(left[:at]), left[at:], s[i+1:], true
		}
	}
	return strings.TrimSpace(s), "", "", false
}

const (
	maxNameWords = 3
	maxNameBytes = 32
)

// knownName returns where the longest known name at the end of s begins, or -1. It compares a bounded
// number of bytes, because a body may have a separator at each.
func knownName(s string) (at int) {
	at = -1
	low := max(0, len(s)-maxNameBytes)
	for end, n := len(s), 0; n < maxNameWords; n++ {
		space := strings.LastIndexAny(s[low:end], " \t")
		if space < 0 && low > 0 {
			break // the word begins before low
		}
		if names[compact(s[low+space+1:])].field != unknown {
			at = low + space + 1
		}
		if space < 0 {
			break
		}
		end = low + len(strings.TrimRight(s[low:low+space], " \t"))
	}
	return at
}

// words adds the words that have no name: actions, and one asset.
func (v *values) words(loose []string) error {
	if len(loose) > 1 && len(loose[0]) >= minLicence && strings.Trim(loose[0], "0123456789") == "" {
		v.bare = true
		v.dropped = append(v.dropped, "licence")
		loose = loose[1:]
	}
	var others []string
	for _, w := range loose {
		if _, ok := words[compact(w)]; ok {
			v.given[action] = append(v.given[action], given{text: w})
		} else {
			others = append(others, w)
		}
	}
	if len(others) == 1 {
		v.given[asset] = append(v.given[asset], given{text: others[0]})
		return nil
	}
	for _, w := range others[:min(len(others), maxCompared)] {
		if c := compact(w); forbidden(c) || strings.HasPrefix(c, "buy") || strings.HasPrefix(c, "sell") ||
			len(spelling.Nearest(w, suggestedWords)) > 0 {
			return unknownAction(given{text: w})
		}
	}
	if len(others) > 0 {
		return fail(CodeNotAlert, "%q is a sentence, not an alert: write an action, an asset and the rest as name=value, such "+
			"as %q", spelling.Shorten(strings.Join(loose, " ")), example(""))
	}
	return nil
}
