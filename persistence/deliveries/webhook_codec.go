package deliveries

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/codec"
)

// webhookVersion is the first byte of the record of a webhook, after "SINCE ", the position from
// which it gets events, if that is known. The second byte is 1 if it is disabled; scripts read
// it.
const webhookVersion = 1

// disabledReasons are the stored numbers of reasons. Only append to the list.
var disabledReasons = []delivery.DisabledReason{"", delivery.DisabledFailing, delivery.DisabledManual}

// Which optional fields a webhook has.
const (
	webhookDescription = 1 << iota
	webhookPrevious
	webhookFilter
	webhookFormat
	webhookRate
)

// webhookFormats are the stored numbers of formats. Only append to the list.
var webhookFormats = []delivery.Format{1: delivery.Slack, delivery.Discord, delivery.Telegram, delivery.Ntfy,
	delivery.Template}

// appendWebhook appends the record of w: all except its identifier, account, health and
// revision.
func appendWebhook(b []byte, w *delivery.Webhook) ([]byte, error) {
	disabled := byte(0)
	if w.Status == delivery.WebhookDisabled {
		disabled = 1
	}
	if !w.Since.IsZero() {
		b = append(w.Since.Append(b), ' ')
	}
	b = append(b, webhookVersion, disabled, byte(max(slices.Index(disabledReasons, w.DisabledReason), 0)))
	fields := byte(0)
	if w.Description != nil {
		fields |= webhookDescription
	}
	if w.PreviousSecret != nil {
		fields |= webhookPrevious
	}
	if w.Filter != nil {
		fields |= webhookFilter
	}
	format := 0
	if w.Format != "" && w.Format != delivery.Standard {
		if format = slices.Index(webhookFormats, w.Format); format < 0 {
			return nil, fmt.Errorf("encode webhook %s: format %q is not known", w.ID, w.Format)
		}
		fields |= webhookFormat
	}
	if w.MaxPerMinute != 0 {
		fields |= webhookRate
	}
	b = append(b, fields)
	for _, t := range []time.Time{w.CreatedAt, w.UpdatedAt, w.DisabledAt, w.ClearedAt} {
		b = binary.AppendUvarint(b, uint64(codec.MilliOf(t)))
	}
	b = codec.AppendString(b, w.URL)
	b = append(b, byte(len(w.Events)))
	for _, t := range w.Events {
		code := codec.CodeOfEvent[t]
		if code == 0 || len(w.Events) > len(codec.EventCodes) {
			return nil, fmt.Errorf("encode webhook %s: event %q is not known", w.ID, t)
		}
		b = append(b, code)
	}
	b = codec.AppendString(b, w.APIVersion)
	b = codec.AppendString(b, string(w.Secret))
	if w.Description != nil {
		b = codec.AppendString(b, *w.Description)
	}
	if w.PreviousSecret != nil {
		b = codec.AppendString(b, string(w.PreviousSecret))
		b = binary.AppendUvarint(b, uint64(codec.MilliOf(w.PreviousUntil)))
	}
	if w.Filter != nil { // so late that the version before reads the rest, and so are the format and the rate
		b = appendFilter(b, w.Filter)
	}
	if format > 0 {
		b = append(b, byte(format))
		for _, text := range []string{w.ChatID, w.Template, w.ContentType} {
			b = codec.AppendString(b, text)
		}
	}
	if w.MaxPerMinute != 0 {
		b = binary.AppendUvarint(b, uint64(uint32(w.MaxPerMinute)))
	}
	return b, nil
}

