// Package content writes texts for search engines and rates them.
//
//	request ─> chat endpoint, if configured ────┐
//	   └─────> built-in writer (templates) ─────┴─> checks ─> text, confidence, metadata
//
// The checks are the same for both writers and depend on nothing but the text and the
// request, so the confidence of a text, the weighted share of checks that it passes, is
// reproducible. The built-in writer has one template for each strategy, which states no facts: equal
// requests get equal texts.
//
// Where to read: content.go (the API of the package), checks.go (the checks), markdown.go
// and text.go (how a text is read), keywords.go (extraction of key phrases), chat.go (the
// endpoint), writer.go and templates/ (the built-in writer).
package content
