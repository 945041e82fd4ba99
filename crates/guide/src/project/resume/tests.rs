use proptest::prelude::*;

use super::query::{QueryMatch, WHOLE, Words};
use super::tokens::{normalise, tokens};
use super::*;
use crate::record::budgets::SNIPPET_BYTES;
use crate::record::{EventIndex, NodeId, NodeKind, RunId, SessionId};
use crate::state::testing::Log;

fn input(name: &str, text: &str) -> RankingInput {
    RankingInput {
        session_id: SessionId::parse(&format!("sess_{name}")).unwrap(),
        run_id: RunId::parse(&format!("run_{name}")).unwrap(),
        tip_node_id: NodeId::parse("node_x").unwrap(),
        workflow_id: "wr.sample".to_owned(),
        title: None,
        recap: text.to_owned(),
        git_branch: None,
        git_head_sha: None,
        repo_root_hash: None,
        last_activity_index: EventIndex(1),
        is_complete: false,
        last_modified_ms: None,
        text_tokens: TokenText::of([text], 4096),
        workflow_tokens: TokenText::of(["wr.sample"], 256),
        branch_tokens: TokenText::default(),
    }
}

fn ask(text: &str) -> ResumeQuery {
    ResumeQuery { text: Some(text.to_owned()), ..ResumeQuery::default() }
}

fn order(inputs: &[RankingInput], query: &ResumeQuery) -> Vec<(String, MatchReason)> {
    let ranking = rank(inputs, query);
    ranking
        .ranked
        .iter()
        .map(|ranked| (ranked.input.session_id.as_str()[5..].to_owned(), ranked.reason))
        .collect()
}

#[test]
fn tokens_of_texts() {
    for (text, expected) in [
        ("", ""),
        ("  ,;! ", ""),
        ("b a b A", "a b"),
        ("Fix the LOGIN-page_2!", "fix login-page_2 the"),
        ("ﬁx ① Ｗｉｄｅ", "1 fix wide"),
        ("straße naïve", "e na stra ve"),
        ("\u{212a}elvin", "kelvin"),
        ("a.b/c", "a b c"),
    ] {
        let found = TokenText::of([text], 4096);
        assert_eq!(found.as_str(), expected, "{text:?}");
        let wire = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<TokenText>(&wire).unwrap(), found, "{text:?}");
    }
    assert_eq!(TokenText::of(["one two three"], 8).as_str(), "one two", "the first tokens are kept");
    assert_eq!(TokenText::of([&*"x".repeat(65), "y"], 4096).as_str(), "y");
    for wrong in ["b a", "a a", "A", " a", "a  b", "a,b", "ä"] {
        assert!(TokenText::try_from(wrong.to_owned()).is_err(), "{wrong:?}");
    }
}

#[test]
fn the_seven_tiers_in_order() {
    let sha = "4f3c2a1b0d9e8f7a6b5c4d3e2f1a0b9c8d7e6f5a";
    let mut inputs = vec![
        input("recency", "unrelated"),
        RankingInput { git_branch: Some("feature/login".to_owned()), ..input("branch", "unrelated") },
        RankingInput { git_head_sha: Some(sha.to_ascii_uppercase()), ..input("commit", "unrelated") },
        RankingInput {
            workflow_tokens: TokenText::of(["my.checkout-latency"], 256),
            ..input("workflow", "unrelated")
        },
        input("partial", "looked at checkout"),
        input("notes", "checkout has a latency of seconds"),
        input("exact", "unrelated"),
    ];
    let query = ResumeQuery {
        session_id: Some(SessionId::parse("sess_exact").unwrap()),
        git_branch: Some("feature/login-page".to_owned()),
        git_head_sha: Some(sha.to_owned()),
        ..ask("Checkout latency")
    };
    let expected = [
        ("exact", MatchReason::ExactId, MatchConfidence::Strong),
        ("notes", MatchReason::Notes, MatchConfidence::Strong),
        ("partial", MatchReason::NotesPartial, MatchConfidence::Medium),
        ("workflow", MatchReason::WorkflowId, MatchConfidence::Medium),
        ("commit", MatchReason::HeadSha, MatchConfidence::Medium),
        ("branch", MatchReason::Branch, MatchConfidence::Medium),
        ("recency", MatchReason::Recency, MatchConfidence::Weak),
    ];
    for _ in 0..inputs.len() {
        inputs.rotate_left(1);
        let ranking = rank(&inputs, &query);
        let found: Vec<_> = ranking
            .ranked
            .iter()
            .map(|ranked| {
                let candidate = ranking.candidate(ranked);
                assert!(candidate.match_explanation.contains(ranked.reason.explanation()));
                assert_eq!(candidate.why_matched[0], ranked.reason);
                (ranked.input.session_id.as_str()[5..].to_owned(), ranked.reason, candidate.confidence)
            })
            .collect();
        assert_eq!(found, expected.map(|(name, reason, confidence)| (name.to_owned(), reason, confidence)));
        assert_eq!(ranking.total_eligible(), 7);
    }
}

