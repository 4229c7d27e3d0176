package http

import (
	"cmp"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// This file describes the bodies of runs as JSON Schema, from the tables and limits by which
// runspec.go and agent.Check judge them. A test and a fuzz target compare the two.

// schemaDialect is the version of JSON Schema.
const schemaDialect = "https://json-schema.org/draft/2020-12/schema"

// localePattern is the form of a language tag.
const localePattern = "^[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*$"

// schema is a JSON Schema.
type schema struct {
	Dialect     string             `json:"$schema,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        any                `json:"type,omitempty"` // a name, or several
	Enum        []any              `json:"enum,omitempty"`
	Examples    []string           `json:"examples,omitempty"`
	Const       string             `json:"const,omitempty"`
	Default     any                `json:"default,omitempty"`
	MinLength   int                `json:"minLength,omitempty"`
	MaxLength   int                `json:"maxLength,omitempty"`
	Pattern     string             `json:"pattern,omitempty"`
	Items       *schema            `json:"items,omitempty"`
	MaxItems    int                `json:"maxItems,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
	Closed      *bool              `json:"additionalProperties,omitempty"` // false: no other members
	AllOf       []*schema          `json:"allOf,omitempty"`
	If          *schema            `json:"if,omitempty"`
	Then        *schema            `json:"then,omitempty"`
}

// nullable returns the type of an optional member, for which null is as good as absence.
func nullable(name string) []string { return []string{name, "null"} }

// oneOf returns the schema of a required text out of values.
func oneOf[T ~string](values []T) *schema {
	x := &schema{Type: "string"}
	for _, v := range values {
		x.Enum = append(x.Enum, v)
	}
	return x
}

// optional returns the schema of an optional text out of values.
func optional[T ~string](values []T, otherwise T) *schema {
	x := oneOf(values)
	x.Type, x.Enum, x.Default = nullable("string"), append(x.Enum, nil), otherwise
	return x
}

// inputSchema returns the schema of the body of a run of an agent.
func inputSchema(a *signal.Agent) *schema {
	x := &schema{
		Dialect:  schemaDialect,
		Title:    "Run of the agent " + string(a.ID),
		Type:     "object",
		Closed:   new(false),
		Required: []string{"asset", "strategy"},
		Properties: map[string]*schema{
			"asset":      assetSchema(a),
			"strategy":   oneOf(a.Strategies),
			"timeframe":  optional(signal.Timeframes, cmp.Or(a.Defaults.Timeframe, signal.H1)),
			"risk_level": optional(signal.RiskLevels, cmp.Or(a.Defaults.Risk, signal.MediumRisk)),
			"async": {
				Type:        nullable("boolean"),
				Default:     false,
				Description: "Answer with a job, to be polled, instead of waiting for the signal.",
			},
			"parameters": {
				Type:       nullable("object"),
				Closed:     new(false),
				Properties: parameterSchemas(a),
			},
		},
	}
	if a.Category == signal.Weather && a.Account == "" {
		for _, name := range a.Strategies {
			x.AllOf = append(x.AllOf, &schema{
				If: &schema{
					Properties: map[string]*schema{"strategy": {Const: name}},
					Required:   []string{"strategy"},
				},
				Then: &schema{Properties: map[string]*schema{"asset": oneOf(agent.CommoditiesOf(name))}},
			})
		}
	}
	return x
}

// assetSchema returns the schema of the asset. That of commodities has their catalogue names only,
// of which a form makes a choice; runs take other spellings, too.
func assetSchema(a *signal.Agent) *schema {
	x := &schema{Type: "string", MinLength: 1, MaxLength: maxAssetLength}
	switch {
	case a.Category == signal.Trading:
		x.Description = "An asset by any of its names: " + assetsAdvice + "."
		x.Examples = []string{"BTC", "EUR/USD", "AAPL"}
	case hasPrices(a):
		x = oneOf(agent.Commodities)
		x.Description = "By its catalogue name; runs also accept its other spellings."
	default:
		x.Description, x.Examples = "The subject of the text.", []string{"standing desk"}
	}
	return x
}

// parameterSchemas returns the schemas of the parameters of an agent.
func parameterSchemas(a *signal.Agent) map[string]*schema {
	switch a.Category {
	case signal.Weather:
		return map[string]*schema{"region": optional(agent.Regions, agent.Regions[0])}
	case signal.Content:
		phrases := &schema{
			Type:     nullable("array"),
			MaxItems: agent.MaxPhrases,
			Items:    &schema{Type: "string", MinLength: 1, MaxLength: agent.MaxPhraseLength},
		}
		return map[string]*schema{
			"keywords": phrases,
			"features": phrases,
			"locale": {
				Type:        nullable("string"),
				MaxLength:   agent.MaxLocaleLength,
				Pattern:     localePattern,
				Description: "A language tag such as en-US.",
			},
		}
	case signal.Trading:
	}
	return nil
}
