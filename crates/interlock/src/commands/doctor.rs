//! `interlock doctor`.

mod checks;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;

use crate::arguments::{Doctor, Globals};
use crate::commands::serve;
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, BAD, Cell, DIM, GOOD, HEADING, Layout, Table, WARNING};
use crate::settings::desired::{self, per_address};
use crate::settings::{ByteSize, Limit, Origin, Setting, Settings};

#[derive(Serialize)]
struct Check {
    name: &'static str,
    state: State,
    found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    Warn,
    Fail,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, state: State::Ok, found: found.into(), help: None }
    }

    fn warn(name: &'static str, found: impl Into<String>, help: impl Into<String>) -> Self {
        Self { name, state: State::Warn, found: found.into(), help: Some(help.into()) }
    }

    fn fail(name: &'static str, found: impl Into<String>, help: impl Into<String>) -> Self {
        Self { name, state: State::Fail, found: found.into(), help: Some(help.into()) }
    }
}

/// One printed setting.
#[derive(Serialize)]
struct Line {
    name: &'static str,
    value: Vec<String>,
    origin: Origin,
}

/// Runs all checks without changing anything.
pub(crate) fn run(arguments: &Doctor, globals: &Globals) -> Result<ExitStatus, Failure> {
    let settings = Settings::load(globals)?;
    let lines = lines(&settings);
    let checks = checks::all(&settings);
    let well = checks.iter().all(|check| check.state != State::Fail);
    if arguments.answering.json {
        let document = json!({
            "well": well,
            "version": env!("CARGO_PKG_VERSION"),
            "settings": lines,
            "checks": checks,
        });
        output::json(&document, Layout::Compact)?;
    } else {
        output::text(&words(&lines, &checks))?;
    }
    Ok(ExitStatus::success_if(well))
}

fn lines(settings: &Settings) -> Vec<Line> {
    let paths = |paths: &[std::path::PathBuf]| paths.iter().map(|path| path.display().to_string()).collect();
    vec![
        Line {
            name: "data_dir",
            value: vec![settings.data_dir.value.display().to_string()],
            origin: settings.data_dir.origin.clone(),
        },
        Line {
            name: "config",
            value: vec![settings.config.value.display().to_string()],
            origin: settings.config.origin.clone(),
        },
        Line {
            name: "guide.workflow_dirs",
            value: paths(&settings.workflow_dirs.value),
            origin: settings.workflow_dirs.origin.clone(),
        },
        Line {
            name: "guide.workspace_roots",
            value: paths(&settings.workspace_roots.value),
            origin: settings.workspace_roots.origin.clone(),
        },
        Line {
            name: "guide.commands",
            value: desired::commands(&settings.guide_commands.value),
            origin: settings.guide_commands.origin.clone(),
        },
        Line {
            name: "guide.agents",
            value: desired::agents(&settings.guide_agents.value),
            origin: settings.guide_agents.origin.clone(),
        },
        Line {
            name: "server.public_url",
            value: settings.public_url.value.clone().into_iter().collect(),
            origin: settings.public_url.origin.clone(),
        },
        Line {
            name: "server.allowed_origins",
            value: settings.allowed_origins.value.clone(),
            origin: settings.allowed_origins.origin.clone(),
        },
        Line {
            name: "egress.http",
            value: desired::shown(&settings.http_hosts.value),
            origin: settings.http_hosts.origin.clone(),
        },
        Line {
            name: "http.credentials",
            value: desired::credentials(settings),
            origin: settings.http_credentials.origin.clone(),
        },
        Line {
            name: "egress.private",
            value: settings.private_networks.value.lines(),
            origin: settings.private_networks.origin.clone(),
        },
        Line {
            name: "secrets",
            value: references(&settings.secrets.value),
            origin: settings.secrets.origin.clone(),
        },
        Line {
            name: "otlp.endpoint",
            value: settings.otlp_endpoint.value.clone().into_iter().collect(),
            origin: settings.otlp_endpoint.origin.clone(),
        },
        Line {
            name: "otlp.headers",
            value: references(&settings.otlp_headers.value),
            origin: settings.otlp_headers.origin.clone(),
        },
        Line {
            name: "database.url",
            value: desired::database(settings).into_iter().collect(),
            origin: settings.database_url.origin.clone(),
        },
        Line {
            name: "plugins.listen",
            value: settings.plugins_listen.value.iter().map(ToString::to_string).collect(),
            origin: settings.plugins_listen.origin.clone(),
        },
        Line {
            name: "plugins.public_url",
            value: settings.plugins_url.value.clone().into_iter().collect(),
            origin: settings.plugins_url.origin.clone(),
        },
        Line {
            name: "server.connections_per_address",
            value: vec![per_address(settings)],
            origin: settings.connections_per_address.origin.clone(),
        },
        size("limits.append_bytes", &settings.append_bytes),
        size("limits.run_bytes", &settings.run_bytes),
        size("limits.pattern_bytes", &settings.pattern_bytes),
        limit("rate_limits.key", &settings.key_limit),
        limit("rate_limits.tenant", &settings.tenant_limit),
        limit("rate_limits.route", &settings.route_limit),
        Line {
            name: "retention.finished_runs",
            value: settings.finished_runs.value.iter().map(ToString::to_string).collect(),
            origin: settings.finished_runs.origin.clone(),
        },
        Line {
            name: "retention.answers",
            value: vec![settings.answers.value.to_string()],
            origin: settings.answers.origin.clone(),
        },
    ]
}

/// Names and references, never secrets.
fn references(references: &BTreeMap<String, String>) -> Vec<String> {
    references.iter().map(|(name, reference)| format!("{name} = {reference}")).collect()
}

fn size(name: &'static str, setting: &Setting<ByteSize>) -> Line {
    Line { name, value: vec![setting.value.to_string()], origin: setting.origin.clone() }
}

fn limit(name: &'static str, setting: &Setting<Limit>) -> Line {
    let rate = serve::rate(setting.value).ok().flatten();
    Line { name, value: rate.iter().map(ToString::to_string).collect(), origin: setting.origin.clone() }
}

fn words(lines: &[Line], checks: &[Check]) -> String {
    let mut settings = Table::new(&["setting", "value", "from"]);
    for line in lines {
        let value = if line.value.is_empty() { "none".to_owned() } else { line.value.join(", ") };
        settings.row([line.name.into(), value.into(), Cell::styled(line.origin.to_string(), DIM)]);
    }
    let mut results = Table::new(&["", "check", "found"]);
    for check in checks {
        let state = match check.state {
            State::Ok => Cell::styled("ok", GOOD),
            State::Warn => Cell::styled("warn", WARNING),
            State::Fail => Cell::styled("fail", BAD),
        };
        results.row([state, check.name.into(), check.found.as_str().into()]);
        if let Some(help) = &check.help {
            results.row(["".into(), "".into(), Cell::styled(format!("help: {help}"), DIM)]);
        }
    }
    format!("{HEADING}interlock {}{HEADING:#}\n\n{settings}\n{results}", env!("CARGO_PKG_VERSION"))
}
