package backup

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// section is what is saved in one step. Its file has how it is saved beside how it is restored.
type section struct {
	// keys are the rows of the table of keys in persistence/doc.go that a backup has by this section, or that follow from
	// what it has.
	keys    []string
	save    func(ctx context.Context, s *source) error
	records []record
}

// record is a kind of records.
type record struct {
	kind        kind
	fields      int                 // at least
	ofPartition bool                // the first field is a partition
	names       int                 // how many of the first fields are parts of the name of a key
	valid       func(f fields) bool // nil: every value is
	sameOnly    bool                // it is left out where the number of partitions is another one
	load        func(ctx context.Context, t *target, f fields) error
}

// keyFor returns the key that a record is written to.
type keyFor func(t *target, f fields) string

// toString writes field i.
func toString(key keyFor, i int) func(context.Context, *target, fields) error {
	return func(ctx context.Context, t *target, f fields) error {
		return t.pipe.Set(ctx, key(t, f), f.text(i), 0).Err()
	}
}

// toHash writes the fields and values from field i.
func toHash(key keyFor, i int) func(context.Context, *target, fields) error {
	return func(ctx context.Context, t *target, f fields) error {
		return t.pipe.HSet(ctx, key(t, f), f.args(i)...).Err()
	}
}

// toSorted writes the members and scores from field i.
func toSorted(key keyFor, i int) func(context.Context, *target, fields) error {
	return func(ctx context.Context, t *target, f fields) error {
		var list []redis.Z
		for n := i; n+1 < len(f); n += 2 {
			list = append(list, redis.Z{Member: f.text(n), Score: f.score(n + 1)})
		}
		return t.pipe.ZAdd(ctx, key(t, f), list...).Err()
	}
}

// sections returns all sections in the order in which they are saved, which matters: see the package comment.
func sections() []section {
	return []section{checkpoints, positions, settings, mails, partitions, events, signals, leaves, logEnds, outbox,
		accounts, slugs, marketState, scanned, newSettings}
}

// records has the kinds of all sections.
var records = func() map[kind]record {
	all := map[kind]record{}
	for _, s := range sections() {
		for _, r := range s.records {
			all[r.kind] = r
		}
	}
	return all
}()

// validate returns ErrDamaged for a record that no build writes: a Redis that others share gets no key of another name.
// partitions is their number in the backup.
func validate(k kind, f fields, partitions int) error {
	r, known := records[k]
	if !known || len(f) < r.fields {
		return fmt.Errorf("%w (a record of kind %d with %d fields)", ErrDamaged, k, len(f))
	}
	if p, err := strconv.Atoi(string(f[0])); r.ofPartition && (err != nil || p < 0 || p >= partitions) {
		return fmt.Errorf("%w (a record of partition %q)", ErrDamaged, f[0])
	}
	for _, part := range f[:r.names] {
		if len(part) == 0 {
			return fmt.Errorf("%w (a record of kind %d without a name)", ErrDamaged, k)
		}
	}
	if r.valid != nil && !r.valid(f) {
		return fmt.Errorf("%w (a record of the key %q)", ErrDamaged, f[0])
	}
	return nil
}
