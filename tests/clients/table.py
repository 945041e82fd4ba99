"""The table of client methods in docs/conformance.md.

Usage: table.py [--write] OUTCOMES...

Compares the table with what the checks of each client saw, and fails if they differ. With `--write`, replaces it.
"""

import json
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/conformance.md"
BEGIN, END = "<!-- client methods: tests/clients/run --write -->\n", "<!-- end of client methods -->\n"


def table(clients):
    names = sorted({name for client in clients for name in client["outcomes"]})
    versions = " | ".join(client["version"] for client in clients)
    lines = [f"| Method | {versions} |", "|---" * (len(clients) + 1) + "|"]
    for name in names:
        outcomes = " | ".join(client["outcomes"].get(name, "") for client in clients)
        lines.append(f"| `{name}()` | {outcomes} |")
    works = [sum(outcome == "works" for outcome in client["outcomes"].values()) for client in clients]
    sums = " | ".join(f"{works} of {len(client['outcomes'])} work" for works, client in zip(works, clients))
    return "\n".join([*lines, f"| **all** | {sums} |", ""])


def main(arguments):
    is_writing = "--write" in arguments
    clients = [json.loads(Path(path).read_text()) for path in arguments if path != "--write"]
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    found, after = rest.split(END)
    expected = table(clients)
    if is_writing:
        PAGE.write_text(before + BEGIN + expected + END + after)
    elif found != expected:
        sys.exit(f"{PAGE}: the table of client methods is outdated; regenerate it with tests/clients/run --write")


if __name__ == "__main__":
    main(sys.argv[1:])
