package service

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/partition"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/cluster"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

const (
	installEvery = 500 * time.Millisecond // between two attempts to reach Redis
	enterEvery   = 100 * time.Millisecond // between two attempts to enter beside another node

	followedEvery = 2 * time.Second  // between two publications of what this node follows
	followedFor   = 10 * time.Second // for which one counts

	readersEvery = 500 * time.Millisecond // between two publications of the connections of readers
)

// membership is the place of this node among those of the installation.
type membership struct {
	config     configs.Config
	log        *slog.Logger
	node       string
	ownRedis   bool // this process has started the Redis
	storage    *storage
	webhooks   *deliveries.Settings
	profile    cluster.Profile                      // what the node publishes of itself
	secretKeys []string                             // check values of the keys that encrypt secrets
	readers    *eventlog.ReaderConnections          // nil on a single node
	joined     atomic.Pointer[partition.Partitions] // nil until the node has joined
}

func newMembership(e environment, n *node, s *storage, webhooks *deliveries.Settings) *membership {
	encryption := keyTrait(settingEncryptionKeys, n.keys.encryption)
	traits := append(traitsOf(e.config), keyTrait(settingJWTKeys, n.keys.signing), encryption,
		cluster.Trait{Setting: settingRecordKeys, Values: n.keys.record.Public(), Secret: true})
	m := &membership{
		config:     e.config,
		log:        e.log,
		node:       n.id,
		ownRedis:   n.embedded != nil,
		storage:    s,
		webhooks:   webhooks,
		profile:    cluster.Profile{Place: n.place, Traits: traits},
		secretKeys: encryption.Values,
	}
	if m.config.Cluster {
		m.readers = eventlog.NewReaderConnections(s.store.Client, m.node)
	}
	return m
}

// awaitInstallation waits until Redis answers and holds the configured installation. It
// returns false and nil if ctx ends first.
func (m *membership) awaitInstallation(ctx context.Context) (installed bool, err error) {
	for {
		err := m.storage.store.Client.Installation.Install(ctx)
		if err == nil {
			err = m.storage.store.Client.SyncClock(ctx)
		}
		if err == nil && m.ownRedis {
			err = m.storage.store.Logs.Nodes.ForgetNodes(ctx)
		}
		if err == nil {
			return true, nil
		}
		if signal.KindOf(err) == signal.KindConflict {
			return false, err
		}
		logAwaited(m.log, err)
		if !backoff.Sleep(ctx, installEvery) {
			return false, nil
		}
	}
}

// enter announces this node for the first time. Until then it works on nothing that nodes share. It
// returns false and nil if ctx ends first.
func (m *membership) enter(ctx context.Context) (entered bool, err error) {
	nodes := m.storage.store.Logs.Nodes
	nodes.Profile = m.profile
	return awaitEntry(ctx, m.log, func(ctx context.Context) error {
		known, err := m.checkSecretKeys(ctx)
		if err == nil {
			_, err = nodes.AnnounceNode(ctx, m.node, time.Duration(m.config.Lease), !m.config.Cluster)
		}
		if err == nil && !known {
			err = m.storage.store.Client.Installation.RecordSecretKeys(ctx, m.secretKeys)
		}
		if err != nil {
			logRefusal(m.log, err)
		}
		return err
	})
}

// checkSecretKeys returns KindConflict if this node has none of the keys of the node that entered last, and
// secrets are stored. One in common suffices, so that keys can be rotated, also with no node live. known
// reports whether exactly these keys are recorded.
func (m *membership) checkSecretKeys(ctx context.Context) (known bool, err error) {
	recorded, err := m.storage.store.Client.Installation.SecretKeys(ctx)
	if err != nil {
		return false, err
	}
	shared := func(v string) bool { return slices.Contains(m.secretKeys, v) }
	if len(recorded) == 0 || slices.ContainsFunc(recorded, shared) {
		return slices.Equal(recorded, m.secretKeys), nil
	}
	stored, err := m.webhooks.Any(ctx)
	if err == nil && stored {
		err = m.storage.store.Client.Installation.LostSecretKeys(settingEncryptionKeys)
	}
	return false, err
}

// publishFollowed publishes what this node follows and owns, for the status of the cluster.
func (m *membership) publishFollowed(ctx context.Context) error {
	return every(ctx, m.log, followedEvery, func() {
		joined := m.joined.Load()
		if joined == nil {
			return
		}
		followed := withHoldings(m.storage.tail.Followed(), joined.Holdings())
		err := m.storage.store.Logs.Nodes.PublishFollowed(ctx, m.node, followed, followedFor)
		if err != nil && ctx.Err() == nil {
			m.log.Debug("what is followed was not published", "err", err)
		}
	})
}

// shareReaders publishes how many connections readers have on this node, until ctx ends after the streams.
func (m *membership) shareReaders(ctx context.Context) error {
	if m.readers == nil {
		return nil
	}
	publish := func(ctx context.Context) {
		if err := m.readers.Publish(ctx); err != nil {
			m.log.Debug("connections of readers were not published", "err", err)
		}
	}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), readersEvery)
		defer cancel()
		publish(last)
	}()
	return every(ctx, m.log, readersEvery, func() { publish(ctx) })
}

// handOver hands this node's partitions over before the delay of the shutdown, in which
// requests are still served: these and streams do not depend on which node owns a partition. A
// single node keeps them, as no other would take them.
func (m *membership) handOver(ctx context.Context) error {
	if joined := m.joined.Load(); joined != nil && m.config.Cluster {
		return joined.HandOver(ctx)
	}
	return nil
}

// leave ends the actors of this node's partitions, which it hands over first.
func (m *membership) leave(ctx context.Context) error {
	if joined := m.joined.Load(); joined != nil {
		return joined.Leave(ctx)
	}
	return nil
}

// withHoldings returns followed with the partitions that are owned.
func withHoldings(followed []cluster.Followed, owned []partition.Holding) []cluster.Followed {
	for _, h := range owned {
		i := slices.IndexFunc(followed, func(f cluster.Followed) bool { return f.Partition == h.Partition })
		if i < 0 {
			i = len(followed)
			followed = append(followed, cluster.Followed{Partition: h.Partition})
		}
		followed[i].Epoch, followed[i].Since = h.Epoch, h.Since
	}
	return followed
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

// logRefusal logs an error of Redis that a retry cannot resolve, and reports whether err is one.
func logRefusal(log *slog.Logger, err error) bool {
	reason, setting := redisclient.Refusal(err)
	if setting {
		log.Error("redis refuses this service: correct the setting redis.url, or the user in redis",
			"reason", reason, "err", err)
	}
	return setting
}

// logAwaited logs why Redis cannot be used yet.
func logAwaited(log *slog.Logger, err error) {
	if !logRefusal(log, err) {
		log.Warn("waiting for redis: start it, or correct the setting redis.url", "err", err)
	}
}