// decodeWebhook is the inverse of appendWebhook. The result shares no memory with value.
func decodeWebhook(account signal.AccountID, id signal.WebhookID, value []byte) (delivery.Webhook, error) {
	since, rest := cutSince(value)
	d := codec.DecodeVersion(rest, webhookVersion)
	w := delivery.Webhook{ID: id, Account: account, Status: delivery.WebhookEnabled, Since: since}
	if d.Byte()&1 != 0 {
		w.Status = delivery.WebhookDisabled
	}
	if code := d.Byte(); int(code) < len(disabledReasons) {
		w.DisabledReason = disabledReasons[code]
	} else {
		d.Fail(fmt.Errorf("reason %d is not known", code))
	}
	fields := d.Byte()
	w.CreatedAt, w.UpdatedAt, w.DisabledAt, w.ClearedAt = d.Time(), d.Time(), d.Time(), d.Time()
	w.URL = string(d.TextBytes(d.Byte()))
	for _, code := range d.Take(uint64(d.Byte())) {
		if code == 0 || int(code) >= len(codec.EventCodes) {
			d.Fail(fmt.Errorf("event of type %d is not known", code))
			break
		}
		w.Events = append(w.Events, codec.EventCodes[code])
	}
	w.APIVersion = string(d.TextBytes(d.Byte()))
	w.Secret = append([]byte(nil), d.TextBytes(d.Byte())...)
	if fields&webhookDescription != 0 {
		text := string(d.TextBytes(d.Byte()))
		w.Description = &text
	}
	if fields&webhookPrevious != 0 {
		w.PreviousSecret = append([]byte{}, d.TextBytes(d.Byte())...)
		w.PreviousUntil = d.Time()
	}
	if fields&webhookFilter != 0 {
		w.Filter = decodeFilter(&d)
	}
	if fields&webhookFormat != 0 {
		if code := d.Byte(); code > 0 && int(code) < len(webhookFormats) {
			w.Format = webhookFormats[code]
		} else {
			d.Fail(fmt.Errorf("format %d is not known", code))
		}
		for _, text := range []*string{&w.ChatID, &w.Template, &w.ContentType} {
			*text = string(d.TextBytes(d.Byte()))
		}
	}
	if fields&webhookRate != 0 {
		if w.MaxPerMinute = int(uint32(d.Uvarint())); w.MaxPerMinute > delivery.MaxPerMinute {
			d.Fail(fmt.Errorf("%d requests a minute are too many", w.MaxPerMinute))
		}
	}
	if d.Err != nil {
		return delivery.Webhook{}, fmt.Errorf("decode webhook %s: %w", id, d.Err)
	}
	w.Revision = string(value)
	return w, nil
}

// appendFilter appends the filter of a webhook.
func appendFilter(b []byte, f *signal.Filter) []byte {
	b = appendTexts(b, f.Assets)
	b = appendTexts(b, f.Agents)
	b = appendTexts(b, f.Strategies)
	b = appendTexts(b, f.Directions)
	for _, x := range []*float64{f.MinConfidence, f.MinExpectedRNet} {
		text := ""
		if x != nil {
			text = strconv.FormatFloat(*x, 'g', -1, 64)
		}
		b = codec.AppendString(b, text)
	}
	return b
}

// decodeFilter is the inverse of appendFilter.
func decodeFilter(d *codec.Decoder) *signal.Filter {
	f := &signal.Filter{
		Assets:     decodeTexts[string](d),
		Agents:     decodeTexts[signal.AgentID](d),
		Strategies: decodeTexts[string](d),
		Directions: decodeTexts[signal.Direction](d),
	}
	for _, x := range []**float64{&f.MinConfidence, &f.MinExpectedRNet} {
		text := string(d.TextBytes(d.Byte()))
		if text == "" {
			continue
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			d.Fail(fmt.Errorf("decode filter: %w", err))
		}
		*x = &value
	}
	return f
}

func appendTexts[T ~string](b []byte, list []T) []byte {
	b = append(b, byte(len(list)))
	for _, text := range list {
		b = codec.AppendString(b, string(text))
	}
	return b
}

func decodeTexts[T ~string](d *codec.Decoder) (list []T) {
	for range d.Byte() {
		list = append(list, T(d.TextBytes(d.Byte())))
	}
	return list
}

// cutSince cuts the position off the record of a webhook.
func cutSince[T string | []byte](record T) (signal.Position, T) {
	n := 0
	for n < len(record) && (record[n] == '-' || '0' <= record[n] && record[n] <= '9') {
		n++
	}
	since, ok := signal.ParsePosition(string(record[:n]))
	if !ok || n == len(record) {
		return signal.Position{}, record
	}
	return since, record[n+1:]
}

// appendHealth appends the health of an endpoint.
func appendHealth(b []byte, h *delivery.WebhookHealth) []byte {
	b = append(b, webhookVersion)
	b = binary.AppendUvarint(b, uint64(codec.MilliOf(h.FailingSince)))
	b = binary.AppendUvarint(b, uint64(uint32(max(h.Failures, 0))))
	b = binary.AppendUvarint(b, uint64(uint32(max(h.Warned, 0))))
	if !h.HeldUntil.IsZero() { // the version before reads the rest
		b = binary.AppendUvarint(b, uint64(codec.DueMilli(h.HeldUntil)))
	}
	return b
}

// decodeHealth is the inverse of appendHealth.
func decodeHealth(value []byte) (delivery.WebhookHealth, error) {
	d := codec.DecodeVersion(value, webhookVersion)
	h := delivery.WebhookHealth{FailingSince: d.Time()}
	h.Failures, h.Warned = int(uint32(d.Uvarint())), int(uint32(d.Uvarint()))
	if len(d.B) > 0 {
		h.HeldUntil = d.Time()
	}
	if d.Err != nil {
		return delivery.WebhookHealth{}, fmt.Errorf("decode health of webhook: %w", d.Err)
	}
	return h, nil
}
