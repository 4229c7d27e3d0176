import type { components } from "agentsignal";

type Schemas = components["schemas"];

export type SignalState = Schemas["SignalState"];
export type HistoryEvent = Schemas["HistoryEvent"];
export type Metadata = Schemas["Metadata"];
export type Agent = Schemas["Agent"];
export type AgentDetails = Schemas["AgentDetails"];
export type AgentDefaults = Schemas["AgentDefaults"];
export type Intake = Schemas["IntakeItem"];
export type NewIntake = Schemas["NewIntake"];
export type IntakeRequest = Schemas["IntakeRequest"];
export type Asset = Schemas["AssetState"];
export type Statistics = Schemas["Statistics"];
export type Scorecard = Schemas["Scorecard"];
export type StrategyScore = Schemas["StrategyScore"];
export type WeatherSignal = Schemas["WeatherSignal"];
export type Webhook = Schemas["Webhook"];
export type NewWebhook = Schemas["NewWebhook"];
export type Delivery = Schemas["Delivery"];
export type DeliveryDetail = Schemas["DeliveryDetail"];
export type Schedule = Schemas["Schedule"];
export type ApiKey = Schemas["ApiKey"];
export type Publication = Schemas["Publication"];
export type NewApiKey = Schemas["NewApiKey"];
export type NewReaders = Schemas["NewReaders"];
export type View = Schemas["View"];
export type Account = Schemas["Account"];
export type Tokens = Schemas["Tokens"];
export type Job = Schemas["Job"];
export type ScanJob = Schemas["ScanJob"];
export type AnyJob = Schemas["AnyJob"];
export type Audit = Schemas["Audit"];
export type Readiness = Schemas["Readiness"];

export type Direction = Schemas["Direction"];

export type { Problem } from "agentsignal";
