package dashboard

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of what a client may send.
const (
	maxRefCharacters   = 64
	maxFilterAssets    = 100
	maxAssetCharacters = 64
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

// action is what a client asks for.
type action uint8

const (
	actionNone action = iota
	actionAuth
	actionSubscribe
	actionUnsubscribe
	actionPing
)

// message is one message of a client, decoded and checked.
type message struct {
	action action
	ref    *string // nil without one

	token string // of auth

	channels    []channel // of subscribe and unsubscribe, each once
	named       bool      // channels was given
	assets      []string  // of subscribe, as written
	lastEventID *string   // of subscribe; nil without one
}

// fault is why a message is refused.
type fault struct{ code, message string }

func (f *fault) Error() string { return f.code + ": " + f.message }

func faultf(code, format string, args ...any) *fault {
	return &fault{code, fmt.Sprintf(format, args...)}
}

// decodeMessage reads a client's message. With a fault, the message holds the
// action and the ref as far as they could be read, for the reply.
//
// Member names are compared exactly, unlike in encoding/json's structs, and
// unknown ones are refused, so that a misspelt option is never silently dropped.
func decodeMessage(text []byte) (message, *fault) {
	var m message
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return m, faultf(codeInvalidMessage, "a message must be one JSON object")
	}
	if members == nil {
		return m, faultf(codeInvalidMessage, "a message must be one JSON object, not null")
	}
	bad := m.decodeRef(members["ref"])
	name, given, ok := stringMember(members["action"])
	if !ok || !given {
		return m, faultf(codeInvalidMessage, "action is required and must be a string")
	}
	var decode func(*message, string, json.RawMessage) *fault
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
		return m, faultf(codeUnknownAction, "no action %q", shorten(name))
	}
	if bad != nil {
		return m, bad
	}
	for member, value := range members {
		if member == "action" || member == "ref" {
			continue
		}
		if f := decode(&m, member, value); f != nil {
			return m, f
		}
	}
	if m.action == actionAuth && m.token == "" {
		return m, faultf(codeInvalidMessage, "api_key or token is required")
	}
	return m, nil
}

func (m *message) decodeRef(value json.RawMessage) *fault {
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

func (m *message) decodeAuth(member string, value json.RawMessage) *fault {
	if member != "api_key" && member != "token" {
		return unknownMember(member)
	}
	token, given, ok := stringMember(value)
	if !ok || given && token == "" {
		return faultf(codeInvalidMessage, "%s must be a credential", member)
	}
	if given && m.token != "" {
		return faultf(codeInvalidMessage, "give api_key or token, not both")
	}
	if given {
		m.token = token
	}
	return nil
}

func (m *message) decodeSubscribe(member string, value json.RawMessage) *fault {
	switch member {
	case "channels":
		return m.decodeChannels(value)
	case "filters":
		return m.decodeFilters(value)
	case "last_event_id":
		id, given, ok := stringMember(value)
		if !ok {
			return faultf(codeInvalidMessage, "last_event_id must be a string")
		}
		if given {
			m.lastEventID = &id
		}
		return nil
	}
	return unknownMember(member)
}

func (m *message) decodeUnsubscribe(member string, value json.RawMessage) *fault {
	if member != "channels" {
		return unknownMember(member)
	}
	return m.decodeChannels(value)
}

func (m *message) decodePing(member string, _ json.RawMessage) *fault { return unknownMember(member) }

func (m *message) decodeChannels(value json.RawMessage) *fault {
	names, given, ok := stringsMember(value)
	if !ok {
		return faultf(codeInvalidMessage, "channels must be an array of strings")
	}
	var seen channelSet
	for _, name := range names {
		c, ok := parseChannel(name)
		if !ok {
			return faultf(codeUnknownChannel, "no channel %q", shorten(name))
		}
		if !seen.has(c) {
			seen |= 1 << c
			m.channels = append(m.channels, c)
		}
	}
	m.named = given
	return nil
}

func (m *message) decodeFilters(value json.RawMessage) *fault {
	var filters map[string]json.RawMessage
	if err := json.Unmarshal(value, &filters); err != nil {
		return faultf(codeInvalidFilter, "filters must be an object")
	}
	for member, value := range filters {
		if member != "assets" {
			return faultf(codeInvalidFilter, "no filter %q", shorten(member))
		}
		assets, _, ok := stringsMember(value)
		if !ok {
			return faultf(codeInvalidFilter, "filters.assets must be an array of strings")
		}
		if len(assets) > maxFilterAssets {
			return faultf(codeInvalidFilter, "filters.assets must have at most %d assets", maxFilterAssets)
		}
		for _, a := range assets {
			if f := checkAsset(a); f != nil {
				return f
			}
		}
		m.assets = assets
	}
	return nil
}

// checkAsset refuses what no signal has as its asset: those are trimmed and have
// 1 to 64 characters, none of them a control character.
func checkAsset(a string) *fault {
	if n := utf8.RuneCountInString(a); n < 1 || n > maxAssetCharacters {
		return faultf(codeInvalidFilter, "an asset must have 1 to %d characters", maxAssetCharacters)
	}
	if strings.TrimSpace(a) != a || strings.ContainsFunc(a, unicode.IsControl) {
		return faultf(codeInvalidFilter, "an asset must have no control characters and no space at its ends")
	}
	return nil
}

func unknownMember(name string) *fault {
	return faultf(codeInvalidMessage, "no member %q", shorten(name))
}

// stringMember reads a string; null is as good as absence.
func stringMember(value json.RawMessage) (s string, given, ok bool) {
	if value == nil {
		return "", false, true
	}
	var p *string
	if err := json.Unmarshal(value, &p); err != nil {
		return "", false, false
	}
	if p == nil {
		return "", false, true
	}
	return *p, true, true
}

// stringsMember reads an array of strings; null is as good as absence, but not
// inside the array.
func stringsMember(value json.RawMessage) (list []string, given, ok bool) {
	if value == nil {
		return nil, false, true
	}
	var items []*string
	if err := json.Unmarshal(value, &items); err != nil {
		return nil, false, false
	}
	for _, p := range items {
		if p == nil {
			return nil, false, false
		}
		list = append(list, *p)
	}
	return list, items != nil, true
}

// shorten bounds what of a client's text is quoted back.
func shorten(s string) string {
	const most = 64
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}
