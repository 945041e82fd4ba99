//! Shared test support for apply: plans, an in-memory resolver, and tree comparison.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;
use workspace::apply::{Applier, ApplyReport, ApplyRequest, LeaseScope, Restore};
use workspace::plan::{Source, ValidPlan};
use workspace::resolve::{Content, Item, ResolveRequest, Resolver, Sink};
use workspace::rooted::Dir;
use workspace::{Code, Error};

/// The initial time of tests.
pub(crate) const NOW: u64 = 1_800_000_000_000;

/// A plan builder.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) id: char,
    pub(crate) entries: Vec<Value>,
    pub(crate) mounts: Vec<(&'static str, &'static str)>,
    pub(crate) scope: Value,
}

impl Plan {
    /// Request A: three rendered files, a seed of `tmp`, an agent. For run `run1`, job `job1`.
    pub(crate) fn base() -> Self {
        Self {
            id: 'a',
            entries: Vec::new(),
            mounts: Vec::new(),
            scope: json!({"runId": "run1", "jobRunId": "job1"}),
        }
        .entry("tmp:seed", "tmp", ".keep", "read-write", literal(b""))
        .entry(
            "agent-bundle:engineer",
            ".opencode/agents",
            "engineer.md",
            "read-only",
            json!({"kind": "agent-definition", "orgId": "o", "agentSlug": "engineer", "groupKey": "g",
                    "agentMode": "primary"}),
        )
    }

    pub(crate) fn id(mut self, id: char) -> Self {
        self.id = id;
        self
    }

    pub(crate) fn scope(mut self, scope: Value) -> Self {
        self.scope = scope;
        self
    }

    pub(crate) fn grant(mut self, slot: &'static str, mode: &'static str) -> Self {
        self.mounts.push((slot, mode));
        self
    }

    pub(crate) fn entry(
        mut self,
        key: &str,
        slot: &str,
        rel_path: &str,
        mode: &str,
        source: impl Into<Value>,
    ) -> Self {
        let source: Value = source.into();
        self.entries.push(json!({
            "mountKey": key, "slot": format!("/workspace/{slot}"), "relPath": rel_path, "mode": mode, "source": source,
        }));
        self
    }

    pub(crate) fn skill(self, key: &str) -> Self {
        let source = json!({"kind": "skill-bundle", "skillKey": key});
        self.entry(&format!("skill-bundle:{key}"), ".opencode/skills", key, "read-only", source)
    }

    /// A read-only seed file in a slot.
    pub(crate) fn seed(self, slot: &str, rel_path: &str, bytes: &[u8]) -> Self {
        self.entry(&format!("seed:{slot}:{rel_path}"), slot, rel_path, "read-only", literal(bytes))
    }

    pub(crate) fn kb(self, space: &str) -> Self {
        let source = json!({"kind": "kb-space", "spaceId": space});
        self.entry(
            &format!("references:kb:{space}"),
            "references",
            &format!("kb/{space}"),
            "read-only",
            source,
        )
    }

    pub(crate) fn repo(self, slot: &str, name: &str, mode: &str) -> Self {
        let source = json!({"kind": "scm-repo", "repoRef": name, "ref": "HEAD"});
        self.entry(&format!("repo:{name}"), slot, name, mode, source)
    }

    pub(crate) fn check(&self) -> Result<ValidPlan, Error> {
        let mounts: Vec<Value> = self
            .mounts
            .iter()
            .map(|(slot, mode)| json!({"mount": format!("/workspace/{slot}"), "mode": mode}))
            .collect();
        let mut params = json!({
            "orgId": "o", "projectId": "p", "agentSlug": "engineer", "groupKey": "g", "role": "engineer", "mounts": mounts,
        });
        for (key, value) in self.scope.as_object().into_iter().flatten() {
            params[key] = value.clone();
        }
        let rendered = [
            ("agents-md", "AGENTS.md"),
            ("context-json", "context.json"),
            ("system-overlay", ".opencode/system-overlay.md"),
        ];
        let mut entries = Vec::new();
        for (key, slot) in rendered {
            let mut source = params.clone();
            source["kind"] = format!("rendered-{key}").into();
            entries.push(json!({
                "mountKey": key, "slot": format!("/workspace/{slot}"), "relPath": "", "mode": "read-only", "source": source,
            }));
        }
        entries.extend(self.entries.iter().cloned());
        let plan = json!({"applyId": self.id.to_string().repeat(64), "entries": entries});
        ValidPlan::check(&plan, None, false)
    }

    pub(crate) fn valid(&self) -> ValidPlan {
        self.check().unwrap()
    }
}

