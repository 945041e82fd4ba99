//! Compares the settings in use with the current configuration, for the console.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use console::{Desired, SettingValue};
use executors::http_request::HostPattern;

use super::{
    ByteSize, GuideAgent, GuideCommand, HttpCredential, McpServer, Origin, Sections, Setting, Settings,
};
use crate::arguments::Globals;
use crate::failure::Failure;

pub(crate) fn desired(applied: &Settings) -> Desired {
    let (now, problem) = match again(applied) {
        Ok(now) => (Some(now), None),
        Err(failure) => (None, Some(failure.to_string())),
    };
    let mut wanted = now.as_ref().map(rows).into_iter().flatten();
    let settings = rows(applied).into_iter().map(|row| {
        let wanted = wanted.next();
        // Flags take precedence over the file, and a restart has the same flags.
        let desired = if matches!(row.origin, Origin::Flag(_)) {
            Some(row.stated())
        } else {
            wanted.map(|row| row.stated())
        };
        console::Setting { name: row.name, applied: row.stated(), desired: desired.filter(|_| now.is_some()) }
    });
    Desired { settings: settings.collect(), problem }
}

/// The settings of the same command after a restart.
fn again(applied: &Settings) -> Result<Settings, Failure> {
    let flagged =
        |setting: &Setting<PathBuf>| matches!(setting.origin, Origin::Flag(_)).then(|| setting.value.clone());
    Settings::load(&Globals { data_dir: flagged(&applied.data_dir), config: flagged(&applied.config) })
}

/// A setting as text.
struct Row {
    name: &'static str,
    value: Vec<String>,
    origin: Origin,
}

impl Row {
    fn stated(&self) -> SettingValue {
        SettingValue { value: self.value.clone(), origin: self.origin.to_string() }
    }
}

/// All settings in a fixed order.
fn rows(settings: &Settings) -> [Row; 23] {
    let secrets = settings.secrets.value.iter().map(|(name, reference)| {
        // If a secret was written in place of a reference, do not show it.
        let shown = match reference.split_once(':') {
            Some(("env" | "file", _)) => reference.as_str(),
            _ => "(not a reference)",
        };
        format!("{name} = {shown}")
    });
    let url = settings.public_url.value.iter().cloned();
    let size = |name, setting: &Setting<ByteSize>| row(name, vec![setting.value.to_string()], setting);
    [
        row("data_dir", vec![path(&settings.data_dir.value)], &settings.data_dir),
        row("settings file", vec![path(&settings.config.value)], &settings.config),
        row("guide.workflow_dirs", paths(&settings.workflow_dirs.value), &settings.workflow_dirs),
        row("guide.workspace_roots", paths(&settings.workspace_roots.value), &settings.workspace_roots),
        row("guide.commands", commands(&settings.guide_commands.value), &settings.guide_commands),
        row("guide.agents", agents(&settings.guide_agents.value), &settings.guide_agents),
        row("server.public_url", url.collect(), &settings.public_url),
        row("server.connections_per_address", vec![per_address(settings)], &settings.connections_per_address),
        size("limits.append_bytes", &settings.append_bytes),
        size("limits.run_bytes", &settings.run_bytes),
        size("limits.pattern_bytes", &settings.pattern_bytes),
        row(
            "plugins.listen",
            settings.plugins_listen.value.iter().map(ToString::to_string).collect(),
            &settings.plugins_listen,
        ),
        row("egress.http", shown(&settings.http_hosts.value), &settings.http_hosts),
        row("http.credentials", credentials(settings), &settings.http_credentials),
        row("egress.private", settings.private_networks.value.lines(), &settings.private_networks),
        row("database.url", database(settings).into_iter().collect(), &settings.database_url),
        row("database.master_key", settings.master_key.value.iter().cloned().collect(), &settings.master_key),
        row("secrets", secrets.collect(), &settings.secrets),
        row("models", sections(settings, &settings.models.value), &settings.models),
        row("envelopes", sections(settings, &settings.envelopes.value), &settings.envelopes),
        row("datasources", sections(settings, &settings.datasources.value), &settings.datasources),
        row("mcp.mount", vec![settings.mcp_mount.value.to_string()], &settings.mcp_mount),
        row("mcp.servers", servers(settings), &settings.mcp_servers),
    ]
}

/// The database for runs. A URL may contain a password, so only a reference is shown.
pub(crate) fn database(settings: &Settings) -> Option<String> {
    settings.database_url.value.as_deref().map(|text| match text.split_once(':') {
        Some(("env" | "file", _)) => text.to_owned(),
        Some(_) | None => "(hidden: may contain credentials)".to_owned(),
    })
}

/// Commands by name, one line each.
pub(crate) fn commands(commands: &BTreeMap<String, GuideCommand>) -> Vec<String> {
    let shown = |(name, command): (&String, &GuideCommand)| {
        let argv: Vec<String> = command.argv.iter().map(|part| format!("{part:?}")).collect();
        let mut line = format!(
            "{name}: argv = [{}], timeout = {}, max_output = {}",
            argv.join(", "),
            command.timeout,
            command.max_output
        );
        if !command.env.is_empty() {
            line.push_str(&format!(", env = {}", command.env.join(" ")));
        }
        line
    };
    commands.iter().map(shown).collect()
}

