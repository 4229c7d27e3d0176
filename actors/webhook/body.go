package webhook

import (
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// AppendBody adds an event's envelope, which contains the payload unchanged. version is the
// contract version of the webhook.
func AppendBody(b []byte, id signal.EventID, t signal.EventType, version string, at time.Time, data []byte) []byte {
	b = append(b, `{"id":`...)
	b = signal.AppendText(b, string(id))
	b = append(b, `,"type":`...)
	b = signal.AppendText(b, string(t))
	b = append(b, `,"api_version":`...)
	b = signal.AppendText(b, version)
	b = append(b, `,"created_at":`...)
	b = signal.AppendTime(b, at)
	b = append(b, `,"data":`...)
	b = append(b, data...)
	return append(b, '}')
}
