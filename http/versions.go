package http

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/agentsignal/agentsignal/http/request"
)

const versionHeader = "X-Service-Version"

// apiVersion is a version of the contract, named by its date.
type apiVersion struct {
	Name   string
	Status string // current, supported, deprecated
	// Of a deprecated version: when it was deprecated and when it ends.
	DeprecatedAt, SunsetAt time.Time

	header []string
}

// apiVersions lists the versions of the contract, newest first. The first is the default of
// every account.
var apiVersions = versions{newVersion("2026-11-01", "current")}

func newVersion(name, status string) apiVersion {
	return apiVersion{Name: name, Status: status, header: []string{name}}
}

// versions are versions of the contract, newest first.
type versions []apiVersion

type versionView struct {
	Version  string  `json:"version"`
	Status   string  `json:"status"`
	SunsetAt instant `json:"sunset_at"`
}

type versionList struct {
	Versions []versionView `json:"versions"`
	Default  string        `json:"default"`
}

// choose answers in the version that the request names, or records a fault if it is
// unknown.
func (all versions) choose(c *call) {
	values := c.r.Header[versionHeader]
	if len(values) == 0 || len(values) == 1 && values[0] == "" {
		return
	}
	if len(values) > 1 {
		c.faults.Add(request.InHeader, versionHeader, request.CodeDuplicate, "is given more than once")
		return
	}
	i := slices.IndexFunc(all, func(v apiVersion) bool { return v.Name == values[0] })
	if i < 0 {
		c.faults.Add(request.InHeader, versionHeader, request.CodeInvalidValue, request.OneOf(all.names()))
		return
	}
	v, h := &all[i], c.Header()
	h[versionHeader] = v.header
	if v.Status == "deprecated" { // RFC 9745 and RFC 8594
		h.Set("Deprecation", "@"+strconv.FormatInt(v.DeprecatedAt.Unix(), 10))
		h.Set("Sunset", v.SunsetAt.UTC().Format(http.TimeFormat))
	}
}

func (all versions) names() []string {
	return views(all, func(v *apiVersion) string { return v.Name })
}

// Routes implements Resource.
func (all versions) Routes() []*Route {
	return []*Route{route("/v1/versions", methods{"GET": seen(immediate(get("", all.list)))})}
}

// list answers GET /v1/versions.
func (all versions) list(c *call) error {
	list := versionList{Default: all[0].Name}
	for _, v := range all {
		list.Versions = append(list.Versions, versionView{v.Name, v.Status, instant(v.SunsetAt)})
	}
	return c.value(http.StatusOK, list)
}