#[test]
fn ties_are_broken_in_order() {
    let here = Some("sha256:here".to_owned());
    let at =
        |name: &str, index: u64| RankingInput { last_activity_index: EventIndex(index), ..input(name, "") };
    let inputs = [
        at("d", 5),
        at("c", 5),
        at("older", 4),
        RankingInput { is_complete: true, ..at("done", 99) },
        RankingInput { repo_root_hash: here.clone(), is_complete: true, ..at("here-done", 1) },
        RankingInput { repo_root_hash: here.clone(), ..at("here", 1) },
    ];
    let query = ResumeQuery { repo_root_hash: here, ..ResumeQuery::default() };
    let names: Vec<_> = order(&inputs, &query).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["here", "here-done", "c", "d", "older", "done"]);
    let ranking = rank(&inputs, &query);
    let best = ranking.candidate(&ranking.ranked[0]);
    assert_eq!(best.why_matched, [MatchReason::Recency, MatchReason::RepoRoot]);
    assert_eq!(best.confidence, MatchConfidence::Medium);
    let narrow = ResumeQuery { same_workspace_only: true, ..query };
    assert_eq!(order(&inputs, &narrow).len(), 2);
    let nowhere = ResumeQuery { same_workspace_only: true, ..ResumeQuery::default() };
    assert!(order(&inputs, &nowhere).is_empty());
}

#[test]
fn a_query_without_words_matches_nothing() {
    for text in ["", "!!!", "ÄÖ"] {
        let found = order(&[input("a", "some notes")], &ask(text));
        assert_eq!(found, [("a".to_owned(), MatchReason::Recency)], "{text:?}");
    }
}

#[test]
fn common_words_weigh_little_and_long_ones_much() {
    for (query, text, share, whole) in [
        ("fix", "fix", WHOLE, true),
        ("authentication", "auth", WHOLE, false),
        ("auth", "authentication", WHOLE, false),
        ("ab", "abc", 0, false),
        ("abc", "ab", 0, false),
        // 0.35 of 0.35 + 2.5
        ("fix authentication", "fix", 350_000 * 100 / 285, false),
        // 0.2 of 0.2 + 1.0
        ("an oven", "an", 166_666, false),
    ] {
        let found = Words::new(&ask(query)).compare(&TokenText::of([text], 4096));
        let near = found.share.abs_diff(share) <= WHOLE / 1000;
        assert!(near && found.whole == whole, "{query:?} in {text:?}: {found:?}");
    }
}

