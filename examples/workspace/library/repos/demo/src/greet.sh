#!/bin/sh
set -eu

while [ $# -gt 0 ]; do
    case $1 in
    --name)
        if [ -z "${2:-}" ]; then
            echo "greet: --name needs a name" >&2
            exit 2
        fi
        printf 'Hello, %s!\n' "$2"
        shift 2
        ;;
    *)
        echo "greet: unknown option $1" >&2
        exit 2
        ;;
    esac
done
