use super::*;
use crate::record::RunId;
use crate::state::testing::Log;

/// A run with a blocked attempt and its retry, a checkpoint, a fork, and an end.
fn sample() -> (Log, Labels) {
    let mut log = Log::start("picture");
    let reproduce = log.advance(0, NodeKind::Step);
    log.checkpoint(reproduce);
    let blocked = log.advance(reproduce, NodeKind::BlockedAttempt);
    let retried = log.advance(blocked, NodeKind::Step);
    let fork = log.advance(reproduce, NodeKind::Step);
    log.advance(fork, NodeKind::BlockedAttempt);
    log.complete(retried);
    let labels = [(0, "Say what is wrong"), (reproduce, "Reproduce <it> & \"quote\" it, at length")];
    let labels = labels.into_iter().map(|(at, text)| (log.nodes[at].clone(), text.to_owned())).collect();
    (log, labels)
}

#[test]
fn pictures_match_the_golden_files() {
    let (log, labels) = sample();
    let state = log.state();
    let mermaid = to_mermaid(&state, &log.run, &labels).unwrap();
    let svg = to_svg(&state, &log.run, &labels).unwrap();
    assert!(mermaid == include_str!("golden/run.mmd"), "golden/run.mmd should be:\n{mermaid}");
    assert!(svg == include_str!("golden/run.svg"), "golden/run.svg should be:\n{svg}");
}

#[test]
fn an_unknown_run_has_no_picture() {
    let log = Log::start("none");
    let state = log.state();
    let stranger = RunId::derived(&["stranger"]);
    assert_eq!(to_svg(&state, &stranger, &Labels::new()), None);
    assert_eq!(to_mermaid(&state, &stranger, &Labels::new()), None);
}

#[test]
fn a_long_run_is_drawn_up_to_the_limit_and_says_so() {
    let mut log = Log::start("long");
    for at in 0..DRAWN_NODES + 4 {
        log.advance(at, NodeKind::Step);
    }
    let state = log.state();
    for picture in [to_svg(&state, &log.run, &Labels::new()), to_mermaid(&state, &log.run, &Labels::new())] {
        let picture = picture.unwrap();
        assert!(picture.contains("5 later nodes are not drawn"), "{}", &picture[picture.len() - 900..]);
        assert!(picture.contains("Step 2000<") && !picture.contains("Step 2001<"));
    }
}

#[test]
fn labels_are_escaped() {
    let log = Log::start("hostile");
    let state = log.state();
    for label in ["\"]; click n0 href", "</text><script>", "a\nb\u{0}", "#quot;", "`x`", "]]>", "😀"] {
        let labels = Labels::from([(log.nodes[0].clone(), label.to_owned())]);
        let mermaid = to_mermaid(&state, &log.run, &labels).unwrap();
        assert_eq!(mermaid.lines().count(), 8, "{label:?}\n{mermaid}");
        assert_eq!(mermaid.matches('"').count(), 2, "{label:?}\n{mermaid}");
        let svg = to_svg(&state, &log.run, &labels).unwrap();
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count(), "{label:?}");
        assert!(!svg.contains("<script") && !svg.contains('\0'), "{label:?}");
    }
}

#[test]
fn a_part_of_a_run_is_drawn_with_links_and_without_style() {
    let (log, labels) = sample();
    let state = log.state();
    let address = |id: &NodeId| format!("/n/{id}?\"&");
    let whole = to_svg_part(&state, &log.run, &labels, 0..100, &address).unwrap();
    let nodes = state.nodes_of(state.run(&log.run).unwrap()).len();
    assert_eq!(whole.matches("<a href=").count(), nodes);
    assert_eq!(whole.matches("class=\"edge").count(), nodes - 1, "every node but the root has an edge");
    assert!(whole.contains("?&quot;&amp;\"") && !whole.contains("<style") && !whole.contains("#ffffff"));
    let late = to_svg_part(&state, &log.run, &labels, 3..5, &address).unwrap();
    assert_eq!(late.matches("<a href=").count(), 2);
    assert!(late.contains("edge earlier"), "a node without its parent has a short line: {late}");
    assert!(late.contains("y=\"20\""), "the first row is at the top: {late}");
    let none = to_svg_part(&state, &log.run, &labels, 70..90, &address).unwrap();
    assert_eq!(none.matches("<a href=").count(), 0);
}