pub(crate) fn literal(bytes: &[u8]) -> Value {
    use base64::Engine as _;
    let bytes = base64::prelude::BASE64_STANDARD.encode(bytes);
    json!({"kind": "static-literal", "pathWithinWorkspace": "x", "bytes": bytes})
}

/// The content of a source.
#[derive(Clone, Debug)]
pub(crate) enum Thing {
    File(Vec<u8>),
    Tool(Vec<u8>),
    Link(&'static str),
    Dir,
}

pub(crate) fn text(text: &str) -> Thing {
    Thing::File(text.as_bytes().to_vec())
}

/// A resolver that answers from memory and records its requests.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) trees: Mutex<BTreeMap<String, Vec<(String, Thing)>>>,
    pub(crate) asked: Mutex<Vec<String>>,
    /// How many times each source fails first, and with which code.
    pub(crate) failing: Mutex<BTreeMap<String, (usize, Code)>>,
    pub(crate) renders: AtomicUsize,
    rendered: Mutex<bool>,
}

impl Memory {
    pub(crate) fn new() -> Arc<Self> {
        let memory = Self::default();
        memory.set("agent:engineer", &[("", text("# engineer"))]);
        memory.set("rendered-agents-md", &[("", text("# AGENTS"))]);
        memory.set("rendered-context-json", &[("", text("{}"))]);
        memory.set("rendered-system-overlay", &[("", text("overlay"))]);
        Arc::new(memory)
    }

    pub(crate) fn set(&self, source: &str, things: &[(&str, Thing)]) {
        let things = things.iter().map(|(path, thing)| ((*path).to_owned(), thing.clone())).collect();
        self.trees.lock().unwrap().insert(source.to_owned(), things);
    }

    pub(crate) fn fail(&self, source: &str, times: usize, code: Code) {
        self.failing.lock().unwrap().insert(source.to_owned(), (times, code));
    }

    /// The requests since the last call, sorted.
    pub(crate) fn asked(&self) -> Vec<String> {
        *self.rendered.lock().unwrap() = false;
        let mut asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked.sort();
        asked
    }
}

pub(crate) fn name_of(source: &Source) -> String {
    match source {
        Source::AgentDefinition { agent_slug, .. } => format!("agent:{agent_slug}"),
        Source::SkillBundle { skill_key } => format!("skill:{skill_key}"),
        Source::ArtifactVersion { artifact_id, .. } => format!("artifact:{artifact_id}"),
        Source::KbSpace { space_id } => format!("space:{space_id}"),
        Source::KbPages { space_id, .. } => format!("pages:{space_id}"),
        Source::ScmRepo { repo_ref, .. } => format!("repo:{repo_ref}"),
        other => other.kind().to_string(),
    }
}

impl Resolver for Memory {
    fn resolve(&self, want: ResolveRequest<'_>, sink: &mut dyn Sink) -> Result<(), Error> {
        let name = name_of(want.source);
        self.asked.lock().unwrap().push(name.clone());
        if name.starts_with("rendered-") {
            // One rendering for the three, as the contract requires.
            let mut rendered = self.rendered.lock().unwrap();
            if !std::mem::replace(&mut *rendered, true) {
                self.renders.fetch_add(1, Ordering::Relaxed);
            }
        }
        let mut failure = None;
        if let Some((times, code)) = self.failing.lock().unwrap().get_mut(&name)
            && *times > 0
        {
            *times -= 1;
            failure = Some(Error::new(*code, format!("no {name} today")));
        }
        let things = self.trees.lock().unwrap().get(&name).cloned();
        let things =
            things.ok_or_else(|| Error::new(Code::ResolveNotFound, format!("there is no {name}")))?;
        for (path, thing) in things {
            let executable = matches!(thing, Thing::Tool(_));
            let content = match thing {
                Thing::File(bytes) | Thing::Tool(bytes) => Content::Bytes(bytes),
                Thing::Link(target) => Content::Link(target.to_owned()),
                Thing::Dir => Content::Directory,
            };
            sink.put(Item { rel_path: path, executable, content })?;
        }
        // After everything was passed on, so that a second attempt finds what the first one staged.
        failure.map_or(Ok(()), Err)
    }
}

/// A root with a resolver.
pub(crate) struct World {
    pub(crate) temp: TempDir,
    pub(crate) memory: Arc<Memory>,
}

impl Drop for World {
    fn drop(&mut self) {
        // Read-only files cannot be removed without changing permissions first.
        let _ = Dir::open_root(self.temp.path()).and_then(|temp| temp.remove_tree("root"));
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::at(tempfile::tempdir().unwrap())
    }

    /// In memory if the machine supports it, for speed.
    pub(crate) fn in_memory() -> Self {
        Self::at(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap())
    }

    fn at(temp: TempDir) -> Self {
        std::fs::create_dir(temp.path().join("root")).unwrap();
        Self { temp, memory: Memory::new() }
    }

