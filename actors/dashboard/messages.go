package dashboard

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/jsonobject"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/spelling"
)

// Limits of what a client may send.
const (
	maxRefCharacters   = 64
	maxAssetCharacters = 64
	maxMembers         = 16 // of an object; no valid message has more than five
)

// Error codes of messages.
const (
	codeInvalidMessage = "invalid_message"
	codeUnknownAction  = "unknown_action"
	codeUnknownChannel = "unknown_channel"
	codeInvalidFilter  = "invalid_filter"
	codeAuthRequired   = "auth_required"
	codeTooMany        = "too_many_messages"
)

// credentialForms describes the accepted credentials.
const credentialForms = "an API key, or an access token from login"

// action is the type of a client's request.
type action uint8

const (
	actionNone action = iota
	actionAuth
	actionSubscribe
	actionUnsubscribe
	actionPing
)

// The names that a message may contain.
var (
	actionNames = []string{"auth", "subscribe", "unsubscribe", "ping"}
	filterNames = []string{"assets", "agents", "strategies", "directions", "min_confidence", "min_expected_r_net"}
)

// message is one message of a client, decoded and checked.
type message struct {
	action action
	ref    *string // or nil

	token string // of auth

	channels    []channel     // of subscribe and unsubscribe, each once
	named       bool          // channels was given
	filter      signal.Filter // of subscribe, as written
	lastEventID *string       // of subscribe, or nil

	view *signal.View // of the client: names that it has not do not exist
}

// fault is the reason to refuse a message.
type fault struct {
	code, message string
	filter        string // whose fault a check by the hub has found; empty: of the assets
}

func (f *fault) Error() string { return f.code + ": " + f.message }

func faultf(code, format string, args ...any) *fault {
	return &fault{code: code, message: fmt.Sprintf(format, args...)}
}

// decodeMessage reads a message of a client that sees v. With a fault, the message holds the action and
// the ref, if they could be read, for the reply.
//
// Member names are compared exactly, unlike in encoding/json's structs, and unknown
// and repeated ones are refused, so that an option is never silently dropped.
func decodeMessage(text []byte, v *signal.View) (message, *fault) {
	m := message{view: v}
	list, problem := decodeObject(text)
	if list == nil {
		return m, faultf(codeInvalidMessage,
			`a message must be one JSON object such as {"action":"subscribe","channels":["signal.new"]}`)
	}
	bad := m.decodeRef(list.value("ref"))
	if problem != "" {
		return m, faultf(codeInvalidMessage, "%s", problem)
	}
	name, given, ok := stringMember(list.value("action"))
	if !ok || !given {
		actions := strings.Join(actionNames, ", ")
		return m, faultf(codeInvalidMessage, "action is required and must be one of: %s", actions)
	}
	var decode func(*message, string, []byte) *fault
	switch name {
	case "auth":
		m.action, decode = actionAuth, (*message).decodeAuth
	case "subscribe":
		m.action, decode = actionSubscribe, (*message).decodeSubscribe
	case "unsubscribe":
		m.action, decode = actionUnsubscribe, (*message).decodeUnsubscribe
	case "ping":
		m.action, decode = actionPing, (*message).decodePing
	default:
		return m, unknownName(codeUnknownAction, "action", name, actionNames)
	}
	if bad != nil {
		return m, bad
	}
	for _, one := range list {
		if one.name == "action" || one.name == "ref" {
			continue
		}
		if f := decode(&m, one.name, one.value); f != nil {
			return m, f
		}
	}
	return m, m.check()
}

// check refuses members that do not go together.
func (m *message) check() *fault {
	if slices.Contains(m.channels, marketPrice) && m.action == actionSubscribe && len(m.filter.Assets) == 0 {
		return faultf(codeInvalidFilter, "market.price needs filters.assets, such as BTC: it has only named assets")
	}
	if m.action == actionAuth && m.token == "" {
		return faultf(codeInvalidMessage, "api_key or token is required: "+credentialForms)
	}
	return nil
}

func (m *message) decodeRef(value []byte) *fault {
	ref, given, ok := stringMember(value)
	if !ok {
		return faultf(codeInvalidMessage, "ref must be a string")
	}
	if utf8.RuneCountInString(ref) > maxRefCharacters {
		return faultf(codeInvalidMessage, "ref must have at most %d characters", maxRefCharacters)
	}
	if given {
		m.ref = &ref
	}
	return nil
}

