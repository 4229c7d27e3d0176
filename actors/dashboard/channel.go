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

func (s channelSet) has(c channel) bool { return s&(1<<c) != 0 }

// assetSet is a set of assets. Its zero value has none.
type assetSet struct {
	every bool    // it has all, and list is empty
	list  []asset // sorted by name, each once
}

func (a assetSet) has(one asset) bool { return a.every || slices.Contains(a.list, one) }

// seenBy returns the assets of a that the view v has.
func (a assetSet) seenBy(v *signal.View) assetSet {
	if v == nil || v.Assets.All() {
		return a
	}
	seen := assetSet{}
	if a.every {
		for _, name := range v.FoldedAssets().List() {
			seen.list = append(seen.list, unique.Make(name))
		}
		return seen
	}
	for _, one := range a.list {
		if v.FoldedAssets().Has(one.Value()) {
			seen.list = append(seen.list, one)
		}
	}
	return seen
}

// subscription selects the messages of its account that a connection gets. It is
// immutable, because connections share it.
type subscription struct {
	subscriptionKey
	named  assetSet // by the client's filter
	assets assetSet // those of named that the view has, or more: see everySeen
	// filter compares what is not an asset; nil accepts all, so that a subscription without
	// it costs nothing more.
	filter *signal.Filter
}

// subscriptionKey is equal for subscriptions that select the same messages.
type subscriptionKey struct {
	channels channelSet   // without heartbeat
	view     *signal.View // of a reader; nil for others. Equal views are one value
	filters  string       // those of the client
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
	s := &subscription{named: assetSet{every: len(folded) == 0}}
	for _, a := range folded {
		s.named.list = append(s.named.list, unique.Make(a))
	}
	// Assets hold no control characters, so the key is unambiguous.
	s.filters = strings.Join(folded, "\x00")
	if len(s.filters) > sha256.Size {
		sum := sha256.Sum256([]byte(s.filters))
		s.filters = "\x02" + string(sum[:])
	}
	return s.with(list, nil)
}

// to returns the subscription to list with the filter and the view of s.
func (s *subscription) to(list []channel) *subscription {
	c := *s
	c.channels = setOf(list) &^ (1 << heartbeat)
	return &c
}

// with returns the subscription to list with the filter of s, of a client that sees v.
func (s *subscription) with(list []channel, v *signal.View) *subscription {
	c := s.to(list)
	c.view, c.assets = v, c.named.seenBy(v)
	return c
}

// everySeen returns s without the assets of its view in the index: it is compared with the messages of every asset. The client
// must have named none.
func (s *subscription) everySeen() *subscription {
	c := *s
	c.assets = c.named
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
	s.filters += fmt.Sprintf("\x01%q%q%q", c.Agents, c.Strategies, c.Directions)
	for _, x := range []*float64{c.MinConfidence, c.MinExpectedRNet} {
		s.filters += "\x01"
		if x != nil {
			s.filters += strconv.FormatFloat(*x, 'g', -1, 64)
		}
	}
	return s
}

// sees reports whether the view of s has f, whatever the client asked for. It is the only place that decides it: for live
// messages, those that are replayed, and the position of a resume.
func (s *subscription) sees(f *frame) bool {
	switch {
	case s.view == nil:
		return true
	case f.channel == systemNotification: // all of them are about webhooks
		return false
	case !s.view.FoldedAssets().Has(f.asset.Value()):
		return false
	}
	return f.channel == marketPrice ||
		s.view.SeesStrategy(f.traits.Agent, f.traits.Strategy)
}

// passes reports whether f passes the filter and the view of s, apart from channels and the assets of the filter.
func (s *subscription) passes(f *frame) bool {
	return (s.filter == nil || !f.channel.ofSignal() || s.filter.Passes(&f.traits)) && s.sees(f)
}

// matches reports whether a connection with the subscription s gets f.
func (s *subscription) matches(f *frame) bool {
	return s.channels.has(f.channel) && s.passes(f) && (!f.channel.hasAsset() || s.assets.has(f.asset))
}
