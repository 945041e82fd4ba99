//! The SQLite authorizer for workflow statements.
//!
//! The guard has already checked the text. This is a second check by the engine that runs the statement: anything that
//! the two parse differently is denied here.

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use crate::sql::guard::{RESERVED_PREFIX, is_refused_in_sqlite};

/// For whom statements are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Mode {
    /// The host: everything is allowed.
    Host = 0,
    /// A workflow that reads.
    Read = 1,
    /// A workflow that changes rows.
    Write = 2,
    /// A workflow that changes tables.
    Define = 3,
}

impl Mode {
    pub(super) const fn of(number: u8) -> Self {
        match number {
            0 => Self::Host,
            2 => Self::Write,
            3 => Self::Define,
            _ => Self::Read,
        }
    }
}

pub(super) fn judge(mode: Mode, context: &AuthContext<'_>) -> Authorization {
    if mode == Mode::Host || may(mode, &context.action) { Authorization::Allow } else { Authorization::Deny }
}

fn may(mode: Mode, action: &AuthAction<'_>) -> bool {
    match action {
        AuthAction::Select | AuthAction::Recursive => true,
        AuthAction::Function { function_name } => !is_refused_in_sqlite(&function_name.to_ascii_lowercase()),
        AuthAction::Read { table_name, .. } => is_open(mode, table_name),
        AuthAction::Insert { table_name }
        | AuthAction::Delete { table_name }
        | AuthAction::Update { table_name, .. } => mode >= Mode::Write && is_open(mode, table_name),
        AuthAction::CreateTable { table_name }
        | AuthAction::DropTable { table_name }
        | AuthAction::AlterTable { table_name, .. }
        | AuthAction::CreateView { view_name: table_name }
        | AuthAction::DropView { view_name: table_name } => mode == Mode::Define && is_open(mode, table_name),
        AuthAction::CreateIndex { table_name, index_name }
        | AuthAction::DropIndex { table_name, index_name } => {
            mode == Mode::Define && is_open(mode, table_name) && is_open(mode, index_name)
        }
        AuthAction::Reindex { index_name } => mode == Mode::Define && is_open(mode, index_name),
        // Attach, pragmas, transactions, triggers, virtual and temporary tables, and future actions.
        _ => false,
    }
}

/// Whether a workflow may access the table. SQLite itself reads and writes the schema table when a table is changed.
fn is_open(mode: Mode, table: &str) -> bool {
    let table = table.to_ascii_lowercase();
    !table.starts_with(RESERVED_PREFIX) && (mode == Mode::Define || !table.starts_with("sqlite_"))
}