/// Agents by name, one line each.
pub(crate) fn agents(agents: &BTreeMap<String, GuideAgent>) -> Vec<String> {
    let shown = |(name, agent): (&String, &GuideAgent)| {
        let argv: Vec<String> = agent.argv.iter().map(|part| format!("{part:?}")).collect();
        let mut line = format!(
            "{name}: argv = [{}], timeout = {}, max_output = {}, processes = {}, restarts = {}",
            argv.join(", "),
            agent.timeout,
            agent.max_output,
            agent.processes,
            agent.restarts,
        );
        for (member, names) in [("env", &agent.env), ("tenants", &agent.tenants)] {
            if !names.is_empty() {
                line.push_str(&format!(", {member} = {}", names.join(" ")));
            }
        }
        line
    };
    agents.iter().map(shown).collect()
}

/// Sections by name, one line each.
fn sections(settings: &Settings, sections: &Sections) -> Vec<String> {
    let shown = |(name, members): (&String, &BTreeMap<String, String>)| {
        let members = members.iter().map(|(member, value)| match member.as_str() {
            "secret" => format!("secret = {}", secret(settings, value)),
            // A database URL contains a password, so it is a reference.
            "url" => {
                let named = value.strip_prefix("secret:").map(|name| secret(settings, name));
                format!("url = {}", named.unwrap_or("(not a reference)"))
            }
            "base_url" => format!("base_url = {}", address(value)),
            _ => format!("{member} = {value}"),
        });
        format!("{name}: {}", members.collect::<Vec<_>>().join(", "))
    };
    sections.iter().map(shown).collect()
}

/// Hosts, as the settings spell them.
pub(crate) fn shown(hosts: &[HostPattern]) -> Vec<String> {
    hosts.iter().map(ToString::to_string).collect()
}

/// Credentials by name, one line each.
pub(crate) fn credentials(settings: &Settings) -> Vec<String> {
    let line = |(name, credential): (&String, &HttpCredential)| {
        let HttpCredential { secret: reference, audience, header, prefix: _, tenants } = credential;
        let secret = secret(settings, reference);
        let mut line = format!("{name}: secret = {secret}, audience = {}", shown(audience).join(" "));
        if let Some(header) = header {
            line.push_str(&format!(", header = {header}"));
        }
        if !tenants.is_empty() {
            line.push_str(&format!(", tenants = {}", tenants.join(" ")));
        }
        line
    };
    settings.http_credentials.value.iter().map(line).collect()
}

fn servers(settings: &Settings) -> Vec<String> {
    let shown = |(id, server): (&String, &McpServer)| {
        let mut line = format!("{id}: url = {}", address(&server.url));
        if let Some(name) = &server.secret {
            line.push_str(&format!(", secret = {}", secret(settings, name)));
        }
        if !server.tenants.is_empty() {
            line.push_str(&format!(", tenants = {}", server.tenants.join(" ")));
        }
        line
    };
    settings.mcp_servers.value.iter().map(shown).collect()
}

/// The name of a configured secret. Anything else may be a secret written by mistake and is not
/// shown.
fn secret<'s>(settings: &'s Settings, name: &str) -> &'s str {
    settings.secrets.value.get_key_value(name).map_or("(not the name of a secret)", |(name, _)| name)
}

/// A URL, unless it may contain credentials (user info, query or fragment).
fn address(text: &str) -> &str {
    if text.contains(['@', '?', '#']) { "(hidden: may contain credentials)" } else { text }
}

/// The connections per address, or its default as text.
pub(crate) fn per_address(settings: &Settings) -> String {
    let number = settings.connections_per_address.value.map(|number| number.to_string());
    number.unwrap_or_else(|| "one eighth of all".to_owned())
}

fn row<T>(name: &'static str, value: Vec<String>, setting: &Setting<T>) -> Row {
    Row { name, value, origin: setting.origin.clone() }
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

fn paths(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|each| path(each)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_settings_are_pending() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        let globals = Globals { data_dir: Some(folder.path().to_owned()), config: None };
        std::fs::write(&file, "[secrets]\ndeploy = \"env:DEPLOY\"\n").unwrap();
        let applied = Settings::load(&globals).unwrap();
        let pending = || {
            let desired = desired(&applied);
            let names = desired.settings.iter().filter(|setting| setting.is_pending());
            (names.map(|setting| setting.name).collect::<Vec<_>>(), desired.problem.is_some())
        };
        assert_eq!(pending(), (vec![], false));
        let other = "[server]\npublic_url = \"https://host.example\"\n[secrets]\nx = \"hunter2\"\n";
        std::fs::write(&file, other).unwrap();
        assert_eq!(pending(), (vec!["server.public_url", "secrets"], false));
        assert!(!format!("{:?}", desired(&applied)).contains("hunter2"), "secrets are never shown");
        let parts = "[secrets]\ndeploy = \"env:DEPLOY\"\n[mcp]\nmount = false\n\
             [mcp.servers.a]\nurl = \"https://user:hunter2@a.example\"\nsecret = \"hunter2\"\n\
             [mcp.servers.b]\nurl = \"https://b.example/mcp\"\nsecret = \"deploy\"\n\
             [models.m]\nkind = \"openai\"\nbase_url = \"https://m.example/v1\"\nsecret = \"deploy\"\n\
             [datasources.d]\nkind = \"postgres\"\nurl = \"postgres://user:hunter2@d\"\n";
        std::fs::write(&file, parts).unwrap();
        assert_eq!(pending(), (vec!["models", "datasources", "mcp.mount", "mcp.servers"], false));
        let shown = format!("{:?}", desired(&applied));
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("b: url = https://b.example/mcp, secret = deploy"), "{shown}");
        assert!(shown.contains("base_url = https://m.example/v1"), "{shown}");
        std::fs::write(&file, "[server]\npublic_ur = 1\n").unwrap();
        assert_eq!(pending(), (vec![], true), "an unreadable file is reported, without guesses");
    }
}
