#!/bin/sh
# Stands in for a deployment. The token comes from the environment: it is never an argument.
set -eu
test -n "${GITHUB_TOKEN:-}" || { echo "GITHUB_TOKEN is not set" >&2; exit 1; }
echo "deployed $1"
