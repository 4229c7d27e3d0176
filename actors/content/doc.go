// Package content writes texts for search engines and rates them.
//
//	request ─> chat endpoint, where one is set ─┐
//	   └─────> built-in writer (templates) ─────┴─> checks ─> text, confidence, metadata
//
// The checks read the text alone, whoever wrote it, and depend on nothing but the
// text and the request: so the confidence of a text, the weighted share of the checks
// that it passes, can be reproduced. The built-in writer draws its words by a generator
// that is seeded by the request: equal requests get equal texts.
//
// Where to read: content.go (the API of the package), checks.go (the checks), markdown.go
// and text.go (how a text is read), keywords.go (which phrases matter), chat.go (the endpoint). Of
// the built-in writer: writer.go and templates/ (how a text is put together), words.go
// and words/ (the lines that it draws), features.go (what is known of features),
// kinds.go and nouns.go (what is guessed of a subject), titles.go.
package content
