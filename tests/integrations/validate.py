"""Validates each file against the schema that it names, or that its client publishes.

With an argument, schemas are read from that folder (by the last part of their address) and not from the network.
"""

import json
import pathlib
import sys
import urllib.request

import jsonschema

ROOT = pathlib.Path(__file__).parents[2]
PLUGIN_SCHEMA = "https://json.schemastore.org/claude-code-plugin-manifest.json"
FILES = [
    ".claude-plugin/marketplace.json",
    "integrations/claude-code/.claude-plugin/plugin.json",
    "server.json",
]


def schema(address):
    if len(sys.argv) > 1:
        return json.loads((pathlib.Path(sys.argv[1]) / address.rsplit("/", 1)[1]).read_text())
    with urllib.request.urlopen(address, timeout=30) as answer:
        return json.load(answer)


def check(name, document, against):
    jsonschema.validators.validator_for(against)(against).validate(document)
    print(f"{name} is valid")


for name in FILES:
    document = json.loads((ROOT / name).read_text())
    check(name, document, schema(document["$schema"]))

# Hooks and servers in files of their own are checked as members of a manifest that has them inline.
for name, member in [("hooks/hooks.json", "hooks"), (".mcp.json", "mcpServers")]:
    path = f"integrations/claude-code/{name}"
    content = json.loads((ROOT / path).read_text())[member]
    check(path, {"name": "interlock", member: content}, schema(PLUGIN_SCHEMA))
