package dashboard

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// The messages to a client other than events. As documented, members without a value are
// null.

type welcomeData struct {
	ConnectionID     string   `json:"connection_id"`
	HeartbeatSeconds float64  `json:"heartbeat_seconds"`
	ExpiresAt        *string  `json:"expires_at"`
	Channels         []string `json:"channels"`

	View *signal.View `json:"view,omitempty"` // of a reader
}

// filtersData has the members of a filter that were given, and assets always.
type filtersData struct {
	Assets          []string           `json:"assets"`
	Agents          []signal.AgentID   `json:"agents,omitempty"`
	Strategies      []string           `json:"strategies,omitempty"`
	Directions      []signal.Direction `json:"directions,omitempty"`
	MinConfidence   *float64           `json:"min_confidence,omitempty"`
	MinExpectedRNet *float64           `json:"min_expected_r_net,omitempty"`
}

func newFiltersData(f *signal.Filter) filtersData {
	d := filtersData{f.Assets, f.Agents, f.Strategies, f.Directions, f.MinConfidence, f.MinExpectedRNet}
	if d.Assets == nil {
		d.Assets = []string{}
	}
	return d
}

type resumedData struct {
	Replayed int  `json:"replayed"`
	Complete bool `json:"complete"`
}

type subscribedData struct {
	Ref      *string      `json:"ref"`
	Channels []string     `json:"channels"`
	Filters  filtersData  `json:"filters"`
	View     *viewData    `json:"view,omitempty"` // of a reader
	Denied   []string     `json:"denied"`
	Resumed  *resumedData `json:"resumed"`
}

// viewData has the agents, assets and strategies of the signals that a reader gets: those of its view that its filters name.
type viewData struct {
	Agents     signal.Names `json:"agents,omitzero"`
	Assets     signal.Names `json:"assets,omitzero"`
	Strategies signal.Names `json:"strategies,omitzero"`
}

// newViewData returns what applies of the view of s, whose filter is f; nil without a view.
func newViewData(s *subscription, f *signal.Filter) *viewData {
	v := s.view
	if v == nil {
		return nil
	}
	d := &viewData{v.Agents, v.Assets, v.Strategies}
	if len(f.Agents) > 0 {
		d.Agents = v.Agents.And(signal.NamesOf(texts(f.Agents)...))
	}
	if len(f.Strategies) > 0 {
		d.Strategies = v.Strategies.And(signal.NamesOf(f.Strategies...))
	}
	switch {
	case s.named.every:
	case v.Assets.All():
		d.Assets = signal.NamesOf(f.Assets...)
	default:
		both := slices.DeleteFunc(slices.Clone(v.Assets.List()), func(name string) bool { return !s.named.has(assetOf(name)) })
		d.Assets = signal.NamesOf(both...)
	}
	return d
}

type unsubscribedData struct {
	Ref      *string  `json:"ref"`
	Channels []string `json:"channels"`
}

type pongData struct {
	Ref *string `json:"ref"`
}

type errorData struct {
	Ref     *string `json:"ref"`
	Code    string  `json:"code"`
	Message string  `json:"message"`
}

// closeData is the reason of the end of a connection by Server-Sent Events.
type closeData struct {
	Code   int    `json:"code"`
	Reason string `json:"reason"`
}

// encodeReply returns a reply that is sent at now.
func encodeReply(kind string, data any, now time.Time) []byte {
	body, err := json.Marshal(data)
	if err != nil {
		body = []byte("null") // unreachable: the types above always encode
	}
	b := make([]byte, 0, len(kind)+len(body)+64)
	b = append(b, `{"type":"`...)
	b = append(b, kind...)
	b = append(b, `","data":`...)
	b = append(b, body...)
	b = append(b, `,"timestamp":`...)
	return append(signal.AppendTime(b, now), '}')
}

// encodeHeartbeat returns a heartbeat that is sent at now.
func encodeHeartbeat(now time.Time) []byte {
	b := append(make([]byte, 0, 72), `{"type":"heartbeat","timestamp":`...)
	return append(signal.AppendTime(b, now), '}')
}

// names returns the names of list, never nil.
func names(list []channel) []string {
	n := make([]string, 0, len(list))
	for _, c := range list {
		n = append(n, c.String())
	}
	return n
}
