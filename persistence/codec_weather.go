package persistence

import (
	"github.com/agentsignal/agentsignal/actors/signal"
)

// The Weather signal of a run is part of the record of its signal: two records that
// are one can never be stored apart. What the actor of an open signal goes by stands
// in front, as part of what the hash of open signals has, too.

// appendOutlook adds what an open signal needs of its weather.
func appendOutlook(b []byte, w *signal.Outlook) []byte {
	b = appendText(b, w.Commodity)
	b = appendText(b, w.Region)
	return appendFloat(b, w.Likelihood)
}

func decodeOutlook(d *decoder) *signal.Outlook {
	w := &signal.Outlook{Commodity: d.text(), Region: d.text()}
	w.Likelihood = d.float()
	return w
}

// appendWeather adds what lists show beside.
func appendWeather(b []byte, w *signal.Outlook) []byte {
	b = appendText(b, w.Event.Type)
	b = appendText(b, w.Event.Severity)
	b = appendString(b, w.Event.Location)
	b = appendString(b, w.Event.ForecastDate)
	b = appendFloat(b, w.Event.Deviation)
	return appendString(b, w.ExpectedImpact)
}

func decodeWeather(d *decoder, w *signal.Outlook) {
	w.Event.Type = d.text()
	w.Event.Severity = d.text()
	w.Event.Location = string(d.textBytes(d.byte()))
	w.Event.ForecastDate = string(d.textBytes(d.byte()))
	w.Event.Deviation = d.float()
	w.ExpectedImpact = string(d.textBytes(d.byte()))
}

// decodeWeatherBehind reads the weather of a record of which decodeListed has read
// the first part.
func decodeWeatherBehind(d *decoder, flags byte) *signal.Outlook {
	d.storedID() // the run
	d.text()     // timeframe and risk
	d.text()
	if flags&signalExpires != 0 {
		d.varint()
	}
	w := decodeOutlook(d)
	decodeWeather(d, w)
	return w
}