#[test]
fn previews_stay_within_their_budget_and_show_the_match() {
    let long = format!("{} needle {}", "früh ".repeat(600), "spät ".repeat(600));
    for (title, recap) in [
        (None, String::new()),
        (Some("title"), "short".to_owned()),
        (Some(&*"t".repeat(4000)), long.clone()),
        (Some("title"), format!("needle {long}")),
        (None, format!("{}needle", "x".repeat(3000))),
    ] {
        let preview = snippet(title, &recap, &ask("NEEDLE"));
        assert!(preview.len() <= SNIPPET_BYTES, "{} bytes", preview.len());
        assert_eq!(preview.contains("needle"), recap.contains("needle"));
    }
    assert_eq!(snippet(Some("title"), "short", &ask("x")), "title\n\nshort");
    assert!(snippet(None, &long, &ask("nowhere")).ends_with("[TRUNCATED]"));
    assert!(snippet(None, &long, &ask("needle")).starts_with("… "));
}

#[test]
fn the_input_of_a_run_comes_from_its_tip() {
    let mut log = Log::start("input");
    log.context(serde_json::json!({"goal": "Speed up the checkout"}));
    log.notes(0, "profiled the database", None);
    let step = log.advance(0, NodeKind::Step);
    let wrong = log.notes(step, "blamed the cache", None);
    log.notes(step, "found an index missing\n\n[TRUNCATED]", Some(&wrong));
    let state = log.state();
    let found = ranking_input(&state, &state.runs()[0], Some("Sample work")).unwrap();
    assert_eq!(found.title.as_deref(), Some("Speed up the checkout"));
    assert_eq!(found.text_tokens.as_str(), "an checkout database found index missing profiled speed the up");
    assert_eq!(found.workflow_tokens.as_str(), "sample work wr");
    assert_eq!((found.recap.as_str(), found.is_complete), ("found an index missing", false));
    let wire = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<RankingInput>(&wire).unwrap(), found);
}

/// The matching rule, implemented word by word.
fn literal_match(query: &str, text: &str) -> QueryMatch {
    let words: std::collections::BTreeSet<_> = tokens(query).collect();
    let found: std::collections::BTreeSet<_> = tokens(text).collect();
    if words.is_empty() {
        return QueryMatch::default();
    }
    let alike = |word: &str| {
        found.contains(word)
            || (word.len() >= 3
                && found
                    .iter()
                    .any(|token| token.len() >= 3 && (token.contains(word) || word.contains(token))))
    };
    let whole = words.iter().all(|word| found.contains(word));
    let share = u64::from(words.iter().all(|word| alike(word)));
    QueryMatch { whole, share }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_fast_match_agrees_with_the_rule(
        query in "([abc-]{1,5} ){0,4}",
        text in "([abc-]{1,5} ){0,12}",
    ) {
        let found = Words::new(&ask(&query)).compare(&TokenText::of([&*text], 4096));
        let expected = literal_match(&query, &text);
        prop_assert_eq!(found.whole, expected.whole);
        prop_assert_eq!(found.share == WHOLE, expected.share == 1);
    }

    #[test]
    fn tokens_and_previews_are_valid_for_any_text(text in any::<String>(), query in any::<String>()) {
        let found = TokenText::of([&*text], 4096);
        prop_assert_eq!(TokenText::try_from(found.as_str().to_owned()), Ok(found.clone()));
        prop_assert_eq!(TokenText::of([found.as_str()], 4096), found, "tokens are their own tokens");
        prop_assert_eq!(normalise(&normalise(&text)).is_ascii(), normalise(&text).is_ascii());
        prop_assert!(snippet(Some(&text), &text.repeat(40), &ask(&query)).len() <= SNIPPET_BYTES);
    }

    #[test]
    fn the_order_does_not_depend_on_the_order_of_the_input(
        texts in prop::collection::vec("([abc]{1,4} ){0,4}", 1..12),
        query in "([abc]{1,4} ){0,3}",
    ) {
        let mut inputs: Vec<_> =
            texts.iter().enumerate().map(|(at, text)| input(&at.to_string(), text)).collect();
        let forward = order(&inputs, &ask(&query));
        inputs.reverse();
        prop_assert_eq!(order(&inputs, &ask(&query)), forward);
    }
}
