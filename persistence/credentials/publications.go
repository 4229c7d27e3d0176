package credentials

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// How an account shows its record are fields of the account's record, and end with it. Its slugs are kept for ever,
// so that none leads to the record of another account later.

var (
	publishScript = redisclient.Script(scripts, "publish")
	errSlugTaken  = redisclient.Refused("slug_taken", "an account has this slug, or had it, after which it is never free again")
	// errSlugGone is of a slug that has led to a record.
	errSlugGone = error(&signal.Error{Kind: signal.KindNotFound, Code: "record_gone",
		Message: "the record is no longer at this address, and nothing else ever will be"})
)

// PublicationStore keeps how accounts show their records.
type PublicationStore struct{ client }

// Publish stores how an account shows its record. KindConflict, "slug_taken": another account has or had the slug, or this
// one had it before another; "limit_reached": the account has had maxSlugs. KindNotFound: there is no such account.
// What no longer shows the record is stored even while replicas are missing, with KindUnavailable.
func (s *PublicationStore) Publish(ctx context.Context, p credential.Publication, maxSlugs int) error {
	run := s.apply
	if !p.Enabled {
		run = s.end
	}
	args := append([]any{string(p.Account), p.Slug, maxSlugs}, encodePublication(p)...)
	set, err := run(ctx, publishScript, []string{s.AccountKey(p.Account), s.SlugsKey()}, args...)
	if err != nil {
		return redisclient.Failed(err, "publish record")
	}
	switch set.Val() {
	case int64(0):
		return errSlugTaken
	case int64(-1):
		return signal.NotFound("account")
	case int64(-2):
		return redisclient.Refused("limit_reached", fmt.Sprintf("the account has had %d slugs, which is as many as it may ever "+
			"have: keep the present one", maxSlugs))
	}
	return nil
}

// Publication returns how an account shows its record, once replicas have it. KindNotFound: there is no such account.
func (s *PublicationStore) Publication(ctx context.Context, account signal.AccountID) (credential.Publication, error) {
	p, err := s.read(ctx, account)
	if err != nil {
		return p, err
	}
	return p, s.Reads.Confirm(ctx, s.ConfirmAuthKey())
}

// PublicationBySlug is Publication for the account that has a slug. KindNotFound: no account ever had it; with the code
// record_gone: the account has another one, or was deleted. It does not wait for replicas.
func (s *PublicationStore) PublicationBySlug(ctx context.Context, slug string) (credential.Publication, error) {
	account, err := s.RDB.HGet(ctx, s.SlugsKey(), slug).Result()
	if errors.Is(err, redis.Nil) {
		return credential.Publication{}, signal.NotFound("record")
	}
	if err != nil {
		return credential.Publication{}, redisclient.Failed(err, "read slug")
	}
	p, err := s.read(ctx, signal.AccountID(account))
	if signal.KindOf(err) == signal.KindNotFound || err == nil && p.Slug != slug {
		return credential.Publication{}, errSlugGone
	}
	return p, err
}

func (s *PublicationStore) read(ctx context.Context, account signal.AccountID) (credential.Publication, error) {
	values, err := s.RDB.HMGet(ctx, s.AccountKey(account), publicationFields...).Result()
	if err != nil {
		return credential.Publication{}, redisclient.Failed(err, "read publication")
	}
	fields := map[string]string{}
	for i, v := range values {
		if text, ok := v.(string); ok {
			fields[publicationFields[i]] = text
		}
	}
	if len(fields) == 0 {
		return credential.Publication{}, signal.NotFound("account")
	}
	return decodePublication(account, fields)
}
