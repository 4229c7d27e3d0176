package dashboard

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unique"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/spelling"
)

// channel is a type of message that a client may ask for.
type channel uint8

// The channels, in the order in which they are listed by default.
const (
	signalNew channel = iota
	signalUpdated
	signalClosed
	agentStatus
	systemNotification
	marketPrice // only with assets
	// heartbeat may be named because the specification lists it as a message type,
	// but every connection gets it.
	heartbeat
	channels
)

var channelNames = [channels]string{
	"signal.new", "signal.updated", "signal.closed", "agent.status", "system.notification", "market.price",
	"heartbeat",
}

// defaultChannels are those of a connection that has not subscribed, and of a
// subscription that names none.
var defaultChannels = []channel{signalNew, agentStatus, systemNotification}

func (c channel) String() string { return channelNames[c] }

// ofSignal reports whether messages of c concern a signal.
func (c channel) ofSignal() bool { return c <= signalClosed }

// hasAsset reports whether messages of c concern an asset.
func (c channel) hasAsset() bool { return c.ofSignal() || c == marketPrice }

// allowed reports whether scopes permit c.
func (c channel) allowed(scopes signal.ScopeSet) bool {
	switch c {
	case signalNew, signalUpdated, signalClosed, marketPrice:
		return scopes.Has(signal.SignalsRead)
	case agentStatus:
		return scopes.Has(signal.AgentsRead)
	}
	return true
}

// parseChannel returns the channel called name.
func parseChannel(name string) (channel, bool) {
	i := slices.Index(channelNames[:], name)
	return channel(i), i >= 0
}

// channelOf returns the channel for events of type t, or false if they are not sent
// to clients.
func channelOf(t signal.EventType) (channel, bool) {
	switch t {
	case signal.SignalCreated:
		return signalNew, true
	case signal.SignalUpdated:
		return signalUpdated, true
	case signal.SignalClosed:
		return signalClosed, true
	case signal.AgentStarted, signal.AgentCompleted, signal.AgentFailed:
		return agentStatus, true
	case signal.SystemNotification:
		return systemNotification, true
	}
	return 0, false
}

// channelSet is a set of channels.
type channelSet uint8

func setOf(list []channel) channelSet {
	var s channelSet
	for _, c := range list {
		s |= 1 << c
	}
	return s
}

// The key of a subscription begins with its channels as one byte, so a set without heartbeat must be below 128.
const _ = uint(127 - (1<<heartbeat - 1))

func (s channelSet) has(c channel) bool { return s&(1<<c) != 0 }

// subscription selects the messages of its account that a connection gets. It is
// immutable, because connections share it.
type subscription struct {
	channels channelSet // without heartbeat
	assets   []asset    // sorted, without duplicates; empty means all
	// filter compares what is not an asset; nil accepts all, so that a subscription without
	// it costs nothing more.
	filter *signal.Filter
	key    string // equal subscriptions have equal keys
}

// newSubscription returns the subscription to list. Unless assets is empty, it is
// limited to them.
func newSubscription(list []channel, assets []string) *subscription {
	folded := make([]string, 0, len(assets))
	for _, a := range assets {
		folded = append(folded, spelling.Fold(a))
	}
	slices.Sort(folded)
	folded = slices.Compact(folded)
	s := &subscription{channels: setOf(list) &^ (1 << heartbeat), assets: make([]asset, 0, len(folded))}
	for _, a := range folded {
		s.assets = append(s.assets, unique.Make(a))
	}
	// Assets hold no control characters, so the key is unambiguous.
	key := strings.Join(folded, "\x00")
	if len(key) > sha256.Size {
		sum := sha256.Sum256([]byte(key))
		key = "\x02" + string(sum[:])
	}
	s.key = string(rune(s.channels)) + key
	return s
}

// with returns the subscription to list with the filter of s.
func (s *subscription) with(list []channel) *subscription {
	c := *s
	c.channels = setOf(list) &^ (1 << heartbeat)
	c.key = string(rune(c.channels)) + s.key[1:] // the channels of s are one byte
	return &c
}

// filtered returns the subscription to list of the signals that pass f; assets are those of f
// by all spellings that events may have.
func filtered(list []channel, assets []string, f *signal.Filter) *subscription {
	s := newSubscription(list, assets)
	if f.ByAssetOnly() {
		return s
	}
	c := &signal.Filter{
		Agents:          slices.Compact(slices.Sorted(slices.Values(f.Agents))),
		Strategies:      slices.Compact(slices.Sorted(slices.Values(f.Strategies))),
		Directions:      slices.Compact(slices.Sorted(slices.Values(f.Directions))),
		MinConfidence:   f.MinConfidence,
		MinExpectedRNet: f.MinExpectedRNet,
	}
	s.filter = c
	s.key += fmt.Sprintf("\x01%q%q%q", c.Agents, c.Strategies, c.Directions)
	for _, x := range []*float64{c.MinConfidence, c.MinExpectedRNet} {
		s.key += "\x01"
		if x != nil {
			s.key += strconv.FormatFloat(*x, 'g', -1, 64)
		}
	}
	return s
}

// passes reports whether f passes the filter of s, apart from channels and assets.
func (s *subscription) passes(f *frame) bool {
	return s.filter == nil || !f.channel.ofSignal() || s.filter.Passes(&f.traits)
}

// matches reports whether a connection with the subscription s gets f.
func (s *subscription) matches(f *frame) bool {
	if !s.channels.has(f.channel) {
		return false
	}
	if !s.passes(f) {
		return false
	}
	if len(s.assets) == 0 || !f.channel.hasAsset() {
		return true
	}
	return slices.Contains(s.assets, f.asset)
}
