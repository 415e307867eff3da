#!/bin/sh
# Publishes a site that a generator builds, from CI.
#
#   publish.sh describe [OPTIONS]   between the build and the deployment: writes robots.rdf, sitemap.xml, changes.atom ... into the build
#   publish.sh notify [OPTIONS]     after the deployment: waits until it is live, and notifies search engines of what has changed
#   publish.sh run COMMAND...       all three, as in: publish.sh run rsync -rtc --delete public/ deploy@www.example.org:/var/www/html/
#
# Environment: PARLEY_BASE is the URL of the site. PARLEY_INDEXNOW, PARLEY_INDEXNOW_KEY, PARLEY_WEBSUB and so on are the options that
# "rdfgen publish --help-all" lists; set the same ones for describe and notify. PARLEY_DIR is the directory that the generator
# wrote (default public). If there is no rdfgen, RDFGEN_VERSION (default latest) is installed with Go.
set -eu
dir=${PARLEY_DIR:-public}

if ! command -v rdfgen >/dev/null; then
	GOBIN=${RUNNER_TEMP:-${TMPDIR:-/tmp}}/parley-bin
	export GOBIN
	go install "github.com/parleyweb/parley/cmd/rdfgen@${RDFGEN_VERSION:-latest}"
	PATH=$GOBIN:$PATH
fi

case ${1-} in
describe)
	shift
	rdfgen publish "$dir" "$@"
	;;
notify)
	shift
	rdfgen publish "$dir" --wait-live "$@"
	;;
run)
	shift
	rdfgen publish "$dir"
	"$@"
	rdfgen publish "$dir" --wait-live
	;;
*)
	echo "usage: publish.sh describe [OPTIONS] | notify [OPTIONS] | run COMMAND..." >&2
	exit 2
	;;
esac
