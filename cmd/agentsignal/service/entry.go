package service

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/cluster"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

const (
	installEvery = 500 * time.Millisecond // between two attempts to reach Redis
	enterEvery   = 100 * time.Millisecond // between two attempts to enter beside another node
)

// Settings in which live nodes must agree and that are read again.
const (
	settingLease          = "lease"
	settingJWTKeys        = "auth.jwt_keys"
	settingEncryptionKeys = "security.encryption_keys"
)

// awaitInstallation waits until Redis answers and holds the configured installation. It
// returns false and nil if ctx ends first.
func (p *process) awaitInstallation(ctx context.Context) (installed bool, err error) {
	for {
		err := p.store.Logs.Install(ctx)
		if err == nil {
			err = p.store.Client.SyncClock(ctx)
		}
		if err == nil && p.embedded != nil { // this process has just started it
			err = p.store.Logs.ForgetNodes(ctx)
		}
		if err == nil {
			return true, nil
		}
		if signal.KindOf(err) == signal.KindConflict {
			return false, err
		}
		if !p.reportRefusal(err) {
			p.log.Warn("waiting for redis: start it, or correct the setting redis.url", "err", err)
		}
		if !backoff.Sleep(ctx, installEvery) {
			return false, nil
		}
	}
}

// enter announces this node for the first time. Until then it works on nothing that nodes share. It
// returns false and nil if ctx ends first.
func (p *process) enter(ctx context.Context) (entered bool, err error) {
	if p.store.Logs.Profile, err = p.profile(); err != nil {
		return false, err
	}
	lease := time.Duration(p.config.Lease)
	return awaitEntry(ctx, p.log, func(ctx context.Context) error {
		known, err := p.checkSecretKeys(ctx)
		if err == nil {
			_, err = p.store.Logs.AnnounceNode(ctx, p.node, lease, !p.config.Cluster)
		}
		if err == nil && !known {
			err = p.store.Client.RecordSecretKeys(ctx, p.secretKeys())
		}
		if err != nil {
			p.reportRefusal(err)
		}
		return err
	})
}

// secretKeys returns the check values of the keys that encrypt secrets.
func (p *process) secretKeys() []string {
	traits := p.store.Logs.Profile.Traits
	i := slices.IndexFunc(traits, func(t cluster.Trait) bool { return t.Setting == settingEncryptionKeys })
	return traits[i].Values
}

// checkSecretKeys returns KindConflict if this node has none of the keys of the node that entered last, and
// secrets are stored. One in common suffices, so that keys can be rotated, also with no node live. known
// reports whether exactly these keys are recorded.
func (p *process) checkSecretKeys(ctx context.Context) (known bool, err error) {
	recorded, err := p.store.Client.SecretKeys(ctx)
	if err != nil {
		return false, err
	}
	own := p.secretKeys()
	shared := func(v string) bool { return slices.Contains(own, v) }
	if len(recorded) == 0 || slices.ContainsFunc(recorded, shared) {
		return slices.Equal(recorded, own), nil
	}
	stored, err := p.webhooks.Any(ctx)
	if err == nil && stored {
		err = p.store.Client.LostSecretKeys(settingEncryptionKeys)
	}
	return false, err
}

// awaitEntry calls announce until it succeeds. While it is refused because of another node, that
// node may have been killed: then its announcement expires. If the node renews it instead, it is
// alive, and the refusal is final. It returns false and nil if ctx ends first.
func awaitEntry(
	ctx context.Context, log *slog.Logger, announce func(context.Context) error,
) (entered bool, err error) {
	seen := map[string]int64{} // until when other nodes were announced
	for {
		err := announce(ctx)
		if err == nil {
			return true, nil
		}
		wait := installEvery
		if refusal, refused := errors.AsType[*cluster.Refusal](err); refused {
			wait = enterEvery
			until, known := seen[refusal.Node]
			if known && until != refusal.Until {
				return false, err
			}
			if !known {
				log.Warn("another node may be alive: waiting until it is seen or its announcement expires",
					"node", refusal.Node, "err", err)
			}
			seen[refusal.Node] = refusal.Until
		} else if signal.KindOf(err) == signal.KindConflict {
			return false, err
		}
		if !backoff.Sleep(ctx, wait) {
			return false, nil
		}
	}
}

// profile returns what this node publishes of itself.
func (p *process) profile() (cluster.Profile, error) {
	encryption, err := p.keysOf(settingEncryptionKeys, p.config.Security.EncryptionKeys, encryptionKeyFile)
	if err != nil {
		return cluster.Profile{}, err
	}
	traits := append(traitsOf(p.config),
		keyTrait(settingJWTKeys, p.signingKeys),
		keyTrait(settingEncryptionKeys, encryption),
		cluster.Trait{Setting: "security.record_keys", Values: p.recordKeys.Public(), Secret: true})
	return cluster.Profile{Place: p.place, Traits: traits}, nil
}

// traitTicks is the trait of builds that read rounds of ticks.
const traitTicks = "market.ticks"

// readRounds reports whether all live nodes are of builds that read rounds of ticks.
func readRounds(ctx context.Context, logs *eventlog.Store) (bool, error) {
	nodes, _, err := logs.Nodes(ctx)
	does := func(t cluster.Trait) bool { return t.Setting == traitTicks && slices.Contains(t.Values, "rounds") }
	doesNot := func(n cluster.Node) bool { return !slices.ContainsFunc(n.Traits, does) }
	return err == nil && !slices.ContainsFunc(nodes, doesNot), err
}

// traitsOf returns the settings in which live nodes must agree, without the keys.
func traitsOf(c configs.Config) []cluster.Trait {
	sources, _ := source.ParseSources(c.Market.Source) // checked with the configuration
	var traits []cluster.Trait
	for _, s := range []struct{ setting, value string }{
		{settingLease, time.Duration(c.Lease).String()},
		{"market.source", strings.Join(sources, ",")},
		{"market.speed", strconv.FormatInt(barSpeed(c.Market), 10)},
		{"signals.retention", time.Duration(c.Signals.Retention).String()},
		{"redis.wait_replicas", strconv.Itoa(c.Redis.WaitReplicas)},
		{"redis.without_replicas", c.Redis.WithoutReplicas}, // earlier builds do not publish it, and fit
		{traitTicks, "rounds"},                              // no setting: earlier builds do not read rounds of ticks
	} {
		traits = append(traits, cluster.Trait{Setting: s.setting, Values: []string{s.value}})
	}
	return traits
}

// keyTrait returns check values of the keys of a setting: an HMAC of a fixed text and the name of
// the key, by which others look it up.
func keyTrait(setting string, keys []credential.NamedKey) cluster.Trait {
	t := cluster.Trait{Setting: setting, Secret: true}
	for i := range keys {
		h := hmac.New(sha256.New, keys[i].Value[:])
		h.Write([]byte("agentsignal: check value of " + setting + " " + keys[i].Name))
		t.Values = append(t.Values, hex.EncodeToString(h.Sum(nil)[:16]))
	}
	return t
}

// reportRefusal logs an error of Redis that a retry cannot resolve, and reports whether err
// is one.
func (p *process) reportRefusal(err error) bool {
	reason, setting := redisclient.Refusal(err)
	if setting {
		p.log.Error("redis refuses this service: correct the setting redis.url, or the user in redis",
			"reason", reason, "err", err)
	}
	return setting
}
