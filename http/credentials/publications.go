package credentials

import (
	"context"
	"log/slog"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

// publicationStore keeps how accounts show their records.
type publicationStore interface {
	Publish(ctx context.Context, p credential.Publication, maxSlugs int) error
	Publication(ctx context.Context, account signal.AccountID) (credential.Publication, error)
}

// publicationReader reads them by their slugs.
type publicationReader interface {
	PublicationBySlug(ctx context.Context, slug string) (credential.Publication, error)
}

// maxSlugs is how many slugs an account may ever have: none is free again.
const maxSlugs = 10

// Publications keeps how accounts show their records to everyone.
type Publications struct {
	store         publicationStore
	authenticator *Authenticator
	audit         auditLog
}

// Publish stores how an account shows its record. This process shows it so at once, all others within a second.
// KindConflict: "slug_taken", "limit_reached".
func (p *Publications) Publish(ctx context.Context, to credential.Publication) error {
	err := p.store.Publish(ctx, to, maxSlugs)
	p.authenticator.forgetRecords(to.Account)
	p.authenticator.records.forget(to.Slug) // which no account may have had
	if err == nil {
		p.audit.write(ctx, slog.LevelInfo, "public record changed", to.Account, slog.String("slug", to.Slug),
			slog.Bool("enabled", to.Enabled), slog.Bool("show_open", to.ShowOpen))
	}
	return err
}

// Publication returns how an account shows its record.
func (p *Publications) Publication(ctx context.Context, account signal.AccountID) (credential.Publication, error) {
	return p.store.Publication(ctx, account)
}

// PublicationBySlug returns how the record at a slug is shown. What it returns is at most a second old. KindNotFound: no
// account has ever had the slug, or none shows its record there now; with the code record_gone: none ever will again.
// KindUnavailable: the store is needed and does not answer.
func (a *Authenticator) PublicationBySlug(ctx context.Context, slug string) (credential.Publication, error) {
	e, renew := a.records.get(slug)
	if e == nil {
		var err error
		if e, err = a.fetchRecord(ctx, slug); err != nil {
			return credential.Publication{}, err
		}
	}
	if renew {
		a.lookups.Go(ctx, func(ctx context.Context) {
			panics.Guard(a.log, panics.Credentials, func() { _, _ = a.fetchRecord(ctx, slug) })
		})
	}
	return e.value.Publication, e.value.err
}

// published is the cached state of a slug.
type published struct {
	credential.Publication
	err error // KindNotFound
}

func (a *Authenticator) fetchRecord(ctx context.Context, slug string) (*entry[published], error) {
	return a.records.fetch(ctx, slug, slug, func(ctx context.Context) (published, signal.AccountID, error) {
		p, err := a.store.PublicationBySlug(ctx, slug)
		if err == nil && !p.Enabled {
			return published{Publication: p, err: errNoRecord}, p.Account, nil
		}
		return published{Publication: p, err: err}, p.Account, err
	})
}

var errNoRecord = error(signal.NotFound("record"))

func (a *Authenticator) forgetRecords(account signal.AccountID) {
	a.records.forgetIf(account, func(published) bool { return true })
}
