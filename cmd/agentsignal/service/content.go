package service

import (
	"log/slog"
	"time"

	"github.com/agentsignal/agentsignal/actors/content"
	"github.com/agentsignal/agentsignal/configs"
)

// contentWriter returns the writer of the content agent. Its endpoint gets less time than a
// run, so that the built-in writer can still take over.
func contentWriter(c configs.Config, log *slog.Logger) (*content.Writer, error) {
	const maxTimeout = 20 * time.Second
	return content.New(content.Options{
		Chat: content.ChatOptions{
			URL:     c.Content.ChatURL,
			Key:     string(c.Content.ChatKey),
			Model:   c.Content.ChatModel,
			Timeout: min(maxTimeout, time.Duration(c.Runs.Timeout)*2/3),
		},
		Log: log,
	})
}