func (m *message) decodeAuth(member string, value []byte) *fault {
	if member != "api_key" && member != "token" {
		return unknownMember(member, "api_key", "token")
	}
	token, given, ok := stringMember(value)
	if !ok || given && token == "" {
		return faultf(codeInvalidMessage, "%s must be a credential as a string: %s", member, credentialForms)
	}
	if given && m.token != "" {
		return faultf(codeInvalidMessage, "give api_key or token, not both")
	}
	if given {
		m.token = token
	}
	return nil
}

func (m *message) decodeSubscribe(member string, value []byte) *fault {
	switch member {
	case "channels":
		return m.decodeChannels(value)
	case "filters":
		return m.decodeFilters(value)
	case "last_event_id":
		id, given, ok := stringMember(value)
		if !ok {
			return faultf(codeInvalidMessage,
				`last_event_id must be the id of a message as a string, such as "1795253400000-0"`)
		}
		if _, position := signal.ParsePosition(id); given && !position {
			return faultf(codeInvalidMessage,
				"last_event_id %q is not the id of a message, such as 1795253400000-0", spelling.Shorten(id))
		}
		if given {
			m.lastEventID = &id
		}
		return nil
	}
	if near := spelling.Nearest(member, filterNames); len(near) > 0 {
		unknown := ""
		if near[0] != member {
			unknown = fmt.Sprintf("no member %q: ", spelling.Shorten(member))
		}
		return faultf(codeInvalidMessage, `%s%s belongs in filters: {"action": "subscribe", "filters": {%[2]q: …}}`,
			unknown, near[0])
	}
	return unknownMember(member, "channels", "filters", "last_event_id")
}

func (m *message) decodeUnsubscribe(member string, value []byte) *fault {
	if member != "channels" {
		return unknownMember(member, "channels")
	}
	return m.decodeChannels(value)
}

func (m *message) decodePing(member string, _ []byte) *fault { return unknownMember(member) }

func (m *message) decodeChannels(value []byte) *fault {
	names, given, ok := stringsMember(value)
	if !ok {
		all := strings.Join(channelNames[:], ", ")
		return faultf(codeInvalidMessage, "channels must be an array of some of: %s", all)
	}
	var seen channelSet
	for _, name := range names {
		c, ok := parseChannel(name)
		if !ok {
			return unknownName(codeUnknownChannel, "channel", name, channelNames[:])
		}
		if !seen.has(c) {
			seen |= 1 << c
			m.channels = append(m.channels, c)
		}
	}
	m.named = given
	return nil
}

func (m *message) decodeFilters(value []byte) *fault {
	if isNull(value) {
		return nil
	}
	filters, problem := decodeObject(value)
	if filters == nil {
		return faultf(codeInvalidFilter, `filters must be an object such as {"assets":["BTC"]}`)
	}
	if problem != "" {
		return faultf(codeInvalidFilter, "%s", problem)
	}
	for _, one := range filters {
		if f := m.decodeFilter(one.name, one.value); f != nil {
			return f
		}
	}
	return nil
}

// decodeFilter reads one member of the filters.
func (m *message) decodeFilter(name string, value []byte) (f *fault) {
	switch filter := &m.filter; name {
	case "assets":
		filter.Assets, f = decodeAssets(value)
	case "agents":
		agents, _ := servicesNames(m.view)
		filter.Agents, f = decodeNames(name, value, agents, true)
	case "strategies":
		_, strategies := servicesNames(m.view)
		filter.Strategies, f = decodeNames(name, value, strategies, true)
	case "directions":
		filter.Directions, f = decodeNames(name, value, signal.Directions, false)
	case "min_confidence":
		filter.MinConfidence, f = decodeNumber(name, value, 0, 1)
	case "min_expected_r_net":
		filter.MinExpectedRNet, f = decodeNumber(name, value, -signal.MaxFilterR, signal.MaxFilterR)
	default:
		return unknownName(codeInvalidFilter, "filter", name, filterNames)
	}
	return f
}

func decodeAssets(value []byte) ([]string, *fault) {
	assets, _, ok := stringsMember(value)
	if !ok {
		return nil, faultf(codeInvalidFilter, `filters.assets must be an array of assets such as ["BTC"]`)
	}
	if len(assets) > signal.MaxFilterAssets {
		return nil, faultf(codeInvalidFilter, "filters.assets must have at most %d assets", signal.MaxFilterAssets)
	}
	for _, a := range assets {
		if f := checkAsset(a); f != nil {
			return nil, f
		}
	}
	return assets, nil
}

