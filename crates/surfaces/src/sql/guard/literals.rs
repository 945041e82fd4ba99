//! Checks that literals appear only where parameters are impossible.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, DataType, Expr, GroupByExpr, LimitClause, OrderByExpr, Query, Select, Statement,
    UnaryOperator, Value, ValueWithSpan, Visit, Visitor,
};
use sqlparser::dialect::{PostgreSqlDialect, SQLiteDialect};
use sqlparser::tokenizer::Tokenizer;

use super::{Class, Dialect, non_parametric, short, tokens};
use crate::error::SurfaceError;

/// Rejects literals in bindable positions, and conditions that are always true.
pub(super) fn check(
    statement: &Statement,
    class: Class,
    mut literals: BTreeMap<String, usize>,
    dialect: Dialect,
) -> Result<(), SurfaceError> {
    let mut walk = LiteralVisitor { dialect, allowed: Vec::new(), queries: 0 };
    if let ControlFlow::Break(refusal) = statement.visit(&mut walk) {
        return Err(refusal);
    }
    if class == Class::Define && walk.queries == 0 {
        return Ok(());
    }
    for text in walk.allowed {
        if let Some(count) = literals.get_mut(&text) {
            *count = count.saturating_sub(1);
        }
    }
    match literals.into_iter().find(|(_, count)| *count > 0) {
        None => Ok(()),
        // The literal is not quoted: it may be a password.
        Some((text, _)) => {
            let kind = if text.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
                "number"
            } else {
                "text"
            };
            Err(non_parametric(format!(
                "the statement contains a {kind} literal; use a placeholder and put the value in `params`"
            )))
        }
    }
}

struct LiteralVisitor {
    dialect: Dialect,
    /// The literals in positions that cannot be bound.
    allowed: Vec<String>,
    queries: usize,
}

impl Visitor for LiteralVisitor {
    type Break = SurfaceError;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SurfaceError> {
        self.queries += 1;
        match &query.limit_clause {
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                self.count(limit.as_ref());
                self.count(offset.as_ref().map(|offset| &offset.value));
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
                self.count(Some(offset));
                self.count(Some(limit));
            }
            None => {}
        }
        self.count(query.fetch.as_ref().and_then(|fetch| fetch.quantity.as_ref()));
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<SurfaceError> {
        if let GroupByExpr::Expressions(expressions, _) = &select.group_by {
            for expression in expressions {
                self.count(Some(expression));
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_order_by_expr(&mut self, order: &OrderByExpr) -> ControlFlow<SurfaceError> {
        self.count(Some(&order.expr));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<SurfaceError> {
        match expression {
            Expr::Cast { data_type, .. } => self.data_type(data_type),
            Expr::BinaryOp { left, op: BinaryOperator::Or, right }
                if is_always_true(left) || is_always_true(right) =>
            {
                return ControlFlow::Break(non_parametric(
                    "one side of an `OR` is always true, which disables the condition",
                ));
            }
            Expr::BinaryOp {
                left,
                op: BinaryOperator::Eq | BinaryOperator::GtEq | BinaryOperator::LtEq,
                right,
            } if left == right && !is_placeholder(left) => {
                return ControlFlow::Break(non_parametric(
                    "a condition compares a value with itself, which is always true",
                ));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl LiteralVisitor {
    /// Allows a lone integer.
    fn count(&mut self, expression: Option<&Expr>) {
        if let Some(Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. })) = expression
            && digits.bytes().all(|byte| byte.is_ascii_digit())
        {
            self.allowed.push(digits.clone());
        }
    }

    /// Allows the numbers of a type.
    fn data_type(&mut self, data_type: &DataType) {
        let text = data_type.to_string();
        let tokens = match self.dialect {
            Dialect::Sqlite => Tokenizer::new(&SQLiteDialect {}, &text).tokenize(),
            Dialect::Postgres => Tokenizer::new(&PostgreSqlDialect {}, &text).tokenize(),
        };
        for (text, count) in tokens::literals(&tokens.unwrap_or_default()) {
            if text.bytes().all(|byte| byte.is_ascii_digit()) {
                self.allowed.extend(std::iter::repeat_n(short(&text), count));
            }
        }
    }
}

fn is_placeholder(expression: &Expr) -> bool {
    matches!(expression, Expr::Value(ValueWithSpan { value: Value::Placeholder(_), .. }))
}

/// Whether the expression is true for all rows.
fn is_always_true(expression: &Expr) -> bool {
    match expression {
        Expr::Value(value) => value.value == Value::Boolean(true),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => is_always_false(expr),
        Expr::IsNull(inner) => matches!(&**inner, Expr::Value(ValueWithSpan { value: Value::Null, .. })),
        Expr::Nested(inner) | Expr::IsTrue(inner) | Expr::IsNotFalse(inner) => is_always_true(inner),
        Expr::IsFalse(inner) | Expr::IsNotTrue(inner) => is_always_false(inner),
        _ => false,
    }
}

fn is_always_false(expression: &Expr) -> bool {
    match expression {
        Expr::Nested(inner) => is_always_false(inner),
        Expr::Value(value) => value.value == Value::Boolean(false),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => is_always_true(expr),
        _ => false,
    }
}
