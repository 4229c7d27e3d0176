package chartalert

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/agentsignal/agentsignal/actors/jsonobject"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/spelling"
)

// canonical writes Alert.Parameters.
type canonical struct {
	dropped []string // names of credentials inside values
}

// parameters returns the object with the values of list, which it sorts.
func (c *canonical) parameters(list []given) ([]byte, error) {
	slices.SortFunc(list, func(a, b given) int { return cmp.Compare(a.name, b.name) })
	b := []byte{'{'}
	var err error
	for i, g := range list {
		if i > 0 {
			b = append(b, ',')
		}
		if b = append(signal.AppendText(b, g.name), ':'); g.json == nil {
			b = signal.AppendText(b, tokens.ReplaceAllString(g.text, masked))
		} else if b, err = c.add(b, g.name, g.json); err != nil {
			return nil, err
		}
	}
	b = append(b, '}')
	if len(b) > MaxParameters {
		return nil, fail(CodeTooLong, "the values of names that are not understood have %d bytes, and at most %d are kept: "+
			"leave some out, such as %q", len(b), MaxParameters, spelling.Shorten(list[0].name))
	}
	return b, nil
}

// add adds a JSON value without white space and credentials, with sorted members. name is for
// errors.
func (c *canonical) add(b []byte, name string, value []byte) ([]byte, error) {
	var err error
	switch first := value[0]; {
	case first == '"':
		return signal.AppendText(b, tokens.ReplaceAllString(string(jsonobject.Text(value)), masked)), nil
	case first == '[':
		b = append(b, '[')
		for item := range jsonobject.Items(value) {
			if b[len(b)-1] != '[' {
				b = append(b, ',')
			}
			if b, err = c.add(b, name, item); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case first == '{':
		return c.object(b, name, value)
	case first == '-' || '0' <= first && first <= '9':
		if _, err := strconv.ParseFloat(string(value), 64); err != nil {
			return nil, fail(CodeInvalidValue, "%s has a number that is too large", spelling.Shorten(name))
		}
	}
	return append(b, value...), nil
}

func (c *canonical) object(b []byte, name string, object []byte) ([]byte, error) {
	type member struct{ name, value []byte }
	var members []member
	for n, value := range jsonobject.Members(object) {
		if names[compact(string(n))].field == secret {
			c.dropped = append(c.dropped, name+"."+string(n))
			continue
		}
		members = append(members, member{n, value})
	}
	slices.SortStableFunc(members, func(a, b member) int { return slices.Compare(a.name, b.name) })
	b = append(b, '{')
	var err error
	for i, m := range members {
		if i > 0 {
			if string(members[i-1].name) == string(m.name) {
				return nil, fail(CodeDuplicate, "%q is given twice in %s: keep one of them", spelling.Shorten(string(m.name)),
					spelling.Shorten(name))
			}
			b = append(b, ',')
		}
		b = append(signal.AppendText(b, string(m.name)), ':')
		if b, err = c.add(b, name+"."+string(m.name), m.value); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// sizes are the names of sizes, and percentages those of their units at OKX and 3Commas.
var (
	sizes       = strings.Fields("size qty quantity q amount volume")
	percentages = strings.Fields("percentageposition positionpercent")
)

// partial refuses to close a part of a position.
func partial(list []given) error {
	var size given
	percent := false
	list = slices.Clip(list)
	for _, g := range list {
		if g.key == "order" && g.json != nil && g.json[0] == '{' {
			for member, value := range jsonobject.Members(g.json) {
				list = append(list, given{name: g.name + "." + string(member), key: compact(string(member)),
					text: strings.Trim(string(value), `"`)})
			}
		}
	}
	for _, g := range list {
		if slices.Contains(sizes, g.key) && !g.composite() {
			size = g
			percent = percent || strings.HasSuffix(g.text, "%")
		}
		percent = percent || slices.Contains(percentages, compact(g.text))
	}
	if part := strings.TrimSuffix(size.text, "%"); percent && part != "" && part != "100" {
		return fail(CodeNotRepresented, "%s asks for a part of the position, and a signal is closed as a whole: leave it "+
			"out, or do not send partial exits", quoted([]given{size}))
	}
	return nil
}
