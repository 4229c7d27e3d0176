package backup

import "context"

const kindSlug kind = 38 // slug, account

// slugs are those of public records, also those that lead to none any more. They come after the accounts, so that each slug of
// these is among them.
var slugs = section{
	keys: []string{"{auth}:slugs"},
	save: func(ctx context.Context, s *source) error {
		for cursor := uint64(0); ; {
			found, next, err := s.RDB.HScan(ctx, s.SlugsKey(), cursor, "", scanCount).Result()
			for i := 0; i+1 < len(found) && err == nil; i += 2 {
				err = s.add(kindSlug, found[i], found[i+1])
			}
			if cursor = next; err != nil || cursor == 0 {
				return err
			}
		}
	},
	records: []record{{kind: kindSlug, fields: 2, names: 2, load: func(ctx context.Context, t *target, f fields) error {
		return t.pipe.HSet(ctx, t.SlugsKey(), f.text(0), f.text(1)).Err()
	}}},
}