    pub(crate) fn root(&self) -> std::path::PathBuf {
        self.temp.path().join("root")
    }

    pub(crate) fn applier(&self) -> Applier {
        Applier::new(&self.root()).unwrap()
    }

    pub(crate) fn resolver(&self) -> Arc<dyn Resolver> {
        Arc::clone(&self.memory) as Arc<dyn Resolver>
    }

    /// Applies with default options.
    pub(crate) fn apply(&self, plan: &Plan) -> Result<ApplyReport, Error> {
        self.apply_with(plan, |_| {})
    }

    pub(crate) fn apply_with(
        &self,
        plan: &Plan,
        change: impl FnOnce(&mut ApplyRequest<'_>),
    ) -> Result<ApplyReport, Error> {
        self.apply_at(plan, NOW, change)
    }

    pub(crate) fn apply_at(
        &self,
        plan: &Plan,
        now: u64,
        change: impl FnOnce(&mut ApplyRequest<'_>),
    ) -> Result<ApplyReport, Error> {
        let valid = plan.valid();
        let scope = LeaseScope::of(&valid, 0);
        let mut request = ApplyRequest::new(&valid, &scope, "test");
        change(&mut request);
        self.applier().apply(&request, &self.resolver(), now, &())
    }

    /// Applies, and unpacks a snapshot over the read-write slots.
    pub(crate) fn restore(&self, plan: &Plan, restore: &dyn Restore) -> Result<ApplyReport, Error> {
        let valid = plan.valid();
        let scope = LeaseScope::of(&valid, 0);
        let request = ApplyRequest { restore: Some(restore), ..ApplyRequest::new(&valid, &scope, "test") };
        self.applier().apply(&request, &self.resolver(), NOW, &())
    }

    /// Writes a file; read-only directories are made writable meanwhile.
    pub(crate) fn write(&self, path: &str, text: &str) {
        self.vandalise(path, |path| {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            if path.exists() {
                std::fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
            }
            std::fs::write(path, text).unwrap();
        });
    }

    pub(crate) fn remove(&self, path: &str) {
        self.vandalise(path, |path| {
            let above = Dir::open_root(path.parent().unwrap()).unwrap();
            above.remove_tree(path.file_name().unwrap()).unwrap();
        });
    }

    /// Changes a path whose directories are made writable meanwhile.
    fn vandalise(&self, path: &str, act: impl FnOnce(&Path)) {
        let root = self.root();
        let path = root.join(path);
        let above = path.ancestors().skip(1).take_while(|above| *above != root);
        let above: Vec<_> = above
            .filter_map(|above| {
                Some((above.to_owned(), std::fs::symlink_metadata(above).ok()?.permissions()))
            })
            .collect();
        for (above, _) in above.iter().rev() {
            std::fs::set_permissions(above, Permissions::from_mode(0o755)).unwrap();
        }
        act(&path);
        for (above, mode) in above {
            std::fs::set_permissions(above, mode).unwrap();
        }
    }

    pub(crate) fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.root().join(path)).ok()
    }

    pub(crate) fn mode(&self, path: &str) -> u32 {
        std::fs::symlink_metadata(self.root().join(path)).unwrap().mode() & 0o7777
    }

    /// Everything that an agent can see.
    pub(crate) fn tree(&self) -> BTreeMap<String, String> {
        tree(&self.root())
    }
}

/// Every path below a directory with mode and content, without the state folder.
pub(crate) fn tree(root: &Path) -> BTreeMap<String, String> {
    let mut seen = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            if name == ".interlock" {
                continue;
            }
            let metadata = std::fs::symlink_metadata(&path).unwrap();
            let mode = metadata.mode() & 0o7777;
            let shown = if metadata.is_symlink() {
                format!("-> {}", std::fs::read_link(&path).unwrap().display())
            } else if metadata.is_dir() {
                waiting.push(path.clone());
                format!("{mode:04o} dir")
            } else {
                format!("{mode:04o} {}", String::from_utf8_lossy(&std::fs::read(&path).unwrap()))
            };
            seen.insert(name, shown);
        }
    }
    seen
}

/// The contents of the staging and trash folders: empty after an apply.
pub(crate) fn left_behind(root: &Path) -> Vec<String> {
    let mut left = Vec::new();
    for folder in ["staging", "trash"] {
        if let Ok(names) = std::fs::read_dir(root.join(".interlock").join(folder)) {
            left.extend(
                names.map(|name| format!("{folder}/{}", name.unwrap().file_name().to_string_lossy())),
            );
        }
    }
    for file in ["journal.json"] {
        if root.join(".interlock").join(file).exists() {
            left.push(file.to_owned());
        }
    }
    left
}
