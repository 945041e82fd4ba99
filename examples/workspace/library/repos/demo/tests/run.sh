#!/bin/sh
set -eu
cd "$(dirname "$0")/.."

[ "$(./greet --name Ada --name Grace)" = "Hello, Ada!
Hello, Grace!" ]
if ./greet --name '' 2>/dev/null; then
    echo "an empty name was taken" >&2
    exit 1
fi
echo "all good"
