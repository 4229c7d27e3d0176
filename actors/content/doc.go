// Package content writes texts for search engines and rates them.
//
//	request ─> chat endpoint, if configured ────┐
//	   └─────> built-in writer (templates) ─────┴─> checks ─> text, confidence, metadata
//
// The checks are the same for both writers and depend on nothing but the text and the
// request, so the confidence of a text, the weighted share of checks that it passes, is
// reproducible. The built-in writer draws phrases with a generator seeded by the request:
// equal requests get equal texts.
//
// Where to read: content.go (the API of the package), checks.go (the checks), markdown.go
// and text.go (how a text is read), keywords.go (extraction of key phrases), chat.go (the
// endpoint). The built-in writer: writer.go and templates/ (the composition of a text),
// words.go and words/ (its phrases), features.go (what is known of features), kinds.go
// and nouns.go (guesses about a subject), titles.go.
package content