// decodeNames reads a filter that lists some of known, each at most once, and if it is open names of an account's own.
func decodeNames[T ~string](filter string, value []byte, known []T, open bool) ([]T, *fault) {
	all := texts(known)
	items, _, ok := stringsMember(value)
	if !ok {
		return nil, faultf(codeInvalidFilter, "filters.%s must be an array of some of: %s", filter, strings.Join(all, ", "))
	}
	var list []T
	for _, text := range items {
		switch {
		case !slices.Contains(all, text) && !(open && signal.IsAgentName(text) && len(spelling.Nearest(text, all)) == 0):
			return nil, unknownName(codeInvalidFilter, "value of "+filter, text, all)
		case slices.Contains(list, T(text)):
			return nil, faultf(codeInvalidFilter, "filters.%s has %q more than once", filter, text)
		}
		list = append(list, T(text))
	}
	return list, nil
}

// texts returns values as strings.
func texts[T ~string](values []T) []string {
	all := make([]string, 0, len(values))
	for _, v := range values {
		all = append(all, string(v))
	}
	return all
}

// decodeNumber reads a filter that is a number from low to high.
func decodeNumber(filter string, value []byte, low, high float64) (*float64, *fault) {
	if isNull(value) {
		return nil, nil
	}
	x, err := strconv.ParseFloat(string(value), 64)
	if err != nil || x < low || x > high {
		return nil, faultf(codeInvalidFilter, "filters.%s must be a number from %g to %g", filter, low, high)
	}
	return &x, nil
}

// checkAsset refuses names that no asset has: assets are trimmed and have 1 to 64
// characters, none of them a control character.
func checkAsset(a string) *fault {
	if n := utf8.RuneCountInString(a); n < 1 || n > maxAssetCharacters {
		return faultf(codeInvalidFilter, "an asset must have 1 to %d characters", maxAssetCharacters)
	}
	if strings.TrimSpace(a) != a || strings.ContainsFunc(a, unicode.IsControl) {
		return faultf(codeInvalidFilter, "an asset must have no control characters and no space at its ends")
	}
	return nil
}

// unknownMember refuses a member that is not action, ref or one of known.
func unknownMember(name string, known ...string) *fault {
	return unknownName(codeInvalidMessage, "member", name, append([]string{"action", "ref"}, known...))
}

// unknownName refuses a name that is not in known, and suggests the nearest.
func unknownName(code, kind, name string, known []string) *fault {
	suggestion := spelling.DidYouMean(spelling.Nearest(name, known))
	if suggestion != "" {
		suggestion = " (" + suggestion + ")"
	}
	all := "must be one of: " + strings.Join(known, ", ")
	if len(known) == 0 { // by the view
		all = "the view of the API key has none"
	}
	return faultf(code, "no %s %q%s: %s", kind, spelling.Shorten(name), suggestion, all)
}

// members are the members of a JSON object in order, each once.
type members []member

type member struct {
	name  string
	value []byte // JSON
}

// value returns the value of a member, or nil.
func (m members) value(name string) []byte {
	for i := range m {
		if m[i].name == name {
			return m[i].value
		}
	}
	return nil
}

// decodeObject returns the members of text, or nil if it is not one JSON object. problem
// describes the first invalid member, at which the list ends.
func decodeObject(text []byte) (list members, problem string) {
	text = jsonobject.Trim(text)
	if !json.Valid(text) || text[0] != '{' {
		return nil, ""
	}
	list = make(members, 0, 5)
	for name, value := range jsonobject.Members(text) {
		m := member{string(name), value}
		if len(list) == maxMembers {
			return list, fmt.Sprintf("an object must not have more than %d members", maxMembers)
		}
		if list.value(m.name) != nil {
			return list, fmt.Sprintf("member %q is given more than once", spelling.Shorten(m.name))
		}
		list = append(list, m)
	}
	return list, ""
}

// isNull reports whether value is null or absent.
func isNull(value []byte) bool { return value == nil || value[0] == 'n' }

// stringMember reads a string.
func stringMember(value []byte) (s string, given, ok bool) {
	if isNull(value) {
		return "", false, true
	}
	if value[0] != '"' {
		return "", false, false
	}
	return string(jsonobject.Text(value)), true, true
}

// stringsMember reads an array of strings.
func stringsMember(value []byte) (list []string, given, ok bool) {
	if isNull(value) {
		return nil, false, true
	}
	if value[0] != '[' {
		return nil, false, false
	}
	for item := range jsonobject.Items(value) {
		if item[0] != '"' {
			return nil, false, false
		}
		list = append(list, string(jsonobject.Text(item)))
	}
	return list, true, true
}
