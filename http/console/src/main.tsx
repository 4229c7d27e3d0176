import { render } from "preact";
import { App } from "./app";
import * as draw from "./draw";
import * as keys from "./keys";
import * as data from "./live/data";
import * as prices from "./live/prices";
import * as reference from "./reference";
import * as session from "./session";
import * as stream from "./stream/client";
import * as theme from "./theme";
import "./style.css";

theme.run();
keys.run();
data.run();
prices.run();
reference.run();
stream.run();
draw.run(); // after those that have something to draw when the page is seen again
void session.restore();
render(<App />, document.getElementById("app")!);
